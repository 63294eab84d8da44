"""``algorithm="auto"`` in windows that close: it looks at the streams, and changes its mind."""

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.choice import algorithm as adviser
from streamjoin.choice.calibration_file import VARIABLE, Calibration, save_calibration
from streamjoin.choice.window_costs import Spent, WindowCosts

LINE = (1e6, 1e6, 1e6)  # ns: a thousand tuples keep SHJ busy for a second
COSTS = WindowCosts(2, Spent(LINE, (0.0,) * 3), few_rows=1_000)
ROWS = 100  # of a side in each window, which is a second long


@pytest.fixture(autouse=True)
def calibrated(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "calibration.json"))
    save_calibration(Calibration(1, 1, "2026-01-31", windows=COSTS))


def rows(window, keys):
    times = 1_000 * window + np.arange(len(keys)) * 999 // max(len(keys), 1)
    return pa.table({"k": pa.array(keys, pa.int64()), "t": pa.array(times, pa.int64())})


def make(emit, optimize="throughput", threads=2, **arguments):
    window = sj.TumblingWindow("1 second")
    return sj.StreamJoin(
        "l.k = r.k", window, time="t", emit=emit, optimize=optimize, threads=threads, **arguments
    )


def run_window(join, number, seconds, clock):
    """Push a window whose rows take so long, and close it; return its matches and algorithm."""
    keys = np.arange(ROWS) + ROWS * number
    found = join.push(rows(number, keys), rows(number, keys)).num_rows
    join._state.engine.executor.adviser.clock = lambda: clock[0]
    decision = join.stats.decision
    clock[0] += seconds
    found += join.advance(1_000 * (number + 1)).num_rows
    return found, decision.algorithm


@pytest.mark.parametrize(
    ("emit", "optimize", "expected"),
    [
        ("eager", "throughput", ["shj_jb", "shj_jm", "pmj_jb", "shj_jm"]),
        ("auto", "throughput", ["prj", "shj_jm", "npj", "shj_jm"]),
        ("auto", "latency", ["shj_jb", "shj_jm", "npj", "shj_jm"]),
    ],
)
def test_it_changes_its_mind_between_windows(emit, optimize, expected):
    clock = [0.0]
    join = make(emit, optimize)
    join.push(rows(0, []), rows(0, []))
    join._state.engine.executor.adviser.clock = lambda: clock[0]
    # slow, fast, slow: each decides for the window behind it
    found = [run_window(join, at, seconds, clock) for at, seconds in enumerate((60, 0.01, 60, 60))]
    assert [matches for matches, _ in found] == [ROWS] * 4
    assert [algorithm for _, algorithm in found] == expected


@pytest.mark.parametrize(
    ("emit", "optimize", "expected"),
    [
        ("eager", "throughput", "pmj_jb"),
        ("auto", "throughput", "npj"),
        ("auto", "latency", "shj_jm"),  # it lags behind, but not by more than a window
    ],
)
def test_a_source_that_waits_for_the_join_is_not_slow(monkeypatch, emit, optimize, expected):
    """A thousand rows in 10 s would be nothing, but the join has worked for all of them."""
    clock, join = [0.0], make(emit, optimize)
    join.push(rows(0, []), rows(0, []))
    executor = join._state.engine.executor
    executor.adviser.clock = lambda: clock[0]
    keep = executor._insert

    def work(batches):
        clock[0] += 5.0
        keep(batches)

    monkeypatch.setattr(executor, "_insert", work)
    for first in range(0, 300, 100):  # the time of the first push is not that of its window
        keys = np.arange(first, first + 100)
        join.push(rows(0, keys), rows(0, keys))
    join.advance(1_000)
    join.push(rows(1, [1]), rows(1, [1]))
    assert join.stats.decision.algorithm == expected
    assert "and the join was busy for 100% of it" in join.stats.decision.branch[0]


def test_what_others_do_with_matches_is_not_work():
    """A reader takes 5 s for each piece of a stream; the join has rested meanwhile."""
    clock, join = [0.0], make("eager")
    join.push(rows(0, []), rows(0, []))
    engine = join._state.engine
    engine.executor.adviser.clock = lambda: clock[0]
    for first in range(0, 300, 100):
        batch = rows(0, np.arange(first, first + 100)).combine_chunks().to_batches()[0]
        for _ in engine.push_iter({"left": batch, "right": batch}):
            clock[0] += 5.0
    join.advance(1_000)
    assert engine.executor.adviser.traits.worked == 0.0


def test_windows_of_a_far_future_do_not_keep_it_from_looking(monkeypatch):
    monkeypatch.setattr(adviser, "MOST_WATCHED", 4)
    join = make("eager")
    far = pa.concat_tables([rows(number, [1]) for number in range(100, 104)])
    join.push(far, far.slice(0))
    assert list(watched(join)) == [100, 101, 102, 103]
    join.push(rows(0, [1]), rows(0, [1]))
    join.push(rows(104, [1]))
    assert sorted(watched(join)) == [0, 100, 101, 102]
    join.advance(1_000)
    join.push(rows(1, [1]), rows(1, [1]))
    assert "nothing is known" not in str(join.stats.decision)


def test_it_knows_how_many_threads_there_are():
    join = make("close", threads=2)
    join.push(rows(0, np.arange(2_000)), rows(0, np.zeros(2_000, int)))
    join.threads = 8
    join.advance(1_000)
    assert "the shares of 8.0 threads" in str(join.stats.decision)


def test_windows_that_wait_are_looked_at_when_they_close():
    join = make("close")
    join.push(rows(0, np.arange(2_000)), rows(0, np.arange(2_000)))
    assert join.stats.decision is None
    assert join.advance(1_000).num_rows == 2_000
    assert join.stats.decision.algorithm == "prj"
    assert "number of tuples: 4,000 (up to 1,000 are few)" in str(join.stats.decision)
    join.push(rows(1, [7] * 20), rows(1, [7] * 20))
    assert join.advance(2_000).num_rows == 400
    assert join.stats.decision.algorithm == "npj"


def test_a_skewed_window_is_seen_in_a_sample(monkeypatch):
    monkeypatch.setattr(adviser, "SAMPLED_ROWS", 500)
    join = make("close", threads=8)
    join.push(rows(0, np.arange(2_000)), rows(0, np.zeros(2_000, int)))
    assert join.advance(1_000).num_rows == 2_000
    assert "key skew: 99" in join.stats.decision.branch[-1]
    assert join.stats.decision.algorithm == "npj"


def test_who_names_an_algorithm_decides():
    join = make("close", algorithm="mway")
    join.push(rows(0, [1]), rows(0, [1]))
    assert join.advance(1_000).num_rows == 1
    assert join.stats.decision is None


@pytest.mark.parametrize("algorithm", ["npj", "shj_jm"])
def test_auto_emits_as_the_algorithm_does(algorithm):
    join = make("auto", algorithm=algorithm)
    pushed = join.push(rows(0, [1]), rows(0, [1])).num_rows
    assert pushed == (algorithm == "shj_jm")
    assert pushed + join.advance(1_000).num_rows == 1


def test_rows_of_several_windows_in_one_push():
    join = make("eager")
    left = pa.concat_tables([rows(at, np.arange(at + 1)) for at in range(3)])
    assert join.push(left, left.slice(0)).num_rows == 6
    assert {at: each.sketches["left"].rows for at, each in watched(join).items()} == {
        0: 1,
        1: 2,
        2: 3,
    }
    join.advance(2_000)
    assert list(watched(join)) == [2]


def watched(join):
    return join._state.engine.executor.adviser.watched


def test_a_restored_join_begins_anew():
    join = make("eager")
    join.push(rows(0, [1, 2]), rows(0, [1]))
    restored = sj.StreamJoin.restore(join.snapshot())
    assert restored.stats.decision is None
    assert restored.push(right=rows(0, [2])).num_rows == 1
    restored.push(rows(1, [1]))
    assert restored.stats.decision.algorithm == "shj_jb"


@pytest.mark.parametrize(
    ("algorithm", "optimize", "pushed"),
    [
        ("auto", "throughput", 0),
        ("auto", "latency", 1),
        ("auto", "progressiveness", 1),
        ("prj", "latency", 0),
    ],
)
def test_sessions_emit_by_what_is_wanted(algorithm, optimize, pushed):
    window = sj.SessionWindow("1 second")
    options = {"emit": "auto", "algorithm": algorithm, "optimize": optimize}
    join = sj.StreamJoin("l.k = r.k", window, time="t", **options)
    assert join.push(rows(0, [1]), rows(0, [1])).num_rows == pushed
    assert join.finish().num_rows == 1 - pushed
    told = "as rows arrive" if pushed else "when a window closes"
    assert f"results      {told}" in sj.explain("l.k = r.k", window, "t", **options)


def test_tables_and_sessions_ask_it_too():
    table = rows(0, np.arange(3_000))
    assert sj.join_tables(table, table, on="l.k = r.k").num_rows == 3_000
    assert sj.find_matches(table, table, on="l.k = r.k").count() == 3_000
    join = sj.StreamJoin("l.k = r.k", sj.SessionWindow("1 second"), time="t")
    join.push(table, table.slice(0))
    assert join.finish().num_rows == 3_000
    assert join.stats.decision.algorithm == "prj"


@pytest.mark.parametrize(
    ("emit", "optimize", "told"),
    [
        ("close", "throughput", "auto: npj for at most 1,000 rows"),
        ("eager", "throughput", "above that pmj_jm if left has less than 1/8 of right's rows"),
        ("auto", "throughput", "until then prj"),
        ("auto", "latency", "up to 180% of the time and the share that prj would be busy for"),
        ("auto", "progressiveness", "for progressiveness, by the last window"),
    ],
)
def test_explain_tells_the_branches(emit, optimize, told):
    window = sj.TumblingWindow("1 minute")
    text = sj.explain("l.k = r.k", window, "t", emit=emit, optimize=optimize)
    assert told in " ".join(text.split())
    assert "measured on this machine, 2026-01-31" in text
    assert "index        nothing:" in text
    assert "time window" not in text


def test_explain_of_windows_that_have_an_index():
    on = "l.k = r.k and l.x < r.x"
    text = sj.explain(on, sj.TumblingWindow("1 minute"), "t", emit="eager")
    assert "index        a hash of l.k = r.k, then l.x < r.x" in text
    assert "results      as rows arrive" in text


def test_explain_of_sessions_and_tuning():
    window = sj.SessionWindow("1 minute")
    text = sj.explain("l.k = r.k", window, "t", algorithm="prj", emit="auto", tuning={"bits": 9})
    assert "tuning       bits = 9" in text
    assert "results      when a window closes" in text
    assert "those of one session are joined when it closes, by l.k = r.k" in text
