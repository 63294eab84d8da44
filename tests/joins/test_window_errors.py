"""Windows that close: what is refused and how, what a failure leaves behind, what stats tell."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin import engines, snapshots
from streamjoin.advisor import EAGER, LAZY
from streamjoin.joins.eager_window import EagerWindow, Recipe

TUMBLING, SESSION = sj.TumblingWindow(10), sj.SessionWindow(10)
both_windows = pytest.mark.parametrize("window", [TUMBLING, SESSION], ids=["tumbling", "session"])
both_emits = pytest.mark.parametrize("emit", ["close", "eager"])
WAYS = [("auto", "close"), ("npj", "close"), ("auto", "eager"), *((name, None) for name in EAGER)]
every_way = pytest.mark.parametrize(("algorithm", "emit"), WAYS)


def rows(*values, first=0):
    """Rows of (k, t), or (k, t, x)."""
    filled = [value if len(value) == 3 else (*value, 1) for value in values]
    k, t, x = (pa.array([row[at] for row in filled], pa.int64()) for at in range(3))
    ids = pa.array(range(first, first + len(values)), pa.int64())
    return pa.table({"id": ids, "k": k, "t": t, "x": x})


def pairs(*results):
    found = Counter()
    for result in results:
        if "id_right" in result.schema.names:
            found.update(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))
    return found


# What is refused.


@pytest.mark.parametrize(
    ("options", "value", "way_out"),
    [
        ({"emit": "late"}, "emit='late'", "choose 'close'"),
        ({"emit": True}, "emit=True", "'eager'"),
        ({"optimize": "speed"}, "optimize='speed'", "'throughput', 'latency'"),
        ({"window": sj.TimeWindow(5), "emit": "close"}, "emit='close'", "leave it out"),
        (
            {"window": sj.CountWindow(5), "time": None, "emit": "eager"},
            "emit='eager'",
            "leave it out",
        ),
        ({"window": sj.TimeWindow(5), "algorithm": "npj"}, "'npj'", "use a TumblingWindow"),
        ({"window": sj.CountWindow(5), "time": None, "algorithm": "mway"}, "'mway'", "'auto'"),
        ({"window": SESSION, "algorithm": "shj_jm"}, "'shj_jm'", "choose 'auto'"),
        ({"window": sj.TimeWindow(5), "algorithm": "pmj_jb"}, "'pmj_jb'", "choose 'auto'"),
        ({"algorithm": "pmj_jb", "emit": "close"}, "emit='close'", "leave emit out"),
        ({"algorithm": "prj", "emit": "eager"}, "emit='eager'", "leave emit out"),
        ({"window": SESSION, "algorithm": "prj", "emit": "eager"}, "'prj'", "or choose 'auto'"),
        ({"window": sj.TimeWindow(5), "optimize": "latency"}, "='latency'", "leave it out"),
        (
            {"window": sj.CountWindow(5), "time": None, "optimize": "progressiveness"},
            "optimize='progressiveness'",
            "leave it out",
        ),
        ({"algorithm": "prj", "tuning": 3}, "tuning=3", "give a dict of knobs"),
        ({"algorithm": "prj", "tuning": 0}, "tuning=0", "give a dict of knobs"),
        ({"tuning": [("bits", 3)]}, "tuning=[('bits', 3)]", "such as {'bits': 10}"),
        ({"algorithm": "prj", "tuning": {"bits": np.True_}}, "True", "a whole number from 1"),
        ({"algorithm": "prj", "tuning": {"bits": np.int8(19)}}, "19", "to 18"),
        ({"cores": 2}, "TumblingWindow(length=10 milliseconds)", "give it threads"),
        ({"window": SESSION, "cores": 1}, "SessionWindow(gap=10 milliseconds)", "leave them out"),
        ({"ordered": "outer"}, "TumblingWindow", "leave them out"),
        ({"window": SESSION, "ordered": 5}, "SessionWindow", "leave them out"),
        ({"order": "k"}, "order='k'", "leave it out"),
        ({"window": SESSION, "order": ("k", "k")}, "order=('k', 'k')", "leave it out"),
        ({"time": None}, "TumblingWindow(length=10 milliseconds)", "time=('left_column'"),
        ({"window": SESSION, "time": None}, "SessionWindow", "time=('left_column'"),
        ({"tuning": {"bits": 3}}, "algorithm='auto' has no knob 'bits'", "it has none"),
        ({"algorithm": "prj", "tuning": {"delta": 3}}, "{'delta': 3}", "it has 'bits'"),
        ({"algorithm": "prj", "tuning": {"bits": 0}}, "{'bits': 0}", "a whole number from 1"),
        ({"algorithm": "prj", "tuning": {"bits": 40}}, "{'bits': 40}", "to 18"),
        ({"algorithm": "pmj_jm", "tuning": {"delta": 2.5}}, "2.5", "a whole number from 1"),
        ({"algorithm": "pmj_jb", "tuning": {"delta": True}}, "True", "a whole number from 1"),
        ({"algorithm": "shj_jb", "tuning": {"group": 2}}, "groups of 2", "a divisor of 3"),
        ({"algorithm": "no_such"}, "'no_such'", "'shj_jm'"),
        ({"window": "10 minutes"}, "window='10 minutes'", "TumblingWindow('1 minute')"),
        ({"window": None}, "needs a window", "join_tables"),
    ],
)
def test_refusals_give_the_value_and_the_way_out(options, value, way_out):
    options = {"on": "l.k = r.k", "window": TUMBLING, "time": "t", "threads": 3, **options}
    with pytest.raises(sj.StreamJoinError) as caught:
        sj.StreamJoin(**options)
    assert value in str(caught.value)
    assert way_out in str(caught.value)


def test_knobs_may_be_numpy_integers():
    join = sj.StreamJoin("l.k = r.k", TUMBLING, "t", "prj", tuning={"bits": np.uint8(16)})
    assert join._state.config.tuning == (("bits", 16),)
    join.push(rows((1, 1)), rows((1, 1)))
    assert sj.StreamJoin.restore(join.snapshot()).finish().num_rows == 1


@pytest.mark.parametrize("option", [{"emit": "close"}, {"optimize": "latency"}])
def test_tables_have_no_time_to_emit_at(option):
    (name, value), *_ = option.items()
    with pytest.raises(sj.WindowError, match=f"^{name}='{value}' is for windows that close") as it:
        sj.explain("l.k = r.k", **option)
    assert "all together, since all rows of tables are there" in str(it.value)


def test_explain_of_sessions_says_once_when_rows_are_joined():
    text = sj.explain("l.k = r.k", SESSION, "t", emit="eager")
    assert "rows wait" not in text
    assert "as they come, rows of one session are joined by l.k = r.k" in text
    assert "rows wait, and those of one session" in sj.explain("l.k = r.k", SESSION, "t")


def test_threads_that_a_group_does_not_divide():
    options = {"algorithm": "pmj_jb", "tuning": {"group": 2}, "threads": 4}
    join = sj.StreamJoin("l.k = r.k", TUMBLING, "t", **options)
    with pytest.raises(sj.StreamJoinError, match="give a divisor of 3"):
        join.threads = 3
    join.threads = 2
    assert join.push(rows((1, 1)), rows((1, 1))).num_rows + join.finish().num_rows == 1


@pytest.mark.parametrize("algorithm", EAGER)
@pytest.mark.parametrize("window", [{}, {"window": TUMBLING, "time": "t"}])
def test_eager_algorithms_do_not_join_tables(algorithm, window):
    told = f"{algorithm}.* all there at once; choose one of 'npj', .*, or leave algorithm out"
    for join in (sj.join_tables, sj.find_matches):
        with pytest.raises(sj.StreamJoinError, match=told):
            join(rows((1, 1)), rows((1, 1)), "l.k = r.k", algorithm=algorithm, **window)
    if not window:
        with pytest.raises(sj.StreamJoinError, match=told):
            sj.explain("l.k = r.k", algorithm=algorithm)


@pytest.mark.parametrize("window", [{}, {"window": TUMBLING, "time": "t"}])
def test_tables_take_the_knobs_of_an_algorithm(window, monkeypatch):
    seen, make = [], engines.make_lazy

    def making(name, threads, **knobs):
        seen.append((name, knobs))
        return make(name, threads, **knobs)

    monkeypatch.setattr(engines, "make_lazy", making)
    sides, options = [rows((1, 1), (2, 2)), rows((2, 3))], {"tuning": {"bits": 3}, **window}
    assert sj.join_tables(*sides, "l.k = r.k", algorithm="prj", **options).num_rows == 1
    assert sj.find_matches(*sides, "l.k = r.k", algorithm="prj", **options).count() == 1
    assert seen == [("prj", {"bits": 3})] * 2
    with pytest.raises(sj.StreamJoinError, match="has no knob 'bits'; it has 'run_rows'"):
        sj.join_tables(*sides, "l.k = r.k", algorithm="mway", **options)


@pytest.mark.parametrize("algorithm", [*LAZY, *EAGER])
@pytest.mark.parametrize(
    "on", ["abs(l.k - r.k) <= 1", "l.k < r.k", "l.k * r.x = l.x", "l.k = 1 and l.k <> r.k"]
)
def test_algorithms_by_equality_need_one_in_the_condition(algorithm, on):
    """They would compare every pair otherwise; the number of the window is no such equality."""
    with pytest.raises(sj.ConditionError) as caught:
        sj.StreamJoin(on, TUMBLING, "t", algorithm)
    told = on.split(" and ")[-1]
    for each in (repr(algorithm), told, "leave algorithm out", "(l.a = r.a)"):
        assert each.lower() in str(caught.value).lower()
    with pytest.raises(sj.ConditionError, match="joins by equality"):
        sj.explain(on, TUMBLING, "t", algorithm)
    if algorithm in LAZY:
        for join in (sj.join_tables, sj.find_matches):
            with pytest.raises(sj.ConditionError, match="joins by equality"):
                join(rows((1, 1)), rows((1, 1)), on, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ["npj", "shj_jm"])
def test_names_without_an_alias_may_be_an_equality_once_columns_are_known(algorithm):
    names = {"left": ["a", "t"], "right": ["b", "t"]}
    sides = {side: pa.table([[1], [1]], each) for side, each in names.items()}
    join = sj.StreamJoin("a = b", TUMBLING, "t", algorithm)
    assert join.push(**sides).num_rows + join.finish().num_rows == 1
    join = sj.StreamJoin("a <= b", TUMBLING, "t", algorithm)
    with pytest.raises(sj.ConditionError, match="joins by equality"):
        join.push(**sides)


@pytest.mark.parametrize("algorithm", ["prj", "pmj_jb"])
def test_explain_tells_that_algorithms_by_equality_check_bands_over_pairs(algorithm):
    text = sj.explain("l.k = r.k and abs(l.x - r.x) <= 1", TUMBLING, "t", algorithm)
    index, filters = (
        next(line for line in text.splitlines() if line.startswith(name))
        for name in ("index", "filter")
    )
    assert "nothing: " in index
    assert index.endswith("joined by l.k = r.k")
    assert filters.endswith(" ABS(l.x - r.x) <= 1")


@both_windows
@both_emits
def test_an_index_by_two_ranges_needs_two_in_the_condition(window, emit):
    """The window is none of them here: it is cut out before."""
    options = {"window": window, "time": "t", "algorithm": "spo_join", "emit": emit}
    join = sj.StreamJoin("l.k < r.k", **options)
    with pytest.raises(sj.ConditionError, match="has 1, a TimeWindow counted"):
        join.push(rows((1, 1)), rows((2, 1)))
    join = sj.StreamJoin("l.k < r.k and l.x <= r.x", **options)
    found = join.push(rows((1, 1), (3, 2)), rows((2, 1))).num_rows
    found += join.push(rows((1, 3)), rows((4, 3, 0))).num_rows
    assert found + join.finish().num_rows == 2


@both_windows
def test_times_that_do_not_fit(window):
    join = sj.StreamJoin("l.k = r.k", window, time="t")
    with pytest.raises(sj.SchemaError, match="cast it first"):
        join.push(pa.table({"k": [1], "t": [1.5]}), pa.table({"k": [1], "t": [1.5]}))
    join = sj.StreamJoin("l.k = r.k", window, time="t")
    join.push(rows((1, 1)), rows((1, 1)))
    for watermark in ("now", None, True, 1.5):
        with pytest.raises(sj.WindowError, match="no time"):
            join.advance(watermark)
    assert join.finish().num_rows == 1


# What a failure leaves behind.

DIVIDES = "l.k = r.k and 10 / (l.x + r.x) > 1"


@every_way
@pytest.mark.parametrize("threads", [1, 2])
def test_a_push_that_fails_changes_nothing(algorithm, emit, threads):
    knobs = {"tuning": {"delta": 2}} if algorithm.startswith("pmj") else {}
    options = {"algorithm": algorithm, "emit": emit, "threads": threads, **knobs}
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", **options)
    results = [join.push(rows((1, 1), (2, 12)), rows((1, 2), first=100))]
    good, bad = rows((1, 3), (2, 13), first=200), rows((1, 4), (2, 14, -1), (5, 25), first=200)
    before = join.stats
    if join._state.config.emit == "close":  # only the end of the window can fail
        assert join.push(right=bad).num_rows == 0
        with pytest.raises(sj.EvaluationError) as caught:
            join.finish()
        assert "the window that failed is dropped" in caught.value.__notes__[-1]
        assert join.stats.live_left == 0
        assert pairs(caught.value.results) == Counter([(0, 100), (0, 200)])
        return
    # The row of window 1 that came with it is fine; those of windows 1 and 3 go too.
    if algorithm.startswith("pmj"):
        bad = pa.concat_tables([bad, bad])
    with pytest.raises(sj.EvaluationError):
        results.append(join.push(right=bad))
    after = join.stats
    assert (after.live_left, after.live_right) == (before.live_left, before.live_right)
    assert (after.subwindows, after.matches) == (before.subwindows, before.matches)
    assert (after.rows_right, after.late) == (before.rows_right, before.late)
    results.append(join.push(right=good))
    join = sj.StreamJoin.restore(join.snapshot())
    results += [join.push(left=rows((1, 9), (2, 19), first=10)), join.finish()]
    expected = {(0, 100), (0, 200), (1, 201), (10, 100), (10, 200), (11, 201)}
    assert pairs(*results) == Counter(expected)


@both_emits
def test_a_failed_push_into_sessions_changes_nothing(emit):
    join = sj.StreamJoin(DIVIDES, SESSION, "t", emit=emit, threads=1)
    results = [join.push(rows((1, 1)), rows((1, 2), first=100))]
    if emit == "eager":
        with pytest.raises(sj.EvaluationError):
            join.push(left=rows((1, 5), first=50), right=rows((1, 4, -1), first=200))
        assert (join.stats.live_left, join.stats.live_right, join.stats.subwindows) == (1, 1, 1)
    results += [join.push(right=rows((1, 12), first=300)), join.finish()]
    assert pairs(*results) == Counter([(0, 100), (0, 300)])


@both_windows
def test_windows_that_fail_when_they_close_are_dropped_and_the_join_goes_on(window):
    join = sj.StreamJoin(DIVIDES, window, "t", threads=1)
    join.push(rows((1, 1), (1, 101)), rows((1, 2, -1), (1, 102), first=100))
    with pytest.raises(sj.EvaluationError) as caught:
        join.advance(50)
    assert "the window that failed is dropped, with all" in caught.value.__notes__[-1]
    assert (join.stats.live_left, join.stats.live_right, join.stats.subwindows) == (1, 1, 1)
    join = sj.StreamJoin.restore(join.snapshot())
    assert join.push(left=rows((1, 49))).num_rows == 0
    assert join.stats.late == 1
    assert pairs(join.advance(200)) == Counter([(1, 101)])
    join.push(rows((1, 201)), rows((1, 202)))
    assert join.finish().num_rows == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("window", "algorithm"), [(TUMBLING, "auto"), (TUMBLING, "pmj_jb"), (SESSION, "auto")]
)
def test_windows_that_fail_take_no_others_with_them(window, algorithm, threads):
    """Of nine windows that close together the third and the eighth cannot be computed."""
    join = sj.StreamJoin(DIVIDES, window, "t", algorithm=algorithm, threads=threads)
    failing = [0 if number not in (2, 7) else -1 for number in range(9)]
    left = rows(*((1, 100 * number + 1) for number in range(9)))
    right = rows(*((1, 100 * number + 2, x) for number, x in enumerate(failing)), first=100)
    join.push(left, right)
    with pytest.raises(sj.EvaluationError) as caught:
        join.finish()
    assert "2 windows are dropped" in caught.value.__notes__[-1]
    assert pairs(caught.value.results) == Counter(
        (number, 100 + number) for number in range(9) if number not in (2, 7)
    )
    assert (join.stats.live_left, join.stats.live_right) == (0, 0)


def test_an_error_has_the_matches_that_were_found_before_it():
    """Of a push that closes a window which fails: its own, and those of windows that closed."""
    options = {"algorithm": "pmj_jb", "tuning": {"delta": 3}, "threads": 1, "delay": 0}
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", **options)
    join.push(rows((1, 1), (1, 11)), rows((1, 2), first=100))
    with pytest.raises(sj.EvaluationError) as caught:  # 0 and 1 close; 1 fails
        join.push(rows((1, 31), (1, 32), first=50), rows((1, 12, -1), (1, 33), first=200))
    assert pairs(caught.value.results) == Counter([(0, 100), (50, 201), (51, 201)])
    assert join.stats.matches == 3
    with pytest.raises(sj.StreamJoinError) as caught:
        join.push(left=pa.table({"other": [1]}))
    assert caught.value.results is None


@pytest.mark.parametrize("act", ["flush", "finish"])
def test_an_error_has_the_matches_of_rows_that_waited(act):
    options = {"emit": "eager", "algorithm": "pmj_jb", "tuning": {"delta": 3}, "threads": 1}
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", batch_rows=100, **options)
    join.push(rows((1, 1), (1, 21), (1, 22)), rows((1, 2, -1), (1, 23), first=100))
    join.advance(15)
    with pytest.raises(sj.EvaluationError) as caught:
        getattr(join, act)()
    assert pairs(caught.value.results) == Counter([(1, 101), (2, 101)])


def test_rows_that_wait_and_fail_are_dropped():
    for emit in ("close", "eager"):
        join = sj.StreamJoin(DIVIDES, TUMBLING, "t", threads=1, emit=emit, batch_rows=3)
        join.push(rows((1, 1)), rows((1, 2, -1), first=100))
        if emit == "close":
            join.push(left=rows((3, 3)))  # now none waits any more
        with pytest.raises(sj.EvaluationError):
            join.advance(10) if emit == "close" else join.flush()
        assert (join.stats.waiting, join.stats.live_left) == (0, 0)
        join.push(rows((1, 21)), rows((1, 22)))
        assert join.finish().num_rows == 1


def test_results_of_find_may_fail_later():
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", emit="eager")
    join.push(rows((1, 1)), rows((9, 1)))
    results = join.find(right=rows((1, 2, -1), (1, 3)))
    with pytest.raises(sj.EvaluationError):
        results.count()
    assert join.find(right=rows((1, 4))).count() == 1
    join.push()
    with pytest.raises(sj.StreamJoinError, match="these results are gone"):
        results.count()


# Windows of both kinds side by side, as `emit="auto"` may choose.


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    lazy=st.sets(st.integers(0, 4)),
    save=st.sets(st.integers(0, 5)),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 49)), min_size=1, max_size=20),
)
def test_a_choice_for_each_window(lazy, save, steps):
    """What is decided when a window opens holds until it closes, in a restored join too."""

    def choose(join):
        executor = join._state.engine.join

        def open_window(sides):
            [time] = [int(batch.times[0]) for batch in sides.values()]
            plan = executor.closed.within_one
            return None if time // 10 in lazy else EagerWindow(plan, Recipe("pmj_jb", 1))

        executor.open_window = open_window
        return join

    join = sj.StreamJoin("l.k = r.k", TUMBLING, "t", algorithm="pmj_jb", tuning={"delta": 3})
    join.push(rows(), rows())
    choose(join)
    results, sides = [], ([], [])
    for number, (is_left, time) in enumerate(steps):
        if number in save:
            join = choose(sj.StreamJoin.restore(join.snapshot()))
        sides[is_left].append((number, time // 10))
        row = rows((1, time), first=number)
        results.append(join.push(**{"left" if is_left else "right": row}))
    expected = [(a, b) for a, one in sides[1] for b, other in sides[0] if one == other]
    assert pairs(*results, join.finish()) == Counter(expected)


# Stats, schema, memory, streams, snapshots.


@both_windows
@both_emits
def test_stats(window, emit):
    join = sj.StreamJoin("l.k = r.k", window, "t", emit=emit)
    assert join.schema is None
    waiting = join.push(left=rows((1, 1), (1, 41), (None, 1)))
    assert (waiting.num_rows, waiting.schema.names) == (0, ["id", "k", "t", "x"])
    assert join.advance(0).schema.names == ["id", "k", "t", "x"]
    assert (join.stats.live_left, join.stats.subwindows) == (3, 0)
    found = join.push(right=rows((1, 2), (1, 60), (1, None), (1, -1)))
    assert found.schema == join.schema
    stats = join.stats
    assert (stats.rows_left, stats.rows_right, stats.late, stats.null_times) == (3, 4, 1, 1)
    assert (stats.live_left, stats.live_right, stats.subwindows) == (2, 2, 3)
    assert stats.bytes > 0
    assert stats.matches == found.num_rows == (emit == "eager")
    closed = join.advance(50)
    assert closed.schema == join.schema
    stats = join.stats
    assert (stats.matches, closed.num_rows) == (1, emit == "close")
    # a session at 41 is open until 52, a window until 50
    open_left = 1 if window == SESSION else 0
    assert (stats.live_left, stats.live_right) == (open_left, 1)
    assert stats.subwindows == 1 + open_left
    assert join.finish().schema == join.schema
    assert (join.stats.live_left, join.stats.live_right, join.stats.bytes) == (0, 0, 0)


@both_windows
@every_way
def test_rows_of_closed_windows_are_forgotten(window, algorithm, emit):
    if window == SESSION and algorithm in EAGER:
        return
    join = sj.StreamJoin("l.k = r.k", window, "t", algorithm, emit=emit, delay=0, threads=1)
    live, found = [], 0
    for first in range(0, 3000, 30):
        batch = rows(*((k % 7, first + k) for k in range(10)))
        found += join.push(batch, batch.slice(0)).num_rows
        live.append((join.stats.live_left, join.stats.subwindows, join.stats.bytes))
    assert max(live) <= (20, 14, 100_000)
    assert found + join.finish().num_rows == 100 * (6 * 2 + 4)
    assert join.stats.matches == 1600


@both_windows
@both_emits
def test_a_source_as_a_stream(window, emit):
    join = sj.StreamJoin("l.k = r.k", window, "t", emit=emit, delay=5, batch_rows=3)
    batches = [rows((1, t), (2, t + 1), first=t) for t in range(0, 90, 30)]
    found = [part.rows for part in join.stream((each, each.slice(0)) for each in batches)]
    assert pairs(*found, join.finish()) == Counter(
        (t, t) for each in (0, 30, 60) for t in (each, each + 1)
    )


@both_windows
def test_a_snapshot_of_an_older_format_is_refused(window, monkeypatch):
    join = sj.StreamJoin("l.k = r.k", window, "t")
    join.push(rows((1, 1)), rows((1, 1)))
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "FORMAT", 3)
        data = join.snapshot()
    with pytest.raises(sj.SnapshotError, match=r"has format 3, .* reads 4; restore it with"):
        sj.StreamJoin.restore(data)
    assert sj.StreamJoin.restore(join.snapshot()).finish().num_rows == 1


@pytest.mark.parametrize(("algorithm", "emit"), [*WAYS, *((name, "close") for name in LAZY)])
def test_a_snapshot_holds_the_whole_configuration(algorithm, emit):
    knobs = {"pmj_jb": {"delta": 3, "group": 2}, "prj": {"bits": 4}}.get(algorithm)
    window = sj.TumblingWindow("1 day", "1 hour")
    join = sj.StreamJoin(
        "l.k = r.k", window, "t", algorithm, threads=2, emit=emit, optimize="latency", tuning=knobs
    )
    again = sj.StreamJoin.restore(join.snapshot())
    assert again._state.config == join._state.config
    header = json.loads(snapshots.read(join.snapshot()).schema.metadata[snapshots.KEY])
    assert header["format"] == snapshots.FORMAT


@both_emits
def test_a_first_push_that_fails_may_be_repeated(emit):
    """Rows of left wait until right is known; what fails then is not taken in."""
    join = sj.StreamJoin(DIVIDES, TUMBLING, "t", threads=1, emit=emit, delay=0)
    join.push(left=rows((1, 1), (1, 12)))
    join = sj.StreamJoin.restore(join.snapshot())
    with pytest.raises(sj.EvaluationError):
        join.push(right=rows((1, 2, -1), (1, 12, 1), first=100))
    found = join.push(right=rows((1, 3), (1, 13), first=200))
    assert pairs(found, join.finish()) == Counter([(0, 200), (1, 201)])
