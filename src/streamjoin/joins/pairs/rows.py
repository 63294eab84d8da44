"""What a subwindow keeps of its rows: the input's columns, keys to filter by, arrival numbers."""

from contextlib import suppress

import numpy as np
import pyarrow as pa

from streamjoin.kernels.compile import Keys, RowIds, kernel
from streamjoin.plans.batches import copy_batch, in_one_piece, take_rows
from streamjoin.plans.limits import DEFAULT_LIMITS, Limits


@kernel
def group_by_piece(probes: RowIds, rows: RowIds, starts: Keys) -> tuple[RowIds, RowIds]:
    """Counting sort of pairs by the piece of their row; ``starts`` are the pieces' first rows."""
    pieces = np.searchsorted(starts, rows, side="right") - 1
    slots = np.zeros(starts.size + 1, np.int64)
    for piece in pieces:
        slots[piece + 1] += 1
    for piece in range(starts.size):
        slots[piece + 1] += slots[piece]
    grouped_probes, grouped_rows = np.empty_like(probes), np.empty_like(rows)
    for i in range(rows.size):
        slot = slots[pieces[i]]
        slots[pieces[i]] = slot + 1
        grouped_probes[slot], grouped_rows[slot] = probes[i], rows[i]
    return grouped_probes, grouped_rows


def concat_last(pieces: list[pa.RecordBatch], count: int) -> list[pa.RecordBatch]:
    """Return pieces of which the last ones are put together, unless they are too much for one."""
    if count > 1:
        with suppress(pa.ArrowInvalid):  # more than 2 GiB of text in a column
            return [*pieces[:-count], pa.concat_batches(pieces[-count:])]
    return pieces


class Column:
    """An int64 array that grows at its end, and may lose values at its beginning.

    Values are never moved within an array, so who has seen some still sees them.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.first, self.size, self.slots = 0, 0, np.empty(0, np.int64)
        self.limits = limits

    def append(self, values: Keys) -> None:
        """Add values; O(1) each, amortised."""
        if self.first + self.size + values.size > self.slots.size:
            size = self.size + values.size
            grown = np.empty(max(size, self.size + self.size // 2), np.int64)
            grown[: self.size] = self.values
            self.first, self.slots = 0, grown
        end = self.first + self.size
        self.slots[end : end + values.size] = values
        self.size += values.size

    def drop_first(self, count: int) -> None:
        """Forget the first values; O(1) each, amortised, since few are left when some are moved."""
        self.first += count
        self.size -= count
        if self.slots.size > 4 * self.size + self.limits.small_piece_rows:
            self.first, self.slots = 0, self.values.copy()

    @property
    def values(self) -> Keys:
        """The values so far."""
        return self.slots[self.first : self.first + self.size]

    @property
    def nbytes(self) -> int:
        """Bytes, slack included."""
        return self.slots.nbytes


class Ordinals:
    """Arrival numbers of rows; only the first one while no row was left out.

    In count windows they ascend, which is what `rows` and `last` go by; in time windows a restored
    join may append older rows behind newer ones, and a whole window puts some behind all others.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.first, self.size, self.limits = 0, 0, limits
        self.column: Column | None = None

    def append(self, ordinals: Keys) -> None:
        """Add numbers; in count windows they ascend."""
        if not ordinals.size:
            return
        if not self.size:
            self.first = int(ordinals[0])
        begin = self.first + self.size
        follows = np.array_equal(ordinals, np.arange(begin, begin + ordinals.size))
        if self.column is None and not follows:
            self.column = Column(self.limits)
            self.column.append(np.arange(self.first, self.first + self.size))
        if self.column is not None:
            self.column.append(ordinals)
        self.size += ordinals.size

    def drop_first(self, count: int) -> None:
        """Forget the first numbers."""
        self.size -= count
        if self.column is None:
            self.first += count
            return
        self.column.drop_first(count)
        self.first = int(self.column.values[0]) if self.size else 0

    def glimpse(self) -> "Ordinals":
        """Return the numbers that are here now, whatever comes or goes."""
        seen = Ordinals(self.limits)
        seen.first, seen.size = self.first, self.size
        if self.column is not None:
            seen.column = Column(self.limits)
            seen.column.slots, seen.column.size = self.column.values, self.column.size
        return seen

    def count_before(self, number: int) -> int:
        """Count the numbers below another one; count windows only."""
        if self.column is None:
            return min(max(number - self.first, 0), self.size)
        return int(self.column.values.searchsorted(number))

    @property
    def last(self) -> int:
        """The greatest number."""
        if self.column is None:
            return self.first + self.size - 1
        return int(self.column.values[-1])

    @property
    def values(self) -> Keys:
        """All numbers."""
        if self.column is None:
            return np.arange(self.first, self.first + self.size)
        return self.column.values

    def of(self, rows: RowIds) -> Keys:
        """Return the numbers of some rows."""
        if self.column is None:
            return rows + np.int64(self.first)
        return self.column.values[rows]

    def rows(self, lower: Keys, upper: Keys) -> tuple[Keys, Keys]:
        """Turn closed ranges of numbers into closed ranges of row ids."""
        if self.column is None:
            return lower - self.first, upper - self.first
        values = self.column.values
        return values.searchsorted(lower), values.searchsorted(upper, "right") - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers kept."""
        return 0 if self.column is None else self.column.nbytes


class Rows:
    """The input's columns, as copies of the batches they came in.

    Copies, because Arrow data made from NumPy or pandas share the caller's memory, which may
    change, and because a slice would keep the whole table it was cut from.

    Pieces are put together so that each is at least twice as large as the next: there are O(log n)
    of them, and a row is copied O(log n) times. Rows that ``roll`` leave at the other end: then a
    piece is at most an eighth of them, lest it is kept for the sake of its last row.
    """

    def __init__(
        self, copies: bool = True, rolls: bool = False, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.copies, self.rolls, self.limits = copies, rolls, limits
        self.pieces: list[pa.RecordBatch] = []
        self.size = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        pieces = [*self.pieces, copy_batch(batch) if self.copies else batch]
        count, size, total = 1, batch.num_rows, self.size + batch.num_rows
        most = max(total // 8, self.limits.small_piece_rows) if self.rolls else total
        while count < len(pieces) and pieces[-count - 1].num_rows < 2 * size:
            size += pieces[-count - 1].num_rows
            if size > most:
                break
            count += 1
        self.pieces, self.size = concat_last(pieces, count), total

    def drop_first(self, count: int) -> None:
        """Forget the first rows; a piece's memory goes with its last one."""
        self.size -= count
        while count and count >= self.pieces[0].num_rows:
            count -= self.pieces.pop(0).num_rows
        if count:
            self.pieces[0] = self.pieces[0].slice(count)

    def keep_first(self, count: int) -> None:
        """Forget all but the first rows."""
        while self.size - count >= (self.pieces[-1].num_rows if self.pieces else 1):
            self.size -= self.pieces.pop().num_rows
        if self.size > count:
            last = self.pieces[-1]
            self.pieces[-1] = last.slice(0, last.num_rows - (self.size - count))
            self.size = count

    def stretch(self, first: int) -> pa.RecordBatch:
        """Return the rows from ``first`` on as one batch; there must be some."""
        kept, at = [], self.size
        for piece in reversed(self.pieces):
            at -= piece.num_rows
            kept.append(piece.slice(max(first - at, 0)))
            if at <= first:
                break
        return in_one_piece(kept[::-1], self.pieces[0].schema)

    def glimpse(self) -> "Rows":
        """Return the rows that are here now, whatever comes or goes."""
        seen = Rows(self.copies, self.rolls, self.limits)
        seen.pieces, seen.size = list(self.pieces), self.size
        return seen

    def seal(self) -> None:
        """Put all pieces together: no more are coming."""
        self.pieces = concat_last(self.pieces, len(self.pieces))

    @property
    def starts(self) -> Keys:
        """The row id that each piece begins with."""
        return np.cumsum([0, *(piece.num_rows for piece in self.pieces[:-1])])

    def group(self, probes: RowIds, rows: RowIds) -> tuple[RowIds, RowIds]:
        """Bring pairs into the order of the pieces that their stored rows lie in."""
        if len(self.pieces) == 1:
            return probes, rows
        return group_by_piece(probes, rows, self.starts)

    def take(self, rows: RowIds, names: tuple[str, ...] | None = None) -> pa.RecordBatch:
        """Gather rows, grouped as ``group`` does; of the named columns only, if there are names.

        Arrow would put all pieces together first, whatever their size.
        """
        pieces = self.pieces if names is None else [piece.select(names) for piece in self.pieces]
        if len(pieces) == 1:
            return take_rows(pieces[0], rows)
        starts = self.starts
        cuts = [np.count_nonzero(rows < start) for start in starts] + [rows.size]
        taken = (
            take_rows(piece, rows[first:last] - np.int32(start))
            for piece, start, first, last in zip(pieces, starts, cuts, cuts[1:], strict=False)
            if last > first
        )
        return in_one_piece(taken, pieces[0].schema)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return sum(piece.nbytes for piece in self.pieces)
