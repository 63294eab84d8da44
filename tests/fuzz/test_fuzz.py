"""The fuzzer finds nothing in a short run, and finds what is planted."""

import contextlib
import io
import sys
import time
from collections import Counter
from contextvars import copy_context
from dataclasses import replace

import numpy as np
import pytest

from streamjoin.api.join_state import JoinState
from streamjoin.conditions import atoms, recognition
from streamjoin.indexes.runs import sorted_run
from streamjoin.joins.outcomes.aggregates import reduction
from streamjoin.joins.outcomes.ranking import selection
from streamjoin.joins.outcomes.ranking.ranks import KeyDistance
from streamjoin.joins.pairs.deliver import Delivered
from streamjoin.joins.sliding.manager import Manager
from streamjoin.plans import binding
from streamjoin.plans.marks import Marks

from . import running
from .aggregates import add_doubles, align
from .cases import BLOCK, draw_block, draw_case
from .kinds import Kind
from .nested_loop import Arrived, Step, arrive, find_pairs, is_in_order
from .outcomes import settle
from .programs import write_program
from .running import Outcome, is_orderly, net_of, run_case
from .shrinking import shrink
from .supervising import Supervisor
from .truths import DuckDB, RaisesError


@pytest.fixture(scope="module")
def oracle():
    return DuckDB()


def cases_of(oracle, numbers):
    block = None
    for number in numbers:
        if block is None or block.number != number // BLOCK:
            block = draw_block(number // BLOCK, [oracle])
        case = draw_case(number, block)
        if case is not None:
            yield case


def test_a_short_run_finds_nothing(oracle):
    kinds, matches = Counter(), 0
    for case in cases_of(oracle, range(100)):
        outcome = run_case(case)
        assert not outcome.is_bug, f"{outcome}\n{write_program(*shrink(case, outcome))}"
        kinds[outcome.kind] += 1
        matches += outcome.found.total() if outcome.found else 0
    assert kinds["equal"] > 80
    assert matches > 300


def bytes_of(table):
    return [batch.serialize().to_pybytes() for batch in table.to_batches()]


def test_a_number_means_the_same_case_always(oracle):
    number = 2 * BLOCK + 7
    [alone] = cases_of(oracle, [number])
    *_, after_others = cases_of(DuckDB(), range(2 * BLOCK, number + 1))
    for each in (alone, after_others):
        assert each.number == number
    assert alone.on == after_others.on
    assert alone.steps == after_others.steps
    assert alone.options == after_others.options
    assert alone.expect() == after_others.expect()
    ones, others = (each.block.tables.tables["l"] for each in (alone, after_others))
    assert bytes_of(ones) == bytes_of(others)  # NaN is NaN


def open_ends(operator, value, form="difference", nan_passes=False, real=atoms._intervals):
    """Intervals whose ends are never closed."""
    return real(operator.rstrip("=") or "=", value, form, nan_passes)


def shorter(microseconds, time, real=binding.in_ticks):
    return real(microseconds, time) - 1


def without_last(self, node, real=recognition._Collector.add):
    """Forget a conjunct over a pair that has one already."""
    atom = atoms.region(node)
    if atom is None or atom.pair.key not in self.groups:
        real(self, node)


def without_last_row(keys, fine, coarse, size, lower, upper, real=sorted_run.find_ranges):
    """Ranges of a run that leave its last row out."""
    starts, ends = real(keys, fine, coarse, size, lower, upper)
    return starts, np.maximum(starts, np.minimum(ends, size - 1))


def stay(self, engine, deliver=None):
    """A watermark that does not follow the data."""
    return Delivered()


def without_marks(self, rows, real=Marks.settle):
    """Marks that forget the last of some rows that have matched."""
    fresh = real(self, rows)
    if len(rows) > 1:
        self.unsettle(np.asarray(rows[-1:]))
    return fresh


def too_soon(self, clock, real=Manager.due_bounds):
    """Rows that are given while others may still match them."""
    return {side: bound + 1 for side, bound in real(self, clock).items()}


def without_ties(schema):
    """Right rows that are level, whatever their columns."""
    return iter(())


def all_alike(self, found, probes, rows):
    """Distances that do not differ."""
    return [np.zeros(probes.size, np.int64)]


def of_other_rows(*given, real=reduction.find_ranges):
    """Ranges of matches that lose their last row."""
    ranges = real(*given)
    sides = zip(ranges.starts, ranges.ends, strict=True)
    return replace(ranges, ends=[np.maximum(starts, ends - 1) for starts, ends in sides])


PLANTED = {
    "the marks of rows": (Marks, "settle", without_marks),
    "when rows are due": (Manager, "due_bounds", too_soon),
    "what is level": (selection, "order_of_columns", without_ties),
    "a distance": (KeyDistance, "keys", all_alike),
    "what is summed up": (reduction, "find_ranges", of_other_rows),
    "a kernel": (sorted_run, "find_ranges", without_last_row),
    "the watermark": (JoinState, "follow", stay),
    "a band's ends": (atoms, "_intervals", open_ends),
    "a session's gap, a tumbling window's length": (binding, "in_ticks", shorter),
    "a conjunct": (recognition._Collector, "add", without_last),
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found_made_small_and_written_down(what, oracle, monkeypatch):
    monkeypatch.setattr(*PLANTED[what])
    recognition.recognise.cache_clear()  # which remembers conditions that it understood before
    for case in cases_of(oracle, range(5 * BLOCK)):
        outcome = run_case(case)
        if outcome.kind == "different":
            break
    assert outcome.kind == "different"
    small, still = shrink(case, outcome)
    assert still.kind == "different"
    rows = sum(len(step.left or ()) + len(step.right or ()) for step in small.steps)
    assert rows <= 8  # of some dozens
    assert len(small.parts) <= 2
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        copy_context().run(exec, write_program(small, still), {})  # which may set limits
    found, expected = (line.split(maxsplit=1)[1] for line in printed.getvalue().splitlines())
    assert found == str(sorted(still.found.elements(), key=repr))
    assert expected == str(sorted(still.expected.elements(), key=repr))
    assert found != expected
    monkeypatch.undo()
    recognition.recognise.cache_clear()
    assert run_case(small).kind == "equal"


def test_other_exceptions_are_findings_and_refusals_are_not(oracle, monkeypatch):
    [case] = cases_of(oracle, [3])

    def fail(error):
        def join(case):
            raise error

        monkeypatch.setattr(running, "join", join)
        return run_case(case)

    assert fail(KeyError("x")) == Outcome("foreign", "KeyError: 'x'", expected=case.expect())
    refused = fail(running.StreamJoinError("no"))
    assert (refused.kind, refused.is_bug) == ("refused", False)


CHILDREN = {
    "crash": "import os; print('{\"begins\": 107}', flush=True); os.abort()",
    "hang": "import time; print('{\"begins\": 107}', flush=True); time.sleep(600)",
}


@pytest.mark.parametrize("what", CHILDREN)
def test_a_worker_that_dies_or_hangs_is_replaced_behind_its_case(what, tmp_path):
    started, shown = [], []

    def command(first, workers, oracle):
        started.append(first)
        equal = '{"number": 1, "kind": "equal", "note": "5"}'
        following = f"import time; print('{equal}', flush=True); time.sleep(600)"
        return [sys.executable, "-c", CHILDREN[what] if len(started) == 1 else following]

    supervisor = Supervisor(
        100, 1, "duckdb", tmp_path, lambda finding, _: shown.append(finding), 0.5, command
    )
    begun = time.monotonic()
    tally = supervisor.run(60, 2, lambda _: None)
    assert time.monotonic() - begun < 60
    assert started == [100, 108]
    assert [(each["number"], each["kind"]) for each in shown] == [(107, what)]
    assert tally.kinds == {what: 1, "equal": 1}
    assert tally.matches == 5


def test_an_oracle_says_when_it_cannot_say(oracle):
    block = draw_block(1, [oracle])
    oracle.open(block.tables, 3)
    with pytest.raises(RaisesError):
        oracle.ask(["(9223372036854775807::BIGINT + id) % 2 = 0"])


# The nested loop, over three rows at the times 0, 10 and 20 on each side.

TIMES = ([0, 10, 20], [0, 10, 20])
ALL = [[True] * 3] * 3
DIAGONAL = [[left == right for right in range(3)] for left in range(3)]
AT_ONCE = [Step((0, 1, 2), (0, 1, 2))]


def pairs(window, steps=AT_ONCE, holds=ALL, is_equal=ALL, delay=None, order=None):
    arrived = arrive(window, steps, TIMES, delay)
    return sorted(find_pairs(window, steps, arrived, order, holds, is_equal).elements())


def test_the_nested_loop_knows_windows():
    assert pairs(("none",), holds=DIAGONAL) == [(0, 0), (1, 1), (2, 2)]
    assert pairs(("time", 10, 0)) == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]
    assert pairs(("tumbling", 20, 10)) == [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(pairs(("session", 10))) == 9
    assert pairs(("session", 9)) == [(0, 0), (1, 1), (2, 2)]
    assert pairs(("count", 1, 1)) == [(2, 0), (2, 1), (2, 2)]
    by_column = ([0, 1, 2], [0, 1, 2])
    assert pairs(("count", 1, 1), order=by_column) == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]


def test_equal_keys_have_sessions_of_their_own():
    odd_or_even = [[left % 2 == right % 2 for right in range(3)] for left in range(3)]
    assert pairs(("session", 10), is_equal=odd_or_even) == [(0, 0), (1, 1), (2, 2)]
    assert pairs(("session", 20), holds=odd_or_even, is_equal=odd_or_even) == [
        (0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]  # fmt: skip


def test_late_rows_match_nothing():
    one_by_one = [Step((2,), (2,)), Step((1,), (1,)), Step((0,), None)]
    assert len(pairs(("time", 99, 99), one_by_one, delay=10)) == 4
    assert len(pairs(("time", 99, 99), one_by_one, delay=9)) == 1
    told = [Step((2,), None, 5), Step((0, 1), (0, 1, 2))]
    assert pairs(("time", 99, 99), told) == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_order_is_by_the_later_row_then_by_the_earlier():
    found = [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert is_in_order(found, AT_ONCE, None, "inner")
    assert not is_in_order(found[::-1], AT_ONCE, None, "outer")
    swapped = [(1, 0), (0, 0), (2, 0), (0, 1)]
    assert is_in_order(swapped, AT_ONCE, None, "outer")
    assert not is_in_order(swapped, AT_ONCE, None, "inner")


# What comes of pairs: left rows 0 to 2, right rows 0 to 2, of which left 2 and right 0 are late.

ARRIVED = Arrived(TIMES, None, rows=([0, 1], [1, 2]), late=([2], [0]))
MET = Counter({(0, 1): 1, (0, 2): 1})


def given(kind, pairs=MET, **options):
    return sorted(settle(Kind(kind, **options), ARRIVED, pairs).elements(), key=repr)


def test_duckdb_knows_kinds_of_joins():
    assert given("left") == [(0, 1), (0, 2), (1, None)]
    assert given("full", Counter({(0, 1): 1})) == [(0, 1), (1, None), (None, 2)]
    assert given("left_semi") == [(0,)]
    assert given("left_anti") == [(1,)]
    assert given("right_semi") == [(1,), (2,)]
    assert given("right_anti", Counter()) == [(1,), (2,)]


def test_late_rows_have_no_match_and_say_so():
    assert given("inner", keeps_late=True) == [
        (0, 1, False), (0, 2, False), (2, None, True), (None, 0, True)]  # fmt: skip
    assert given("left_semi", keeps_late=True) == [(0, False), (2, True)]
    assert given("left", Counter(), keeps_late=True, indicator=True) == [
        (0, None, "left_only", False), (1, None, "left_only", False),
        (2, None, "left_only", True), (None, 0, "right_only", True)]  # fmt: skip


def test_a_row_is_taken_back_once_and_only_if_it_was_given():
    assert is_orderly([(1, "+"), (1, "-"), (2, "+")])
    assert not is_orderly([(1, "-"), (1, "+")])
    assert not is_orderly([(1, "+"), (1, "-"), (1, "+")])
    assert net_of([(1, "+"), (1, "-"), (2, "+")]) == Counter({(2,): 1, (1,): 0})


def test_doubles_that_are_as_good_are_taken_for_what_is_expected():
    near = add_doubles([1e16, 1.0, -1e16], is_mean=False)
    assert near.value == 1.0
    assert near.is_met(1.0)
    assert not near.is_met(1.1)
    assert add_doubles([float("inf"), float("-inf")], is_mean=True).is_met("NaN")
    assert align((7, 1.0), (7, near)) == (7, near)
