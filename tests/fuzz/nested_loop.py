"""Which pairs a window leaves: loops over rows, written from docs/guide/windows.md alone.

Times are whole nanoseconds, or None. Rows are their places in the tables of the block. A window is
a tuple: ``("time", before, after)``, ``("count", left, right)``, ``("tumbling", length, offset)``,
``("session", gap)`` or ``("none",)``.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Pairs = Counter[tuple[int, int]]
Window = tuple[str | int, ...]


@dataclass(frozen=True)
class Step:
    """A push: places of rows of each side, None if the side is not given; then a watermark."""

    left: tuple[int, ...] | None
    right: tuple[int, ...] | None
    watermark: int | None = None


@dataclass
class Arrived:
    """The rows of both sides in the order of their arrival: those on time, and those too late.

    Rows without a time are on time, and in no window.
    """

    times: tuple[list[int | None], list[int | None]]
    delay: int | None
    rows: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    late: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    watermark: int | None = None
    newest: dict[int, int] = field(default_factory=dict)

    def push(self, step: Step) -> None:
        for side, rows in enumerate((step.left, step.right)):
            for row in rows or ():
                time = self.times[side][row]
                is_late = time is not None and self.is_past(time)
                (self.late if is_late else self.rows)[side].append(row)
                if time is not None:
                    self.newest[side] = max(time, self.newest.get(side, time))
        self.advance(step.watermark)
        if self.delay is not None and len(self.newest) == 2:
            self.advance(min(self.newest.values()) - self.delay)

    def is_past(self, time: int) -> bool:
        """Whether the watermark is beyond a time."""
        return self.watermark is not None and time < self.watermark

    def advance(self, watermark: int | None) -> None:
        """Move the watermark, never back."""
        if watermark is not None and (self.watermark is None or watermark > self.watermark):
            self.watermark = watermark


def arrive(
    window: Window,
    steps: Sequence[Step],
    times: tuple[list[int | None], list[int | None]],
    delay: int | None,
) -> Arrived:
    """Which rows are on time; where no time counts, all are."""
    if window[0] in ("none", "count"):
        times = ([None] * len(times[0]), [None] * len(times[1]))
    arrived = Arrived(times, delay)
    for step in steps:
        arrived.push(step)
    return arrived


def find_pairs(
    window: Window,
    steps: Sequence[Step],
    arrived: Arrived,
    order: tuple[list[int], list[int]] | None,
    holds: Sequence[Sequence[bool]],
    is_equal: Sequence[Sequence[bool]],
) -> Pairs:
    """All pairs; ``holds`` is the condition, ``is_equal`` its equalities alone, by both rows."""
    if window[0] == "none":
        lefts = [row for step in steps for row in step.left or ()]
        rights = [row for step in steps for row in step.right or ()]
        return Counter((left, right) for left in lefts for right in rights if holds[left][right])
    if window[0] == "count":
        return meet_by_count(int(window[1]), int(window[2]), steps, order, holds)
    lefts, rights = arrived.rows
    if window[0] == "session":
        together = sessions(int(window[1]), arrived, is_equal)
    pairs: Pairs = Counter()
    for left in lefts:
        for right in rights:
            one, other = arrived.times[0][left], arrived.times[1][right]
            if one is None or other is None:
                continue
            if window[0] == "time":
                inside = one - window[1] <= other <= one + window[2]  # type: ignore[operator]
            elif window[0] == "tumbling":
                length, offset = int(window[1]), int(window[2])
                inside = (one - offset) // length == (other - offset) // length
            else:
                inside = (left, right) in together
            if inside and holds[left][right]:
                pairs[left, right] += 1
    return pairs


def meet_by_count(
    most_left: int,
    most_right: int,
    steps: Sequence[Step],
    order: tuple[list[int], list[int]] | None,
    holds: Sequence[Sequence[bool]],
) -> Pairs:
    """An arriving row meets the last rows of the other stream."""
    pairs: Pairs = Counter()
    lefts: list[int] = []
    rights: list[int] = []
    for side, row in arrivals(steps, order):
        if side == 0:
            pairs.update((row, other) for other in rights[-most_right:] if holds[row][other])
            lefts.append(row)
        else:
            pairs.update((one, row) for one in lefts[-most_left:] if holds[one][row])
            rights.append(row)
    return pairs


def arrivals(
    steps: Sequence[Step], order: tuple[list[int], list[int]] | None
) -> list[tuple[int, int]]:
    """(side, row) as they arrive: by push, then the order columns, then left before right."""
    arrived = []
    for step in steps:
        rows = [(0, row) for row in step.left or ()] + [(1, row) for row in step.right or ()]
        if order is not None:
            rows.sort(key=lambda each: order[each[0]][each[1]])
        arrived += rows
    return arrived


def sessions(
    gap: int, arrived: Arrived, is_equal: Sequence[Sequence[bool]]
) -> set[tuple[int, int]]:
    """Pairs of rows in one session: equal keys, and no pause longer than the gap between.

    A row whose key no row of the other side has takes part in no pair, and neither do sessions that
    it would prolong; so the rows of a key are one left row's partners and those of any of them.
    """
    lefts, rights = (
        [row for row in rows if times[row] is not None]
        for rows, times in zip(arrived.rows, arrived.times, strict=True)
    )
    together = set()
    for left in lefts:
        partners = [right for right in rights if is_equal[left][right]]
        if not partners:
            continue
        equals = [one for one in lefts if is_equal[one][partners[0]]]
        rows = [(arrived.times[0][row], 0, row) for row in equals]
        rows += [(arrived.times[1][row], 1, row) for row in partners]
        rows.sort()
        session, last = 0, rows[0][0]
        numbers = {}
        for time, side, row in rows:
            session += time - last > gap  # type: ignore[operator]
            last, numbers[side, row] = time, session
        together |= {(left, right) for right in partners if numbers[0, left] == numbers[1, right]}
    return together


def is_in_order(
    found: Sequence[tuple[Any, ...]],
    steps: Sequence[Step],
    order: tuple[list[int], list[int]] | None,
    ordered: str | int,
) -> bool:
    """Whether matches come by their later row and, if ``inner``, then by their earlier one.

    Groups of rows may be in any order.
    """
    if ordered == "none" or isinstance(ordered, int):
        return True
    among_both = {arrival: place for place, arrival in enumerate(arrivals(steps, order))}
    keys = []
    for left, right, *_ in found:
        earlier, later = sorted((among_both[0, left], among_both[1, right]))
        keys.append((later, earlier if ordered == "inner" else 0))
    return keys == sorted(keys)
