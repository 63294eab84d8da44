"""Workloads of the intra-window study: their statistics, and that they can be drawn again."""

import numpy as np
import pytest

from benchmarks.intrawindow.inputs import (
    MINUTE,
    SECOND,
    VARIABLE,
    find_data,
    make_rovio,
    make_stock,
    spread_counts,
)
from benchmarks.intrawindow.sizes import RADIX_BITS
from benchmarks.intrawindow.workloads import (
    count_matches,
    draw_zipf,
    make_debs,
    make_micro,
    make_static_foreign,
    make_static_micro,
    make_ysb,
)
from streamjoin.joins.equality.algorithms import make_lazy

MATCHES = {"Stock 1 s": 15_598_112, "Stock 60 s": 786_396, "Rovio 6 s": 36_002_768}
MAKERS = {
    "Stock 1 s": lambda files: make_stock(1, files),
    "Stock 60 s": lambda files: make_stock(60, files),
    "Rovio 6 s": make_rovio,
}
SIDES = {  # tuples, distinct keys, distinct times, the largest spike
    "Stock 1 s": [(60_527, 894, 74, 3358), (77_227, 984, 84, 4442)],
    "Stock 60 s": [(194_341, 93_601, 12_923, 3358), (240_148, 177_461, 14_943, 4442)],
    "Rovio 6 s": [(58_300, 160, 701, 100)] * 2,
}
SMALL = {
    "micro": lambda: make_micro(20, 30, 50, 3),
    "early": lambda: make_micro(20, 20, 50, arrival_skew=1.2),
    "skewed": lambda: make_micro(20, 40, 50, 2, key_skew=1.2),
    "at rest": lambda: make_static_micro(1_000, 10),
    "foreign": lambda: make_static_foreign(100, 1_000),
    "ysb": lambda: make_ysb(20, 50),
    "debs": lambda: make_debs(5_000),
}


def sides(workload):
    return [
        (workload.left_keys, workload.left_times),
        (workload.right_keys, workload.right_times),
    ]


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_a_workload_is_what_it_says(make):
    workload, again = make(), make()
    assert workload.matches == count_matches(workload.left_keys, workload.right_keys)
    for (keys, times), (others, those) in zip(sides(workload), sides(again), strict=True):
        assert keys.size == times.size
        assert keys.min() >= 0
        assert np.all(np.diff(times) >= 0)
        assert times[-1] <= workload.window
        assert np.array_equal(keys, others)
        assert np.array_equal(times, those)


def test_each_key_of_micro_occurs_as_often_as_was_asked_for():
    for keys, _ in sides(make_static_micro(1_000, 10)):
        assert set(np.bincount(keys)) == {10}
        assert not np.all(np.diff(keys) >= 0)


def test_arrivals_with_skew_come_early():
    even, early = (make_micro(100, 100, 100, arrival_skew=skew) for skew in (0, 1.2))
    assert np.median(even.left_times) == pytest.approx(50, abs=1)
    assert np.median(early.left_times) < 10
    assert even.inputs == early.inputs == 20_000


def test_zipf_falls_as_its_exponent_says():
    drawn = draw_zipf(np.random.default_rng(1), 1.0, 100, 200_000)
    counts = np.bincount(drawn, minlength=100)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
    assert counts.size == 100


def test_data_at_rest_keep_their_keys():
    workload = make_micro(20, 30, 50)
    resting = workload.resting()
    assert (workload.window, resting.window) == (50, 0)
    assert not resting.right_times.any()
    assert resting.matches == workload.matches


@pytest.mark.parametrize("side", [SECOND.left, SECOND.right, MINUTE.left, MINUTE.right])
def test_counts_follow_their_curve(side):
    for curve in (side.keys, side.spikes):
        counts = spread_counts(curve, side.rows)
        assert counts.sum() == side.rows
        assert counts.size == max(curve)
        assert counts[0] == curve[1]
        assert counts.min() == 1


@pytest.mark.parametrize("name", MAKERS)
def test_what_stands_in_for_the_files_is_like_them(name):
    workload = MAKERS[name](False)
    assert workload.source == "generated"
    assert workload.name == name
    assert workload.matches == pytest.approx(MATCHES[name], rel=0.02)
    for (keys, times), expected in zip(sides(workload), SIDES[name], strict=True):
        tuples, distinct, moments, largest = expected
        assert (keys.size, np.unique(keys).size) == (tuples, distinct)
        assert np.all(np.diff(times) >= 0)
        spikes = np.unique(times, return_counts=True)[1]
        assert spikes.size == pytest.approx(moments, rel=0.05)
        assert spikes.max() == largest


@pytest.mark.skipif(find_data() is None, reason="the study's data are not at hand")
@pytest.mark.parametrize("name", MAKERS)
def test_the_files_are_read(name):
    workload = MAKERS[name](True)
    assert workload.source == "files"
    assert workload.matches == MATCHES[name]
    for (keys, times), expected in zip(sides(workload), SIDES[name], strict=True):
        spikes = np.unique(times, return_counts=True)[1]
        assert (keys.size, np.unique(keys).size, spikes.size, spikes.max()) == expected


def test_a_folder_that_is_named_has_to_be_there(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=VARIABLE):
        find_data()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert find_data() is None
    monkeypatch.delenv(VARIABLE)
    assert find_data() is None


def test_the_radix_bits_of_a_full_run_are_those_that_a_join_takes():
    for bits in RADIX_BITS.full:
        make_lazy("prj", 1, bits=bits)
