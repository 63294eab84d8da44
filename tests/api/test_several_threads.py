"""Several threads that use one join: their calls follow one another, whatever the kind."""

import os
import subprocess
import sys
from threading import Event, Thread

import pyarrow as pa
import pytest

import streamjoin as sj
from tests.api import threaded_joins
from tests.api.threaded_joins import KINDS

COUNT = sj.CountWindow(1000)


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64())})


def make(**options):
    return sj.StreamJoin("l.x <= r.x", COUNT, **options)


def test_pushes_of_several_threads_follow_one_another():
    # Once: wrong answers, crashes, deadlocks, memory without bound; so in another process.
    path = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run(
        [sys.executable, threaded_joins.__file__, *KINDS],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


class Reading:
    """A batch that does something while it is read."""

    def __init__(self, act):
        self.act, self.rows = act, numbers(1)

    def __arrow_c_stream__(self, requested_schema=None):
        self.act()
        return self.rows.__arrow_c_stream__(requested_schema)


CALLS = {
    "push": lambda join: join.push(left=numbers(1)),
    "find": lambda join: join.find(left=numbers(1)),
    "flush": lambda join: join.flush(),
    "finish": lambda join: join.finish(),
    "stats": lambda join: join.stats,
    "snapshot": lambda join: join.snapshot(),
    "stream": lambda join: list(join.stream([(numbers(1), None)])),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("outer", ["push", "find"])
def test_a_call_from_within_a_call_is_refused(call, outer):
    join = make()
    join.push(numbers(1), numbers(1))
    before = join.stats.rows_left
    with pytest.raises(sj.StreamJoinError, match="from within another of its calls"):
        getattr(join, outer)(left=Reading(lambda: CALLS[call](join)))
    assert join.stats.rows_left == before
    assert join.push(right=numbers(5)).num_rows == 1


def test_threads_may_be_set_from_within_a_call():
    join = make(threads=1)
    join.push(left=Reading(lambda: setattr(join, "threads", 2)), right=numbers(1))
    assert join.threads == 2


def test_a_source_that_uses_the_join_it_feeds():
    join = make()

    def source():
        yield numbers(1), numbers(1)
        join.push(left=numbers(2))
        yield None, numbers(3)

    assert [part.rows.num_rows for part in join.stream(source())] == [1, 2]


@pytest.mark.parametrize("options", [{"cores": 2}, {"algorithm": "pim_tree"}], ids=str)
def test_a_join_that_reads_ahead_refuses_other_threads(options):
    join, refused, may_end = make(**options), [], Event()
    join.push(numbers(1), numbers(1))

    def source():
        yield numbers(1), None
        may_end.wait(60)

    def push():
        for call in (CALLS["push"], CALLS["stats"], CALLS["stream"]):
            try:
                call(join)
            except sj.StreamJoinError as error:
                refused.append(str(error))
        join.threads = 2
        may_end.set()

    stream = join.stream(source())
    next(stream)
    other = Thread(target=push)
    other.start()
    other.join()
    assert list(stream) == []
    assert ["reading a source" in each for each in refused] == [True] * 3
    assert join.push(right=numbers(1)).num_rows == 2


@pytest.mark.parametrize("options", [{}, {"algorithm": "pim_tree"}, {"cores": 2}], ids=str)
def test_results_that_are_read_while_others_push(options):
    # Each reading gives all rows that were there, or says that they are gone.
    join, ended = make(**options), Event()
    join.push(numbers(1), numbers(1))
    problems = []

    def push():
        try:
            while not ended.is_set():
                join.push(left=numbers(*range(50)))
        except BaseException as error:
            problems.append(error)

    other = Thread(target=push)
    other.start()
    gone = 0
    try:
        for _ in range(60):
            found = join.find(right=numbers(*range(50)))
            try:
                count = found.count()
                assert sum(batch.num_rows for batch in found) == count
            except sj.StreamJoinError as error:
                gone += "these results are gone" in str(error)
    finally:
        ended.set()
        other.join()
    assert not problems


def test_different_joins_in_different_threads():
    found = {}

    def run(number):
        join = make(threads=2)
        found[number] = sum(
            join.push(numbers(*range(100)), numbers(*range(100))).num_rows for _ in range(20)
        )

    threads = [Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found.values())) == 1
