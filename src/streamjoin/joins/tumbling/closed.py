"""Joins the rows of closed windows, all at once.

If the condition is an equality, one of the lazy algorithms of Zhang et al. does it ("Parallelizing
Intra-Window Join on Multicores: An Experimental Study", SIGMOD 2021); if it has a band or an
inequality, an index as for tables. Rows of one window are joined without its number, those of
several windows that close together with it::

    window 7      l.id = r.id                       rows of 7
    8 and 9       l.id = r.id and window = window   rows of 8 and 9, at once

If the condition fails on a row, by a division by zero for instance, the windows are joined in
halves, and these in halves, until a single window fails: the others lose nothing.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from streamjoin.choice.decision_tree import Decision
from streamjoin.errors import StreamJoinError
from streamjoin.joins.equality.pieces import Piece
from streamjoin.joins.equality.protocol import Lazy
from streamjoin.joins.equality.words import encode
from streamjoin.joins.executor import Clock, Deliver, OnePiece
from streamjoin.joins.outcomes.outcome import Alone, leftovers
from streamjoin.joins.outcomes.reduction import Reduction, reduce_set
from streamjoin.joins.pairs.candidates import Check, Found
from streamjoin.joins.pairs.closed_side import ClosedSide
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.sliding.static import join_prepared
from streamjoin.kernels.compile import Keys
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.kernels.threads import share
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import first_keys, word_keys

if TYPE_CHECKING:
    from streamjoin.choice.algorithm import Adviser

Sides = dict[Side, Prepared]


def found_of(piece: Piece, probing: Prepared, first: int, stored: ClosedSide, exact: bool) -> Found:
    """Turn a piece into a `Found`; its probes are rows of ``probing`` from ``first`` on.

    Range parts must still be compared, and keys too if codes are not ``exact``.
    """
    plan, checks = probing.plan, []
    if not exact:
        checks = [
            Check(held, [(keys, keys)])
            for held, keys in zip(stored.keys.equalities, probing.keys.equalities, strict=True)
        ]
    for part in plan.open_ranges:
        checks.append(Check(stored.keys.ranges[part], probing.part_ranges(part)))
    order = piece.probes - np.int32(first) if first else np.ascontiguousarray(piece.probes)
    return Found(probing, stored, piece.matches, order, checks)


def join_equal(lazy: Lazy, sides: Sides) -> list[Found]:
    """Join closed rows by their equalities, with a lazy algorithm."""
    left, right = sides["left"], sides["right"]
    (left_keys, exact), (right_keys, _) = (
        word_keys(each.plan, each.keys) for each in (left, right)
    )
    encoded = encode(left_keys, right_keys)
    held = {side: ClosedSide.of(batch) for side, batch in sides.items()}
    return [
        found_of(piece, sides[piece.probing], 0, held[OTHER[piece.probing]], exact & encoded.exact)
        for piece in lazy.join(encoded.left, encoded.right)
        if len(piece)
    ]


def raise_failed(errors: list[StreamJoinError]) -> None:
    """Raise the first of the errors of windows that have failed, if there are any."""
    if errors:
        failed = "the window that failed is" if len(errors) == 1 else f"{len(errors)} windows are"
        errors[0].add_note(f"{failed} dropped, with all rows; the others are joined")
        raise errors[0]


class ClosedRows:
    """Joins closed rows of one plan; ``choose`` gives a lazy algorithm for them, or None.

    Both it and ``make_manager`` take the number of threads, which may change.
    """

    def __init__(
        self,
        plan: JoinPlan,
        make_manager: Callable[[JoinPlan, int], Manager],
        choose: Callable[[Sides, int], Lazy | None],
        threads: int,
        reduction: Reduction | None = None,
    ) -> None:
        self.plan, self.make_manager, self.choose = plan, make_manager, choose
        self.reduction = reduction
        self.threads = threads
        self.lost: list[Prepared] = []  # rows of windows that failed, if rows are told

    @cached_property
    def within_one(self) -> JoinPlan:
        """The plan of rows that are all in one tumbling window."""
        return replace(self.plan, equalities=self.plan.equalities[:-1])

    def join(self, sides: Sides, deliver: Deliver) -> Iterator[Any]:
        """Find the matches of closed rows, and deliver them, or what they are reduced to."""
        if len(sides) < 2 or not all(len(batch) for batch in sides.values()):
            return
        sides = self._drop_single_number(sides)
        if self.reduction is None:
            yield from self._find(sides, deliver)
            return
        yield from reduce_set(self.reduction, sides, self._find, deliver, self.threads)

    def _find(self, sides: Sides, deliver: Deliver) -> Iterator[Any]:
        """Find matches and deliver them: with one thread, on demand.

        Several threads deliver everything a lazy algorithm has found before yielding the first.
        """
        lazy = self.choose(sides, self.threads)
        if lazy is not None:
            found = join_equal(lazy, sides)
            if self.threads == 1:
                for each in found:
                    checkpoint()
                    yield from deliver(each)
            else:
                for items in share(lambda each: list(deliver(each)), found, self.threads):
                    yield from items
            return
        manager = self.make_manager(sides["left"].plan, self.threads)
        # Left rows probe where it counts what each of them has: then its pairs come together.
        stored: Side | None = None if self.reduction is None else "right"
        yield from join_prepared(manager, sides, deliver, stored)

    def join_windows(
        self, sides: Sides, deliver: Deliver, column: int, errors: list[StreamJoinError]
    ) -> Generator[Any, None, None]:
        """Find the matches of windows that close together; ``column`` is the window's equality.

        A window that fails does not affect others, and adds to ``errors``. The rows that have no
        match come last.
        """
        follows = self.plan.follows
        sides = {side: each.follow() if side in follows else each for side, each in sides.items()}
        try:
            yield from self.all_or_nothing(self.join(sides, deliver))
        except StreamJoinError as error:
            numbers = {side: batch.keys.equalities[column] for side, batch in sides.items()}
            each = np.unique(np.concatenate(list(numbers.values())))
            if each.size == 1:
                errors.append(error)
                self.note_lost(sides)
                return
            middle = each[each.size // 2]
            for is_upper in (False, True):
                half = {
                    side: batch.take(np.flatnonzero((numbers[side] >= middle) == is_upper))
                    for side, batch in sides.items()
                }
                yield from self.join_windows(half, deliver, column, errors)
            return
        yield from leftovers(sides)

    def note_lost(self, sides: Sides) -> None:
        """Note that rows are dropped with their window, which has failed."""
        if self.plan.names_rows:
            self.lost += sides.values()

    def all_or_nothing(self, deliveries: Iterator[Any]) -> Iterable[Any]:
        """Return deliveries so that none is yielded if one fails, by holding them back."""
        return list(deliveries) if self.plan.has_residuals else deliveries

    def _drop_single_number(self, sides: Sides) -> Sides:
        """Leave the window's number out if there is only one."""
        if self.plan.window_part is None:
            return sides
        numbers = [batch.keys.equalities[-1] for batch in sides.values()]
        least, greatest = min(each.min() for each in numbers), max(each.max() for each in numbers)
        if least != greatest:
            return sides
        return {side: with_plan(batch, self.within_one) for side, batch in sides.items()}


def with_plan(batch: Prepared, plan: JoinPlan) -> Prepared:
    """Return the same rows under a plan with fewer equalities, of which they have the first."""
    return batch.rekey(plan, first_keys(batch.keys, plan))


class ClosingWindows(OnePiece):
    """What all executors of closing windows have in common."""

    is_lasting = True
    can_undo = True
    chain_pairs: Sequence[dict[Side, Chain]] = ()
    closed: "ClosedRows"
    adviser: "Adviser"
    inserted: list[Prepared]  # by the last step

    @property
    def decision(self) -> Decision | None:
        """How the last closed window was joined, and why, if that was our decision."""
        return self.adviser.decision

    def decide_by_rows_alone(self) -> None:
        """Decide how windows are joined without a clock, and without anything seen before."""
        self.adviser.decides = False

    def take_due(self, clock: Clock) -> Iterator[Alone]:
        """Give nothing: rows without a match come when their windows close."""
        return iter(())

    def find_closed(self, clock: Clock) -> dict[Side, Keys]:
        """Return the ordinals of rows whose windows have ended, where no clock says so."""
        return {}

    def take_lost(self) -> list[Prepared]:
        """Return the rows of windows that have failed, once, if rows are observed."""
        lost, self.closed.lost = self.closed.lost, []
        return lost

    def take_inserted(self) -> list[Prepared]:
        """Return what the last step has inserted, once."""
        inserted, self.inserted = self.inserted, []
        return inserted
