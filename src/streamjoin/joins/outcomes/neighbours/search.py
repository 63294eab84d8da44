"""Searches two closed sets for neighbours, as `recognition` describes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamjoin.joins.outcomes.neighbours.key_codes import STRETCH, Codes, cut, make_codes
from streamjoin.joins.outcomes.neighbours.recognition import Neighbours
from streamjoin.joins.outcomes.neighbours.seeking import (
    choose_nearer,
    choose_nearer_double,
    count_order,
    keep_between,
    keep_near,
    link,
    list_tied,
    mark_equal,
    note_latest,
    seek,
    seek_coded,
    step_up,
    take_flags,
    take_kept,
    walk_away,
)
from streamjoin.joins.outcomes.neighbours.unequal_values import has_unequal
from streamjoin.joins.outcomes.ranking.level_rows import pick_first
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Flags, Int, Keys, Positions, RowIds
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.kernels.threads import share, threads_for
from streamjoin.keys import key_ranges
from streamjoin.keys.hashing import FIXED
from streamjoin.keys.key_ranges import NAN
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.plans.prepared import Prepared

T = TypeVar("T", bound=NDArray[Any] | None)
Direction = Literal["before", "after", "nearest"]  # of what each left row asks for

WIDEST = 1 << 62  # ends of a difference beyond it are left to the general way
NO_PLACES = np.empty(0, np.int32)


class Kept(NamedTuple):
    """The right row that each left row keeps, or k of them; -1 for none, unless it is open."""

    rows: RowIds  # by left row, and if there are several, the nearest first
    is_open: Flags | None = None  # left rows for which the general way decides; None: none


class Ordered(NamedTuple):
    """Keys that ascend, and the rows they come from."""

    keys: Keys
    rows: RowIds | None  # None: the rows are in this order
    has_equal: bool

    @classmethod
    def of(cls, keys: Keys) -> "Ordered":
        """Sort keys, unless they ascend already."""
        less, equal = count_order(keys)
        if not less:
            return cls(keys, None, equal > 0)
        keys, rows = sort_with_rows(keys)
        return cls(keys, rows, count_order(keys)[1] > 0)

    def arrange(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bring another column of the rows into this order."""
        return column if self.rows is None else column[self.rows]

    def put_back(self, found: T) -> T:
        """Bring what was found for rows in this order into their own."""
        if self.rows is None or found is None:
            return found
        placed = np.empty_like(found)
        placed[self.rows] = found
        return placed


class Links(NamedTuple):
    """The neighbours of each key among those of the same code; empty if they stand beside it."""

    previous: RowIds = NO_PLACES
    following: RowIds = NO_PLACES
    heads: RowIds = NO_PLACES


def find_neighbours(
    asked: Neighbours, left: Prepared, right: Prepared, threads: int
) -> Kept | None:
    """Find the right row that each left row keeps; None if that takes another way.

    Neither side has rows that cannot match.
    """
    if not len(left) or not len(right):
        return Kept(np.full(len(left), -1, np.int32))
    values, keys = asked.keys_of(left), asked.keys_of(right)
    if values is None or keys is None:
        return None
    threads = threads_for(len(left) + len(right), threads)
    return Search(asked, left, right, threads).run(values, keys)


@dataclass
class Search:
    """One search for neighbours."""

    asked: Neighbours
    left: Prepared
    right: Prepared
    threads: int
    codes: Codes | None = None
    links: Links = field(default_factory=Links)
    is_open: Flags | None = None

    def run(self, values: Keys, keys: Keys) -> Kept | None:
        """Find what each left row keeps."""
        limits = self._limit(values, keys)
        if limits is None:
            return None
        bounds, way, lower, upper = limits
        asking, there = share(Ordered.of, [bounds, keys], self.threads)
        values = asking.arrange(values)
        if is_at_edge(there.keys) or (
            not self.asked.part.floating and is_too_wide(values, there.keys)
        ):
            return None
        self._make_codes(asking, there)
        before = self._seek(asking.keys, there.keys)
        if self.asked.k > 1:
            return self._walk(before, way, values, asking, there)
        if way != "before" or there.has_equal:
            self._link()
        after = self._step_up(before) if way != "before" else None
        if way == "after":
            assert after is not None
            before, after = after, None
        for found in (before, after):
            if found is None:
                continue
            if lower is not None and upper is not None:
                self._keep_between(found, there.keys, asking.arrange(lower), asking.arrange(upper))
            elif self._is_bounded(way):
                self._keep_near(found, values, there.keys)
        level = 0 if after is None else self._choose(before, after, values, there.keys)
        rows = self._settle(before, after if level else None, there)
        rows, is_open = asking.put_back(rows), asking.put_back(self.is_open)
        if has_unequal(self.left, self.right, rows, self.threads):
            return None
        return Kept(rows, is_open)

    def _walk(
        self, before: RowIds, way: Direction, values: Keys, asking: Ordered, there: Ordered
    ) -> Kept | None:
        """Find the k nearest keys, on one side or on both."""
        self._link()
        after = self._step_up(before) if way != "before" else np.full_like(before, -1)
        if way == "after":
            before = np.full_like(before, -1)
        low, high = clamp(self.asked.ends)
        for found in (before, after):
            self._keep_near(found, values, there.keys)
        nearest = np.empty((before.size, self.asked.k), np.int32)
        is_open = np.zeros(before.size, np.bool_)
        links, ends = self.links, np.array([low, high])
        self._in_stretches(
            lambda s: walk_away(
                before[s], after[s], values[s], there.keys, links.previous, links.following,
                ends, self.asked.is_by_key, nearest[s], is_open[s],
            )
        )  # fmt: skip
        if there.rows is not None:
            nearest = self._take_kept(there.rows, nearest.ravel()).reshape(nearest.shape)
        nearest, is_open = asking.put_back(nearest), asking.put_back(is_open)
        for column in nearest.T:
            if has_unequal(self.left, self.right, np.ascontiguousarray(column), self.threads):
                return None
        return Kept(nearest, is_open if is_open.any() else None)

    def _limit(
        self, values: Keys, keys: Keys
    ) -> tuple[Keys, Direction, Keys | None, Keys | None] | None:
        """Return each left row's bound, on which side of it to look, and the keys in its range."""
        keep, part = self.asked.keep, self.asked.part
        if part.floating and self.asked.bounds:
            return self._limit_doubles(values, keys)
        low, high = self.asked.ends
        if any(WIDEST < abs(end) < inf for end in (low, high)):
            return None
        way: Direction = "nearest"
        if keep == "last" or (keep == "nearest" and low >= 0):
            way, shift = "before", -low
        elif keep == "first" or high <= 0:
            way, shift = "after", -high - 1
        else:
            shift = 0
        if abs(shift) == inf:
            return np.full(values.size, MAX_KEY if shift > 0 else MIN_KEY), way, None, None
        if shift and key_ranges.saturates(values, -shift):
            return None
        return values + int(shift) if shift else values, way, None, None

    def _limit_doubles(self, values: Keys, keys: Keys) -> tuple[Keys, Direction, Keys, Keys] | None:
        """Do the same for doubles, whose ends are rounded."""
        lower = np.full(values.size, MIN_KEY + 1)
        upper = np.full(values.size, MAX_KEY)
        for part in self.asked.bounds:
            if part.doubles:
                [interval] = part.doubles["left"]
                if interval.nan_apart and int(keys.max()) >= NAN:
                    return None
                ends = np.empty_like(values), np.empty_like(values)
                key_ranges.double_ranges(values, interval.low, interval.high, *ends)
            else:
                [ends] = part.ranges("left", values)
            np.maximum(lower, ends[0], out=lower)
            np.minimum(upper, ends[1], out=upper)
        if self.asked.keep == "last":
            return upper, "before", lower, upper
        if self.asked.keep == "first":
            return lower - 1, "after", lower, upper
        return np.minimum(upper, np.maximum(values, lower - 1)), "nearest", lower, upper

    def _is_bounded(self, way: str) -> bool:
        """Tell whether the bound leaves anything to check of what is found."""
        low, high = self.asked.ends
        return {"before": high < inf, "after": low > -inf}.get(way, high < inf or low > -inf)

    def _keep_near(self, found: RowIds, values: Keys, keys: Keys) -> None:
        low, high = clamp(self.asked.ends)
        self._in_stretches(lambda s: keep_near(found[s], values[s], keys, low, high))

    def _keep_between(self, found: RowIds, keys: Keys, lower: Keys, upper: Keys) -> None:
        self._in_stretches(lambda s: keep_between(found[s], keys, lower[s], upper[s]))

    def _make_codes(self, asking: Ordered, there: Ordered) -> None:
        """Number the equalities of all rows, in the order of their keys."""
        if self.left.plan.equalities:
            sides = self.left, self.right
            if len(self.left.plan.equalities) == 1:
                ours, theirs = (each.keys.equalities[0] for each in sides)
                is_exact = self.left.plan.equalities[0].exact
            else:
                ours, theirs = (each.plan.hash_equalities(each.keys) for each in sides)
                is_exact = False
            is_secret = not is_exact and self.left.plan.seed != FIXED
            codes = make_codes(ours, theirs, self.threads, is_secret)
            left, right = share(
                lambda pair: pair[0].arrange(pair[1]),
                [(asking, codes.left), (there, codes.right)],
                self.threads,
            )
            self.codes = codes._replace(left=left, right=right)

    def _seek(self, bounds: Keys, keys: Keys) -> RowIds:
        """Find the last key up to each bound; each thread searches a part of the bounds."""
        found = np.empty(bounds.size, np.int32)
        cuts = np.linspace(0, bounds.size, self.threads + 1).astype(np.int64)
        parts = [(int(a), int(b)) for a, b in pairwise(cuts) if a < b]
        share(lambda part: self._seek_part(bounds, keys, part, found), parts, self.threads)
        return found

    def _seek_part(self, bounds: Keys, keys: Keys, part: tuple[int, int], found: RowIds) -> None:
        """Find the last key up to each bound of a part, a stretch at a time."""
        first, last = part
        codes = self.codes
        if codes is None:
            for at in range(first, last, STRETCH):
                checkpoint()
                seek(bounds, keys, at, min(at + STRETCH, last), found)
            return
        latest = np.full(codes.number + 1, -1, np.int32)
        following = int(np.searchsorted(keys, bounds[first]))
        for at in range(0, following, STRETCH):
            checkpoint()
            note_latest(codes.right, codes.base, at, min(at + STRETCH, following), latest)
        for at in range(first, last, STRETCH):
            checkpoint()
            stretch = at, min(at + STRETCH, last), following
            following = seek_coded(
                bounds, keys, codes.left, codes.right, codes.base, stretch, latest, found
            )

    def _link(self) -> None:
        """Link the keys of each code."""
        codes = self.codes
        if codes is not None:
            latest, heads = (np.full(codes.number + 1, -1, np.int32) for _ in range(2))
            previous, following = (np.empty(codes.right.size, np.int32) for _ in range(2))
            link(codes.right, codes.base, latest, heads, previous, following)
            self.links = Links(previous, following, heads)

    def _step_up(self, before: RowIds) -> RowIds:
        """Return the next key for each row."""
        if self.codes is None:
            after = before + np.int32(1)
            after[after == len(self.right)] = -1
            return after
        after, codes = np.empty_like(before), self.codes
        links = self.links
        self._in_stretches(
            lambda s: step_up(
                before[s], codes.left[s], codes.base, links.heads, links.following, after[s]
            )
        )
        return after

    def _choose(self, before: RowIds, after: RowIds, values: Keys, keys: Keys) -> int:
        """Choose the nearer of two keys; return how many are level."""
        part = self.asked.part
        if not part.floating:
            return sum(
                self._in_stretches(lambda s: choose_nearer(before[s], after[s], values[s], keys))
            )
        is_open = np.zeros(before.size, np.bool_)
        single = self.asked.single
        links = self.links.previous, self.links.following
        level = self._in_stretches(
            lambda s: choose_nearer_double(
                before[s], after[s], values[s], keys, *links, single, is_open[s]
            )
        )
        self.is_open = is_open if is_open.any() else None
        return sum(level)

    def _settle(self, before: RowIds, after: RowIds | None, there: Ordered) -> RowIds:
        """Return the rows of the keys that are found, those chosen where several are level."""
        rows = there.rows
        kept = before if rows is None else self._take_kept(rows, before)
        others = None
        if after is not None and not self.asked.is_by_key:
            others = after if rows is None else self._take_kept(rows, after)
        if there.has_equal:
            self._choose_equal(before, after, there, kept, others)
        if after is None or others is None:
            return kept
        level = np.flatnonzero((kept >= 0) & (others >= 0))
        pairs = np.stack([kept[level], others[level]], axis=1).ravel()
        starts = np.arange(0, pairs.size + 1, 2)
        ranks = self.asked.ranks_of(self.right)
        kept[level] = pick_first(self.right.rows, pairs, starts, ranks)
        return kept

    def _take_kept(self, rows: RowIds, places: RowIds) -> RowIds:
        """Return the rows at some places."""
        taken = np.empty_like(places)
        share(lambda s: take_kept(rows, places[s], taken[s]), cut(places.size), self.threads)
        return taken

    def _choose_equal(
        self,
        before: RowIds,
        after: RowIds | None,
        there: Ordered,
        kept: RowIds,
        others: RowIds | None,
    ) -> None:
        """Where keys found are equal to others, keep the first of their rows."""
        keys, rows = there.keys, there.rows
        previous, following, _ = self.links
        is_tied = np.empty(keys.size, np.bool_)
        if not mark_equal(keys, previous, is_tied):
            return
        pairs = [(before.copy() if kept is before else before, kept)]
        if after is not None and others is not None:
            pairs.append((after.copy() if others is after else after, others))
        touched = [self._list_found(found, is_tied) for found, _ in pairs]
        places = np.unique(
            np.concatenate([found[at] for (found, _), at in zip(pairs, touched, strict=True)])
        )
        if not places.size:
            return
        starts = np.empty(places.size + 1, np.int64)
        members = list_tied(places, keys, previous, following, starts)
        if rows is not None:
            members = rows[members]
        picked = pick_first(self.right.rows, members, starts, self.asked.ranks_of(self.right))
        for (found, target), at in zip(pairs, touched, strict=True):
            target[at] = picked[np.searchsorted(places, found[at])]

    def _list_found(self, found: RowIds, is_tied: Flags) -> Positions:
        """Return the left rows that found a key which is equal to another."""
        flags = np.empty(found.size, np.bool_)
        self._in_stretches(lambda s: take_flags(is_tied, found[s], flags[s]))
        return np.flatnonzero(flags)

    def _in_stretches(self, function: Callable[[slice], Int]) -> list[Int]:
        """Apply a function to all left rows, a stretch at a time."""
        return share(function, cut(len(self.left)), self.threads)


def clamp(ends: tuple[float, float]) -> tuple[int, int]:
    """Return ends of a range as keys."""
    low, high = (int(min(max(end, MIN_KEY), MAX_KEY)) for end in ends)
    return low, high


def is_at_edge(keys: Keys) -> bool:
    """Tell whether keys in order reach the edges of int64, where some stand for others."""
    return int(keys[0]) == MIN_KEY or int(keys[-1]) == MAX_KEY


def is_too_wide(values: Keys, keys: Keys) -> bool:
    """Tell whether differences from keys in order overflow."""
    least, greatest = int(values.min()), int(values.max())
    return greatest - int(keys[0]) > WIDEST or int(keys[-1]) - least > WIDEST
