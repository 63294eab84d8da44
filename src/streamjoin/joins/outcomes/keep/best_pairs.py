"""The best pairs of what was found, block by block: what a left row keeps of it at most."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamjoin.joins.outcomes.ranking.ranks import Ranking
from streamjoin.joins.outcomes.ranking.selection import Ranks, select
from streamjoin.joins.pairs.candidates import Found, confirm_pairs, rows_of_pairs
from streamjoin.kernels.compile import Keys, Positions, RowIds

NameLeft = Callable[[Found, RowIds, RowIds], RowIds | Keys]  # names the left rows of pairs


@dataclass(frozen=True)
class Kept:
    """Pairs that are kept of what was found, by their left rows, in ascending order."""

    found: Found
    lefts: Keys
    ranks: Ranks
    probes: RowIds
    rows: RowIds


def keep_best(ranking: Ranking, k: int, found: Found, name_left: NameLeft) -> Iterator[Kept]:
    """Yield the best pairs of each block of what was found; ``name_left`` names left rows."""
    schema = found.batch.plan.schemas["right"]
    for probes, rows in confirm_pairs(found):
        lefts = name_left(found, probes, rows).astype(np.int64)
        ranks = ranking.of(found, probes, rows)

        def fetch(
            pairs: Positions,
            names: tuple[str, ...],
            probes: RowIds = probes,
            rows: RowIds = rows,
        ) -> pa.RecordBatch:
            return rows_of_pairs(found, probes[pairs], rows[pairs], "right", names)

        best = select(lefts, ranks, k, schema, fetch)
        yield Kept(found, lefts[best], ranks[best], probes[best], rows[best])
