"""Threads that share indexes find as many matches as one thread that takes tuple by tuple."""

from dataclasses import replace

import pytest

from benchmarks.pimtree.race import Race
from benchmarks.pimtree.shared_runs import LoadedPIMTreeJoin, SharedRun, Way
from benchmarks.pimtree.workloads import make_square

WAYS = [Way(1), Way(2), Way(2, blocking=True), Way(3, task=5)]


@pytest.mark.parametrize("itself", [False, True], ids=["two streams", "a stream with itself"])
def test_threads_find_what_one_finds_that_takes_tuple_by_tuple(itself):
    load = replace(make_square(3000), itself=itself)
    race, run = Race(load, {"PIM-Tree": LoadedPIMTreeJoin}), SharedRun(load)
    for way in WAYS:
        race.run(1, 20_000)
        run.rate(way, 20_000)
        assert run.matches == race.matches
    run.join.settle()
    assert all(side.merges > 5 for side in run.join.sides)
    assert len(run.join.merge_times) > 5
    for side in run.join.sides:
        side.index.check()
        assert len(side.index) == 3000
    run.close()
