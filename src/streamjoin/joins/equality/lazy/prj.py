"""PRJ, the parallel radix join: partitions that fit into the cache, a hash join in each (3.1).

Both sides are partitioned by the first ``bits`` of their codes; then threads take runs of
partitions. A thread makes a table of a partition's left words, by the bits that follow, and probes
it with the right ones; all random accesses stay in the cache. The table replaces its words.
"""

from itertools import pairwise

import numpy as np

from streamjoin.errors import StreamJoinError
from streamjoin.indexes.catalogue import MOST_BITS
from streamjoin.joins.equality.lazy.bucket_table import Ends, bits_for, find_run, sort_buckets
from streamjoin.joins.equality.lazy.partitioning import SLICE, Partitioned, partition
from streamjoin.joins.equality.phases import Phases
from streamjoin.joins.equality.pieces import Piece, even_out
from streamjoin.joins.equality.words import CODE_BITS, Words, uppers_of
from streamjoin.kernels.compile import Int, Positions, RowIds, kernel
from streamjoin.kernels.threads import share

PART_WORDS = 1 << 13  # left words per partition: 64 KB, and as much for its table
CHOSEN_BITS = 12  # at most; with more, there are too many places to write to at a time
SHARES = 4  # runs of partitions per thread, so that none waits long for the last


@kernel
def make_table(words: Words, first: Int, shift: Int, ends: Ends, spare: Words) -> None:
    """Sort the words of one partition by bucket, by way of ``spare``.

    ``shift`` counts the bits before and after those of the bucket; ``ends`` count from ``first``.
    """
    before, behind = shift
    ends[:] = 0
    for i in range(words.size):
        ends[np.int64((words[i] << before) >> behind) + 1] += 1
    at = np.int32(0)
    for bucket in range(1, ends.size):
        count = ends[bucket]
        ends[bucket] = at
        at += count
    for i in range(words.size):
        word = words[i]
        place = np.int64((word << before) >> behind) + 1
        slot = ends[place]
        ends[place] = slot + 1
        spare[slot] = word
    sort_buckets(spare, ends)
    for i in range(words.size):
        words[i] = spare[i]
    for bucket in range(ends.size):
        ends[bucket] += first


@kernel
def join_parts(
    left: Words,
    right: Words,
    left_starts: Positions,
    right_starts: Positions,
    bits: Int,
    counts: RowIds,
) -> int:
    """Join partitions one by one; return the number of matches.

    Left words become tables, partition by partition. In the right words, the start of the run
    replaces the code; ``counts`` are the lengths of the runs.
    """
    origin, total, widest = right_starts[0], 0, 1
    half, row = np.uint64(32), np.uint64(2**32 - 1)
    for part in range(left_starts.size - 1):
        widest = max(widest, left_starts[part + 1] - left_starts[part])
    places, spare = np.empty(4 * widest + 1, np.int32), np.empty(widest, np.uint64)
    before = np.uint64(bits)
    for part in range(left_starts.size - 1):
        first, last = left_starts[part], left_starts[part + 1]
        begin, end = right_starts[part], right_starts[part + 1]
        table_bits = 1
        # After the code come bits of the row, which differ between matching words.
        while (1 << table_bits) < 2 * (last - first) and bits + table_bits < CODE_BITS:
            table_bits += 1
        behind = np.uint64(64 - table_bits)
        ends = places[: (1 << table_bits) + 1]
        if begin < end:
            make_table(left[first:last], first, (before, behind), ends, spare)
        for i in range(begin, end):
            word = right[i]
            bucket = np.int64((word << before) >> behind)
            start, count = find_run(left, ends[bucket], ends[bucket + 1], word)
            right[i] = np.uint64(start) << half | word & row
            counts[i - origin] = count
            total += count
    return total


class PRJ:
    """The algorithm; without ``bits``, partitions have about `PART_WORDS` left words."""

    def __init__(self, threads: int = 1, bits: int | None = None) -> None:
        if bits is not None and not 0 < bits <= MOST_BITS:
            raise StreamJoinError(
                f"bits={bits} cannot be taken from codes to make partitions; give 1 to "
                f"{MOST_BITS}, for at most 2**{MOST_BITS} partitions, or leave it out"
            )
        self.threads, self.bits, self.phases = threads, bits, Phases()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        return self.phases.seconds

    def join(self, left: Words, right: Words) -> list[Piece]:
        """Find all pairs of equal codes."""
        if not left.size or not right.size:
            return []
        bits = self.bits
        if bits is None:
            bits = min(bits_for(left.size // PART_WORDS), CHOSEN_BITS)
        with self.phases.time("partition"):
            lefts, rights = (partition(words, bits, self.threads) for words in (left, right))
        with self.phases.time("probe"):

            def work(parts: tuple[int, int]) -> Piece:
                first, last = parts
                span = slice(first, last + 1)
                begin, end = rights.starts[first], rights.starts[last]
                counts = np.empty(end - begin, np.int32)
                total = join_parts(
                    lefts.words,
                    rights.words,
                    lefts.starts[span],
                    rights.starts[span],
                    bits,
                    counts,
                )
                words = rights.words[begin:end]
                return Piece.of("right", words, uppers_of(words), counts, total, lefts.words)

            found = share(work, cut_shares(lefts, rights, self.threads), self.threads)
            return even_out(found, self.threads)


def cut_shares(left: Partitioned, right: Partitioned, threads: int) -> list[tuple[int, int]]:
    """Cut partitions into runs of about the same number of words, several per thread."""
    ends = left.starts + right.starts
    count = max(1 if threads == 1 else SHARES * threads, -(-int(ends[-1]) // SLICE))
    wanted = [int(ends[-1]) * number // count for number in range(count + 1)]
    cuts = np.searchsorted(ends, wanted)
    cuts[0], cuts[-1] = 0, ends.size - 1
    return [(int(a), int(b)) for a, b in pairwise(np.unique(cuts))]
