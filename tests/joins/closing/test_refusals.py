"""Windows that close: what is refused, with the value and the way out."""

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.indexes.catalogue import EAGER, LAZY
from streamjoin.joins import build as engines
from tests.joins.closing.small_rows import (
    SESSION,
    TUMBLING,
    both_emits,
    both_windows,
    rows,
)


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
        ({"window": 10}, "window=10", "TumblingWindow('1 minute')"),
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
    join = sj.StreamJoin("l.k = r.k", TUMBLING, "t", algorithm="prj", tuning={"bits": np.uint8(16)})
    assert join._state.config.tuning == (("bits", 16),)
    join.push(rows((1, 1)), rows((1, 1)))
    assert sj.StreamJoin.restore(join.snapshot()).finish().num_rows == 1


@pytest.mark.parametrize("option", [{"emit": "close"}, {"optimize": "latency"}])
def test_tables_have_no_time_to_emit_at(option):
    (name, value), *_ = option.items()
    with pytest.raises(sj.WindowError, match=f"^{name}='{value}' is for windows that close") as it:
        sj.explain("l.k = r.k", **option)
    assert "all at once, since tables have all their rows from the start" in str(it.value)


def test_explain_of_sessions_says_once_when_rows_are_joined():
    text = sj.explain("l.k = r.k", SESSION, "t", emit="eager")
    assert "rows wait" not in text
    assert "rows of one session are joined as they arrive, by l.k = r.k" in text
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
    told = f"{algorithm}.* from the start; choose one of 'npj', .*, or leave algorithm out"
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
        sj.StreamJoin(on, TUMBLING, "t", algorithm=algorithm)
    told = on.split(" and ")[-1]
    for each in (repr(algorithm), told, "leave algorithm out", "(l.a = r.a)"):
        assert each.lower() in str(caught.value).lower()
    with pytest.raises(sj.ConditionError, match="joins by equality"):
        sj.explain(on, TUMBLING, "t", algorithm=algorithm)
    if algorithm in LAZY:
        for join in (sj.join_tables, sj.find_matches):
            with pytest.raises(sj.ConditionError, match="joins by equality"):
                join(rows((1, 1)), rows((1, 1)), on, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ["npj", "shj_jm"])
def test_names_without_an_alias_may_be_an_equality_once_columns_are_known(algorithm):
    names = {"left": ["a", "t"], "right": ["b", "t"]}
    sides = {side: pa.table([[1], [1]], each) for side, each in names.items()}
    join = sj.StreamJoin("a = b", TUMBLING, "t", algorithm=algorithm)
    assert join.push(**sides).num_rows + join.finish().num_rows == 1
    join = sj.StreamJoin("a <= b", TUMBLING, "t", algorithm=algorithm)
    with pytest.raises(sj.ConditionError, match="joins by equality"):
        join.push(**sides)


@pytest.mark.parametrize("algorithm", ["prj", "pmj_jb"])
def test_explain_tells_that_algorithms_by_equality_check_bands_over_pairs(algorithm):
    text = sj.explain("l.k = r.k and abs(l.x - r.x) <= 1", TUMBLING, "t", algorithm=algorithm)
    index, filters = (
        next(line for line in text.splitlines() if line.startswith(name))
        for name in ("index", "filter")
    )
    assert "nothing: " in index
    assert index.endswith(", by l.k = r.k")
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
        with pytest.raises(sj.WindowError, match="not a time"):
            join.advance(watermark)
    assert join.finish().num_rows == 1
