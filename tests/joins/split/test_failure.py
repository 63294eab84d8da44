"""A core that dies takes its part of the windows along, says so, and the others go on.

What is wrong with the data is no death, and leaves every core as it was.
"""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.joins.sliding.manager import Manager
from streamjoin.plans.limits import use_limits
from tests.joins.small_streams import CONDITIONS, TINY, conditions, steps_of, streams, table
from tests.joins.split.running import as_source, held, orders, push, random, sequence
from tests.oracle import Arrivals, join_by_count


@pytest.fixture(autouse=True)
def short_turns():
    with use_limits(replace(TINY, most_counted_rows=4)):
        yield


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64())})


def fail(*_, **__):
    raise MemoryError("no room")


def kill(join, core, at="probe"):
    """Let a core fail the next time it searches, or stores."""
    join._state.engine.executor.wait()
    kill_at_once(join, core, at)


def kill_at_once(join, core, at="probe"):
    setattr(join._state.engine.executor.cores[core].manager, at, fail)


def read(results, found, after=lambda number: None):
    """Count the rows of all pieces."""
    for number, piece in enumerate(results):
        found["rows"] += piece.rows.num_rows
        after(number)


def make(ordered="none", cores=2, on="l.x = r.x", **options):
    join = sj.StreamJoin(on, sj.CountWindow(100), cores=cores, ordered=ordered, **options)
    join.push(numbers(), numbers())
    return join


every_order = pytest.mark.parametrize("ordered", ["none", "outer", "inner"])


@random
@given(
    data=st.data(),
    name=conditions,
    cores=st.integers(2, 5),
    ordered=orders,
    at=st.sampled_from(["probe", "insert"]),
)
def test_exactly_the_lost_rows_are_missing(data, name, cores, ordered, at):
    left, right = data.draw(streams(most=25))
    steps, (text, predicate) = data.draw(steps_of(left, right)), CONDITIONS[name]
    join = sj.StreamJoin(text, sj.CountWindow(1000), threads=1, cores=cores, ordered=ordered)
    push(join, ([], []), both=True)
    victim, when = data.draw(st.integers(0, cores - 1)), data.draw(st.integers(0, len(steps)))
    found, errors, holding = [], [], []  # ``holding``: what all cores held after each step
    for number, step in enumerate(steps):
        if number == when:
            kill(join, victim, at)
        try:
            found.append(push(join, step))
        except sj.CoreError as error:
            found.append(sequence(error.results))
            errors.append(error)
        holding.append({id for part in held(join) for each in part.values() for id in each})
    assert len(errors) <= 1
    if at == "probe" and when < len(steps):
        assert [error.cores for error in errors] == [(victim,)]
        assert f"core {victim} of {cores} died" in str(errors[0])
        assert "MemoryError: no room" in str(errors[0])
    seen = []
    for number, step in enumerate(steps):
        # A row is found by a later one if it is held at that time, or comes in the same step.
        before = holding[number - 1] if number else set()
        if number == when and at == "probe":
            before = holding[number]
        expected = join_by_count([*seen, step], predicate, 1000, 1000)
        expected -= join_by_count(seen, predicate, 1000, 1000)
        fresh = {row["id"] for rows in step for row in rows}
        if at == "probe" or number != when:  # who fails to store has found matches before
            fresh &= holding[number]
        kept = before | fresh
        ids = Arrivals([*seen, step])
        assert Counter(found[number]) == Counter(
            {pair: count for pair, count in expected.items() if earlier(pair, ids) in kept}
        )
        seen.append(step)
    Arrivals(steps).check([pair for each in found for pair in each], ordered)


def earlier(pair, arrivals):
    """The id of the row that came first."""
    left, right = pair
    is_left = arrivals.among_both["left", left] < arrivals.among_both["right", right]
    return left if is_left else right


@every_order
def test_a_core_that_cannot_store_says_so_at_the_next_push(ordered):
    join = make(ordered)
    join.push(numbers(1, 2, 3, 4))
    kill(join, 0, "insert")
    join.push(right=numbers(1))
    with pytest.raises(sj.CoreError, match=r"core 0 of 2 died .* 4 rows: MemoryError") as caught:
        join.push(left=numbers(1))
    assert caught.value.cores == (0,)
    assert caught.value.results.num_rows == 1
    assert [core.is_alive for core in join.stats.cores] == [False, True]
    assert join.push(right=numbers(2)).num_rows == 0


@every_order
def test_without_any_core_nothing_goes_on_until_a_snapshot_is_restored(ordered):
    join = make(ordered)
    join.push(numbers(1, 2), numbers(3))
    saved = join.snapshot()
    kill(join, 0)
    kill(join, 1)
    with pytest.raises(sj.CoreError, match="no core is left; restore a snapshot"):
        join.push(numbers(3))
    # Once: no error, and no matches.
    for use in (join.push, join.find, lambda rows: list(join.stream([(rows, None)]))):
        with pytest.raises(sj.CoreError, match="all 2 cores of this join have died"):
            use(numbers(3))
    join = sj.StreamJoin.restore(saved)
    assert join.push(numbers(3)).num_rows == 1
    assert join.push(right=numbers(1, 3)).num_rows == 2


def test_a_restored_snapshot_brings_the_lost_rows_back():
    join = make()
    join.push(numbers(*range(20)))
    saved = join.snapshot()
    kill(join, 1)
    with pytest.raises(sj.CoreError):
        join.push(right=numbers(*range(20)))
    join = sj.StreamJoin.restore(saved)
    assert join.push(right=numbers(*range(20))).num_rows == 20
    assert all(core.is_alive for core in join.stats.cores)


def test_a_snapshot_of_what_is_left():
    join = make()
    join.push(numbers(*range(20)))
    kill(join, 1)
    with pytest.raises(sj.CoreError, match="8 rows"):
        join.push(right=numbers())
    found = sj.StreamJoin.restore(join.snapshot()).push(right=numbers(*range(20)))
    assert sorted(found["x"].to_pylist()) == [*range(4), *range(8, 12), *range(16, 20)]
    assert join.push(right=numbers(*range(20))).num_rows == 12


@every_order
def test_results_of_a_batch_in_which_a_core_dies(ordered):
    # Once: the error had no results.
    join = make(ordered, batch_rows=3)
    join.push(numbers(1, 2), numbers(2))
    kill(join, 1)
    with pytest.raises(sj.CoreError) as caught:
        join.push(numbers(2), numbers(1, 2))
    before = caught.value.results.num_rows
    kill(join, 0)
    join.push(numbers(2))
    with pytest.raises(sj.CoreError, match="core 0") as caught:
        join.flush()
    assert before + caught.value.results.num_rows <= 4
    assert join.stats.waiting == 0


def test_results_that_stay_where_they_are_when_a_core_dies():
    join = make(batch_rows=100)
    join.push(numbers(1, 2, 3, 4, 5, 6), numbers(9))
    join.flush()
    kill(join, 1)
    with pytest.raises(sj.CoreError) as caught:
        join.find(right=numbers(1, 6))
    assert caught.value.results.count() == 1


@every_order
def test_a_core_dies_at_the_first_push(ordered, monkeypatch):
    # Once: an ArrowInvalid, and the join began anew.
    join = sj.StreamJoin("l.x = r.x", sj.CountWindow(100), cores=3, ordered=ordered)
    join.push(numbers(1, 2, 3))
    probe, done = Manager.probe, []

    def fail_once(self, *given, **options):
        done.append(self)
        if len(done) == 1:
            fail()
        return probe(self, *given, **options)

    monkeypatch.setattr(Manager, "probe", fail_once)
    with pytest.raises(sj.CoreError) as caught:
        join.push(right=numbers(1, 2, 3))
    found = caught.value.results.num_rows
    assert found in (0, 3)
    assert join.push(right=numbers(1, 2, 3)).num_rows == found
    assert sum(core.is_alive for core in join.stats.cores) == 2


# What is wrong with the data.


@pytest.mark.parametrize("rows", [None, 4])
@every_order
def test_an_error_in_the_data_is_no_death(ordered, rows):
    join = make(ordered, cores=3, on="l.x <= r.x and 10 / (l.x + r.x) > -99", batch_rows=rows)
    join.push(numbers(1, 2, 3), numbers(4, 5, 6))
    before = held_numbers(join), join._state.engine.executor.turns, join.stats.live_left
    with pytest.raises(sj.EvaluationError, match="division by zero"):
        join.push(numbers(-9, -4, 1), numbers(2, 9))
    assert (held_numbers(join), join._state.engine.executor.turns, join.stats.live_left) == before
    assert all(core.is_alive for core in join.stats.cores)
    assert join.push(right=numbers(7, 7, 7, 7)).num_rows == 12


def held_numbers(join):
    return [
        {side: [piece.to_pydict() for each in chain for piece in each.rows.pieces]}
        for part in join._state.engine.executor.chain_pairs
        for side, chain in part.items()
    ]


# In the middle of a stream.


@every_order
def test_a_core_that_dies_in_the_middle_of_a_stream(ordered):
    join = make(ordered)
    source = iter([(numbers(value), numbers(value)) for value in range(40)])
    found = Counter()

    def kill_in_the_middle(number):
        if number == 10:
            kill_at_once(join, 1)

    with pytest.raises(sj.CoreError, match="core 1 of 2 died") as caught:
        read(join.stream(source), found, kill_in_the_middle)
    assert found["rows"] + caught.value.results.num_rows == join.stats.matches
    assert isinstance(caught.value.results, pa.Table)
    assert [core.is_alive for core in join.stats.cores] == [True, False]
    rest = list(source)
    assert sum(piece.rows.num_rows for piece in join.stream(rest)) == len(rest)


@every_order
def test_all_cores_die_in_the_middle_of_a_stream(ordered):
    join = make(ordered, cores=3)

    def source():
        for value in range(20):
            if value == 5:
                for core in range(3):
                    kill_at_once(join, core)
            yield numbers(value), numbers(value)

    with pytest.raises(sj.CoreError):
        list(join.stream(source()))
    with pytest.raises(sj.CoreError, match=r"have died|no core is left"):
        join.push(numbers(1))
    with pytest.raises(sj.CoreError, match="have died"):
        join.push(numbers(1))


@every_order
@pytest.mark.parametrize("rows", [None, 3])
def test_an_error_of_the_source_comes_after_all_results_before_it(ordered, rows):
    def source():
        for value in range(10):
            yield numbers(value), numbers(value)
        raise OSError("the line is dead")

    join, found = make(ordered, batch_rows=rows), Counter()
    with pytest.raises(OSError, match="the line is dead"):
        read(join.stream(source()), found)
    assert found["rows"] + join.flush().num_rows == 10
    assert join.push(numbers(*range(10))).num_rows + join.flush().num_rows == 10


@every_order
def test_rows_of_a_wrong_shape_in_the_middle_of_a_stream(ordered):
    join, found = make(ordered), Counter()
    source = [(numbers(1), numbers(1)), (numbers(2), numbers(2)), (pa.table({"y": [1]}), None)]
    with pytest.raises(sj.SchemaError, match="schema changed"):
        read(join.stream([*source, (numbers(3), numbers(3))]), found)
    assert found["rows"] == 2
    assert join.push(numbers(1, 2, 3)).num_rows == 2


def test_a_stream_goes_on_after_a_core_has_died():
    rows = [{"id": place, "k": 1, "o": 0} for place in range(6)]
    join = sj.StreamJoin("l.k = r.k", sj.CountWindow(100), cores=3, ordered="inner")
    join.push(table(rows), table([]))
    kill(join, 0)
    with pytest.raises(sj.CoreError):
        join.push(right=table([]))
    step = ([], [{**row, "id": 100 + row["id"]} for row in rows])
    found = [pair for piece in join.stream(as_source([step])) for pair in sequence(piece.rows)]
    assert Counter(left for left, _ in found) == {4: 6, 5: 6}
