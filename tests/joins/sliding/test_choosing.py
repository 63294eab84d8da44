"""``algorithm="auto"``: by thresholds for each subwindow, by the cost model for whole windows."""

import json
from dataclasses import asdict, replace
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.calibration import structure_costs as cost_measurement
from streamjoin.calibration import structures as calibration
from streamjoin.calibration.structures import STRUCTURES, Cost, calibrate, threshold
from streamjoin.choice import structure as choosing
from streamjoin.choice.calibration_file import (
    DEFAULTS,
    VARIABLE,
    Calibration,
    load_calibration,
    save_calibration,
)
from streamjoin.choice.structure import describe_subwindows
from streamjoin.choice.structure_costs import DEFAULT_COSTS
from streamjoin.choice.window_costs import WindowCosts
from streamjoin.indexes.catalogue import WHOLE_WINDOWS
from streamjoin.joins.build import make_engine
from streamjoin.joins.sliding.static import join_prepared
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.limits import Limits, use_limits
from streamjoin.plans.preparing import prepare
from tests.choice.test_structure_costs import NO_INDEX
from tests.joins.small_streams import CONDITIONS, conditions, fitting, run, steps_of, streams
from tests.oracle import join_by_count, join_by_time

SMALL = Limits(least_counted_rows=4, least_timed_rows=4)
OFTEN = replace(SMALL, least_rows_per_choice=2)
random = settings(max_examples=60, suppress_health_check=list(HealthCheck))
crossable = conditions.filter(lambda name: fitting(name, "spo_join") == name)


@pytest.fixture(autouse=True)
def calibrated(monkeypatch, tmp_path):
    """Let all three structures of subwindows have their turn."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "folder" / "calibration.json"))
    save_calibration(
        Calibration(large_batch=6, many_matches=100, measured="2026-01-31", costs=NO_INDEX)
    )
    with use_limits(SMALL):
        yield


def join_batches(manager, left, right):
    sides = {"left": left, "right": right}
    prepared = {side: prepare(manager.plan, side, batch) for side, batch in sides.items()}
    return list(join_prepared(manager, prepared))


def rows(*values):
    return pa.table({"x": pa.array(np.concatenate(values))})


def structures(join):
    return [each.structure for each in join._state.engine.chains["left"]]


@random
@given(data=st.data(), name=conditions, before=st.integers(0, 8), counted=st.booleans())
def test_results_do_not_depend_on_the_choice(data, name, before, counted):
    left, right = data.draw(streams())
    text, predicate = CONDITIONS[name]
    steps = data.draw(steps_of(left, right))
    saves = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    if counted:
        join = sj.StreamJoin(text, sj.CountWindow(9), threads=1)
        assert run(join, steps, saves)[0] == join_by_count(steps, predicate, 9, 9)
    else:
        window = sj.TimeWindow(before=before, after=3)
        join = sj.StreamJoin(text, window, time="t", threads=1)
        assert run(join, steps, saves)[0] == join_by_time(left, right, predicate, before, 3)


LARGE_SHARE = replace(DEFAULT_COSTS, b_insert=60_000)  # rows of large batches cost an index much


@random
@given(data=st.data(), name=conditions)
def test_results_do_not_depend_on_a_switch_of_whole_windows(data, name):
    """Batches of one row go into an index of the whole window, larger ones into subwindows."""
    save_calibration(Calibration(1, 1, "2026-01-31", LARGE_SHARE))
    with use_limits(OFTEN):
        test_results_do_not_depend_on_the_choice.hypothesis.inner_test(data, name, 0, counted=True)


@settings(random, max_examples=30)
@given(data=st.data(), name=crossable, counted=st.booleans(), seed=st.integers(0, 99))
def test_results_do_not_depend_on_a_switch_to_two_parts_and_back(data, name, counted, seed):
    """Windows of every kind, some by two parts at once, beside each other in one chain."""
    costs, dice = data.draw(st.sampled_from([NO_INDEX, LARGE_SHARE])), Random(seed)
    save_calibration(Calibration(6, 100, "2026-01-31", costs))
    inner = test_results_do_not_depend_on_the_choice.hypothesis.inner_test
    with (
        use_limits(OFTEN),
        patch.object(choosing, "costs_less", lambda *_: dice.random() < 0.5),
    ):
        inner(data, name, 2, counted)


def kinds(join):
    return ["whole" if name in WHOLE_WINDOWS else name for name in structures(join)]


def push_random(join, generator, size, pushes):
    """Push batches of both sides."""
    for _ in range(pushes):
        join.push(*(rows(generator.integers(0, 1000, size)) for _ in range(2)))


def test_a_whole_window_looks_again_and_switches_to_and_fro(monkeypatch):
    monkeypatch.undo()
    save = Calibration(1, 1, "2026-01-31")
    monkeypatch.setattr("streamjoin.joins.sliding.chain.load_calibration", lambda: save)
    with use_limits(Limits()):
        join = sj.StreamJoin("abs(l.x - r.x) <= 0", sj.CountWindow(4096), threads=1)
    generator = np.random.default_rng(5)
    push_random(join, generator, 64, 100)
    assert kinds(join) == ["whole"]
    push_random(join, generator, 1 << 14, 3)
    assert kinds(join)[-1] == "bi_sort"
    push_random(join, generator, 64, 200)
    assert kinds(join) == ["whole"]


def test_only_count_windows_are_kept_whole():
    save_calibration(Calibration(1, 1, "2026-01-31"))
    for window, time in ((sj.TimeWindow(5), "x"), (sj.CountWindow(4096), None)):
        join = sj.StreamJoin("abs(l.x - r.x) <= 1", window, time=time, threads=1)
        join.push(rows(range(64)), rows(range(64)))
        assert kinds(join) == ["whole" if isinstance(window, sj.CountWindow) else "bi_sort"]


def test_large_batches_small_ones_and_rising_keys():
    join = sj.StreamJoin("abs(l.x - r.x) <= 1", sj.CountWindow(40), threads=1)
    join.push(rows(range(0, 5000, 1000)), rows([0]))
    assert structures(join) == ["rap_table"]
    for first in range(10_000, 100_000, 10_000):
        join.push(rows(range(first, first + 5000, 1000)))
    assert "wib_tree" in structures(join)
    for _ in range(2):
        join.push(rows(np.arange(0, 10**6, 10**4)))
    assert structures(join)[-1] == "bi_sort"


def test_many_matches():
    join = sj.StreamJoin("l.x < r.x", sj.CountWindow(10_000), threads=1)
    join.push(rows(range(5)), rows(range(100, 105)))
    for _ in range(1100):
        join.push(rows(range(5)))
    assert structures(join)[0] == "rap_table"
    assert structures(join)[-1] == "bi_sort"


def test_explain_tells_the_rule():
    text = sj.explain("abs(l.x - r.x) <= 1")
    assert "auto: bi_sort for batches with 6 or more rows, or 100 or more matches per probe" in text
    assert "measured on this machine, 2026-01-31" in text


def test_without_a_calibration_there_are_defaults(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))
    assert load_calibration() == DEFAULTS
    assert "streamjoin calibrate" in sj.explain("abs(l.x - r.x) <= 1")


@pytest.mark.parametrize("text", ["", "[]", '{"large_batch": "many"}'])
def test_a_broken_calibration_is_named(monkeypatch, tmp_path, text):
    path = tmp_path / "broken.json"
    path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(sj.StreamJoinError, match=r"is not a calibration.*streamjoin calibrate"):
        load_calibration()


def test_a_calibration_without_costs_is_still_read(tmp_path, monkeypatch):
    path = tmp_path / "old.json"
    path.write_text('{"large_batch": 6, "many_matches": 100, "measured": "2025-01-31"}')
    monkeypatch.setenv(VARIABLE, str(path))
    assert load_calibration() == Calibration(6, 100, "2025-01-31", DEFAULT_COSTS)


def test_a_calibration_with_other_costs_is_named(tmp_path, monkeypatch):
    path = tmp_path / "other.json"
    saved = asdict(Calibration(6, 100, "2025-01-31"))
    del saved["costs"]["miss"]
    path.write_text(json.dumps(saved))
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(sj.StreamJoinError, match=r"the costs should be.*streamjoin calibrate"):
        load_calibration()


def test_explain_tells_where_a_whole_window_is_chosen():
    save_calibration(Calibration(1, 1, "2026-01-31"))
    assert "rows in windows of" not in sj.explain("abs(l.x - r.x) <= 1")
    text = sj.explain("abs(l.x - r.x) <= 1", sj.CountWindow(1000))
    assert "rows in windows of 4,096" in text
    assert "otherwise bi_sort, which is the fastest" in text


def test_thresholds_follow_from_costs():
    def costs(*totals):
        return [
            Cost(name, batch, 1, cost, 0)
            for batch, row in zip((1, 8, 64), totals, strict=True)
            for name, cost in zip(STRUCTURES, row, strict=True)
        ]

    def least(*totals):
        return threshold(costs(*totals), (1, 8, 64), lambda cost: cost.batch)

    assert least((9, 5, 7), (6, 5, 7), (5, 9, 9)) == 64
    assert least((9, 5, 7), (5, 5, 7), (5, 9, 9)) == 8
    assert least((5, 5, 7), (5, 5, 7), (5, 9, 9)) == 1
    assert least((5, 5, 7), (5, 5, 7), (9, 5, 9)) == float("inf")


def test_a_calibration_is_written_and_read(monkeypatch):
    monkeypatch.setattr(calibration, "SECONDS", 0.01)
    monkeypatch.setattr(calibration, "BATCHES", (64, 1024))
    monkeypatch.setattr(cost_measurement, "TURNS", 3)
    monkeypatch.setattr(cost_measurement, "ROUNDS", 4)
    monkeypatch.setattr(calibration, "measure_windows", lambda seed: WindowCosts(threads=7))
    thresholds, costs = calibrate(rows=1 << 14)
    assert thresholds.windows.threads == 7
    assert {cost.structure for cost in costs} == set(STRUCTURES)
    path = save_calibration(thresholds)
    assert load_calibration() == thresholds
    assert json.loads(path.read_text())["measured"] == thresholds.measured


def test_the_rule_in_words():
    any_size = describe_subwindows(Calibration(1, 1))
    assert any_size == "bi_sort, which is the fastest for batches of any size"
    few = describe_subwindows(Calibration(float("inf"), float("inf")))
    assert few == "rap_table, or wib_tree if keys keep rising"


# Two parts at once.


def two_columns(generator, size, noise):
    """Two numbers that grow together: of two inequalities, each holds for half of the pairs."""
    a = generator.integers(0, 10**6, size)
    return pa.table({"a": a, "b": a + generator.integers(0, noise, size), "t": np.arange(size)})


CROSSED, BAND = "l.a < r.a and l.b > r.b", "abs(l.a - r.a) <= 2 and l.b > r.b"
WINDOWS = [sj.CountWindow(1 << 16), sj.TimeWindow(10**9), None]


def chosen(on, window, noise=1000, size=4096, pushes=1):
    """The structures and the layout that a join with batches of this size has chosen."""
    generator = np.random.default_rng(8)
    sides = [[two_columns(generator, size, noise) for _ in range(2)] for _ in range(pushes)]
    if window is not None:
        time = "t" if isinstance(window, sj.TimeWindow) else None
        join = sj.StreamJoin(on, window, time=time, threads=1)
        for left, right in sides:
            join.push(left, right)
        chain = join._state.engine.chains["left"]
        return {each.structure for each in chain}, chain.layout
    left, right = (side.combine_chunks().to_batches()[0] for side in sides[0])
    engine = make_engine(JoinOptions.check(on, None), {"left": left.schema, "right": right.schema})
    join_batches(engine.manager, left, right)
    return {engine.chains["left"].structure}, engine.chains["left"].layout


@pytest.fixture
def real_sizes():
    save_calibration(Calibration(1, 1, "2026-01-31"))
    with use_limits(Limits()):
        yield


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_two_inequalities_of_which_few_pairs_pass_both(window, real_sizes):
    structures, layout = chosen(CROSSED, window)
    assert structures == {"spo_join"}
    assert layout.parts == {0, 1}
    # Where they pass both or neither: to write matches costs less than to check candidates.
    assert chosen("l.a < r.a and l.b < r.b", window)[0] == {"spo_join"}


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_one_selective_band_is_enough(window, real_sizes):
    structures, layout = chosen(BAND, window)
    assert "spo_join" not in structures
    assert layout.crossed is None
    assert layout.range_part == 0


def test_one_part_cannot_be_crossed(real_sizes):
    assert "spo_join" not in chosen("l.a < r.a", sj.CountWindow(1 << 16))[0]
    assert "spo_join" not in chosen("l.a = r.a", None)[0]


def test_small_windows_are_not_worth_two_orders(real_sizes):
    assert "spo_join" not in chosen(CROSSED, sj.CountWindow(100), size=16, pushes=20)[0]
    assert chosen(CROSSED, sj.CountWindow(1 << 16), size=16, pushes=20)[0] == {"spo_join"}


def test_the_part_that_holds_fewer_is_looked_at(real_sizes):
    on = "l.a < r.a and abs(l.b - r.b) <= 100000 and l.t <> r.t"
    generator = np.random.default_rng(8)
    left, right = (two_columns(generator, 4096, 1000).to_batches()[0] for _ in range(2))
    config = JoinOptions.check(on, None, algorithm="spo_join")
    engine = make_engine(config, {"left": left.schema, "right": right.schema})
    join_batches(engine.manager, left, right)
    layout, parts = engine.chains["left"].layout, engine.plan.ranges
    assert parts[layout.crossed].bounded
    assert len(parts[layout.range_part].exact) == 1  # nearly all pairs pass the third part
    assert not parts[layout.range_part].bounded
