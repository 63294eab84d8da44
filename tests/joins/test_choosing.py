"""``algorithm="auto"``: the paper's rule, with this machine's thresholds, for each subwindow."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import join_by_count, join_by_time

import streamjoin as sj
from joins.small_streams import CONDITIONS, conditions, run, steps_of, streams
from streamjoin.calibration import STRUCTURES, Cost, calibrate, threshold
from streamjoin.joins import sizes
from streamjoin.thresholds import DEFAULTS, VARIABLE, Thresholds, load_thresholds, save_thresholds

random = settings(max_examples=60, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def calibrated(monkeypatch, tmp_path):
    """Let all three structures have their turn."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "folder" / "calibration.json"))
    save_thresholds(Thresholds(large_batch=6, many_matches=100, measured="2026-01-31"))
    monkeypatch.setattr(sizes, "FEW_ROWS", 4)
    monkeypatch.setattr(sizes, "LEAST_ROWS", 4)


def rows(*values):
    return pa.table({"x": pa.array(np.concatenate(values))})


def structures(join):
    return [each.structure for each in join._engine.chains["left"]]


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
    assert "auto: bi_sort for batches of 6 rows and more or 100 matches a probe and more" in text
    assert "measured on this machine, 2026-01-31" in text


def test_without_a_calibration_there_are_defaults(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))
    assert load_thresholds() == DEFAULTS
    assert "streamjoin calibrate" in sj.explain("abs(l.x - r.x) <= 1")


@pytest.mark.parametrize("text", ["", "[]", '{"large_batch": "many"}'])
def test_a_broken_calibration_is_named(monkeypatch, tmp_path, text):
    path = tmp_path / "broken.json"
    path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(sj.StreamJoinError, match=r"is no calibration.*streamjoin calibrate"):
        load_thresholds()


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


def test_a_calibration_is_written_and_read():
    thresholds, costs = calibrate(rows=1 << 14)
    assert {cost.structure for cost in costs} == set(STRUCTURES)
    path = save_thresholds(thresholds)
    assert load_thresholds() == thresholds
    assert json.loads(path.read_text())["measured"] == thresholds.measured


def test_the_rule_in_words():
    assert Thresholds(1, 1).describe() == "bi_sort, which is the fastest for batches of any size"
    few = Thresholds(float("inf"), float("inf")).describe()
    assert few == "rap_table, or wib_tree where keys rise all the time"
