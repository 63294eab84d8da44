"""The decision tree: each branch, on traits made by hand; and the numbers it goes by."""

import json
from dataclasses import asdict, replace
from math import inf

import numpy as np
import pytest

import streamjoin as sj
from streamjoin.calibration import window_costs as window_measurement
from streamjoin.calibration.window_costs import measure_windows
from streamjoin.choice.calibration_file import (
    VARIABLE,
    Calibration,
    load_calibration,
    save_calibration,
)
from streamjoin.choice.decision_tree import Traits, choose
from streamjoin.choice.sketches import Sketch
from streamjoin.choice.window_costs import (
    DEFAULT_WINDOW_COSTS,
    SIZES,
    Spent,
    WindowCosts,
    interpolate,
)

LINE = (100.0, 100.0, 100.0)
FREE = (0.0, 0.0, 0.0)
COSTS = WindowCosts(
    threads=2,
    eager=Spent(LINE, LINE),
    lazy=Spent((20.0, 20.0, 20.0), FREE),
    sorting=Spent((50.0, 50.0, 50.0), FREE),
    matrix=((150.0, 150.0, 150.0), LINE),
    matrix_step=200_000,
    biclique_step=260_000,
    few_rows=1_000,
    many_matches=16,
)
GOALS = ("throughput", "latency", "progressiveness")


def traits(busy=None, rows=(50_000, 50_000), **others):
    """A window of a hundred thousand rows takes SHJ 10 ms, if nothing matches."""
    seconds = 0 if busy is None else sum(rows) * 100e-9 / busy
    rates = (inf, inf) if busy is None else (rows[0] / seconds, rows[1] / seconds)
    fields = {"keys": rows, "heaviest": (0.0, 0.0), "matches": 0.0, "threads": 2}
    return Traits(rows, rates, **fields | others)


@pytest.mark.parametrize(
    ("given", "emit", "algorithm", "last"),
    [
        (traits(), "close", "prj", "key duplication: 0.0 matches/row (many: 16)"),
        (traits(), "auto", "prj", "key duplication"),
        (traits(rows=(500, 500)), "close", "npj", "number of tuples: 1,000 (up to 1,000 are few)"),
        (traits(heaviest=(0, 1)), "close", "prj", "key duplication"),
        (traits(heaviest=(0.9, 0), threads=8), "close", "prj", "key duplication"),
        (traits(heaviest=(0, 0.5), threads=8), "close", "npj", "key skew: 50.0% of the right rows"),
        (traits(matches=800_000), "close", "mpass", "key duplication: 16.0 matches/row"),
        (traits(), "eager", "pmj_jb", "number of tuples: 50,000 left and 50,000 right"),
        (traits(rows=(10_000, 90_000)), "eager", "pmj_jm", "number of tuples"),
        (traits(0.01), "close", "prj", "key duplication"),
        (traits(0.01), "auto", "shj_jm", "step: 0.21 ms over a matrix, 0.27 ms over a biclique"),
        (
            traits(0.4),
            "auto",
            "shj_jb",
            "step: a large one at the end over a matrix",
        ),
        (traits(0.2, rows=(1_000, 99_000)), "auto", "shj_jm", "step"),
        (traits(0.2, rows=(99_000, 1_000)), "auto", "shj_jb", "step"),
        (traits(0.01, matches=10_000_000), "eager", "pmj_jb", "number of tuples"),
        (traits(3), "auto", "prj", "key duplication"),
        (traits(3), "eager", "pmj_jb", "number of tuples"),
        (traits(3, matches=10_000_000), "auto", "mpass", "key duplication"),
    ],
)
def test_each_branch(given, emit, algorithm, last):
    decision = choose(given, "throughput", emit, COSTS)
    assert decision.algorithm == algorithm
    assert decision.branch[-1].startswith(last)
    assert decision.branch[0].startswith("arrival rate")
    assert decision == choose(given, "throughput", emit, COSTS)


@pytest.mark.parametrize(
    ("busy", "emit", "eager_for"),
    [
        (0.8, "auto", GOALS),
        (0.9, "auto", ("latency", "progressiveness")),
        (1.6, "auto", ("latency", "progressiveness")),  # 1.4 + 0.2 * 1.6 = 1.72
        (2.1, "auto", ("latency",)),  # 1.8 + 0.42
        (2.3, "auto", ()),
        (2.7, "eager", ("latency", "progressiveness")),  # 1.4 + 0.5 * 2.7 = 2.75
        (3.5, "eager", ("latency",)),
        (3.7, "eager", ()),
    ],
)
def test_a_medium_rate_depends_on_the_goal(busy, emit, eager_for):
    for goal in GOALS:
        decision = choose(traits(busy), goal, emit, COSTS)
        other = "pmj_jb" if emit == "eager" else "prj"
        assert decision.algorithm == ("shj_jb" if goal in eager_for else other), goal
        assert f"SHJ busy for {busy:.0%} of the time" in decision.branch[0]


def test_more_threads_keep_up_with_more():
    assert choose(traits(1.6), "throughput", "auto", COSTS).algorithm == "prj"
    assert choose(traits(1.6, threads=4), "throughput", "auto", COSTS).algorithm.startswith("shj")


def test_left_rows_over_a_matrix_probe_the_tables_of_all_threads():
    rows = (50_000, 50_000)
    two, six = (traits(1, rows, threads=threads).busy_over_matrix(COSTS) for threads in (2, 6))
    assert two == pytest.approx((150 + 100) / 200)
    assert six == pytest.approx((150 * 7 / 3 + 100) / 200 / 3)


def test_keys_that_repeat_are_in_each_table_of_a_matrix():
    costs = replace(COSTS, matrix=((0.0, 0.0, 0.0), (10.0, 20.0, 30.0)))
    rows, keys = (1 << 20, 1 << 20), (1 << 14, 1 << 14)
    given = traits(1, rows, keys=keys, threads=8)  # of 2**17 right keys in all tables
    assert given.busy_over_matrix(costs) == pytest.approx(15 / 200 / 4)


def test_traits_of_sketches():
    left, right = np.arange(30_000) // 3, np.arange(10_000)
    found = Traits.of((Sketch.of(left), Sketch.of(right)), threads=2, seconds=0.5)
    assert found.rows == (30_000, 10_000)
    assert found.rates == (60_000, 20_000)
    assert found.seconds == pytest.approx(0.5)
    assert found.keys == pytest.approx((10_000, 10_000), rel=0.15)
    assert found.matches == pytest.approx(30_000, rel=0.2)
    sample = Traits.of((Sketch.of(left[::4]), Sketch.of(right[::4])), 2, rows=(30_000, 10_000))
    assert sample.rates == (inf, inf)
    assert sample.matches == pytest.approx(30_000, rel=0.5)


def test_traits_of_a_window_with_one_side():
    found = Traits.of((Sketch.of(np.arange(100)), Sketch()), threads=2, seconds=1)
    assert found.seconds == 1
    assert found.matches == 0
    assert choose(found, "latency", "auto", COSTS).algorithm.startswith("shj")


def test_lines_go_on_beyond_what_was_measured():
    assert interpolate((10, 20, 40), SIZES[0] // 8) == 10
    assert interpolate((10, 20, 40), SIZES[1]) == pytest.approx(20)
    assert interpolate((10, 20, 40), SIZES[2] * 8) == pytest.approx(60)


def test_costs_round_trip_through_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "calibration.json"))
    saved = Calibration(1, 1, "2026-01-31", windows=replace(COSTS, many_matches=inf))
    save_calibration(saved)
    assert load_calibration() == saved


def test_a_file_from_before_has_the_default_costs(monkeypatch, tmp_path):
    path = tmp_path / "old.json"
    old = asdict(Calibration(6, 100, "2025-01-31"))
    del old["windows"]
    path.write_text(json.dumps(old))
    monkeypatch.setenv(VARIABLE, str(path))
    assert load_calibration().windows == DEFAULT_WINDOW_COSTS


@pytest.mark.parametrize("name", ["eager", "matrix", "matrix_step"])
def test_a_file_with_other_costs_is_named(monkeypatch, tmp_path, name):
    path = tmp_path / "other.json"
    saved = asdict(Calibration(6, 100, "2025-01-31"))
    saved["windows"][name] = [1, 2]
    path.write_text(json.dumps(saved))
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(sj.StreamJoinError, match="is not a calibration"):
        load_calibration()


def test_measuring(monkeypatch):
    monkeypatch.setattr(window_measurement, "SIZES", (1 << 9, 1 << 10, 1 << 11))
    monkeypatch.setattr(window_measurement, "SECONDS", 0)
    monkeypatch.setattr(window_measurement, "ROWS", (64, 128))
    monkeypatch.setattr(window_measurement, "MATCHES_ROWS", 1 << 9)
    costs = measure_windows(threads=2)
    assert costs.threads == 2
    for spent in (costs.eager, costs.lazy, costs.sorting):
        for line in (spent.tuples, spent.matches):
            assert 0 < line[0] <= line[1] <= line[2]
    for line in costs.matrix:
        assert 0 < line[0] <= line[1] <= line[2]
    assert costs.matrix_step > 0
    assert costs.few_rows in (0, 128, 256)
