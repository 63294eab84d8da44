"""The nested loop as the papers have it: one comparison after the other, compiled, no SIMD.

`indexes.runs.scan` is several times faster, because it counts hits in tiles without branches, which
compiles to SIMD code. Measured beside it, this one tells how much of a ratio is owed to that.
"""

from collections.abc import Iterator

import numpy as np

from streamjoin.indexes.matches import Matches
from streamjoin.indexes.runs.scan import HITS, Scan, group_by_probe
from streamjoin.kernels.compile import Keys, Positions, RowIds, kernel


@kernel
def compare_all(
    keys: Keys,
    row_ids: RowIds,
    lower: Keys,
    upper: Keys,
    resume: Positions,
    found: RowIds,
    hits: RowIds,
) -> int:
    """Compare every probe from ``resume`` on with every key, until ``hits`` may overflow."""
    count = 0
    for probe in range(resume[0], lower.size):
        if count + keys.size > hits.size and count:
            resume[0] = probe
            return count
        for i in range(keys.size):
            if lower[probe] <= keys[i] <= upper[probe]:
                found[count] = probe
                hits[count] = row_ids[i]
                count += 1
    resume[0] = lower.size
    return count


class PlainScan(Scan):
    """A scan that compares one pair after the other."""

    def probe(self, lower: Keys, upper: Keys) -> Iterator[Matches]:
        """Yield what the probes find."""
        keys, row_ids = self.keys[: self.size], self.row_ids[: self.size]
        room = max(HITS, self.size)
        found, hits = np.empty(room, np.int32), np.empty(room, np.int32)
        resume = np.zeros(1, np.int64)
        while resume[0] < lower.size:
            count = compare_all(keys, row_ids, lower, upper, resume, found, hits)
            if count:
                ends, rows = group_by_probe(found[:count], hits[:count], lower.size)
                yield Matches(np.concatenate(([0], ends[:-1])), ends, rows)
