"""Our side of the SPO-Join benchmarks: its parts and the whole, behind the rivals' interfaces.

``PermutedPart`` is the immutable part, a `Permutation`; ``FreshPart`` the mutable one, a `SPOJoin`
that has not been sealed; ``EngineJoin`` a whole join with any algorithm of the library, as users
have it. Our parts take probes in batches, which they need in two orders; putting them in order is
part of what is measured. A batch of one tuple is a call from Python for each tuple: about ten
microseconds that no rival pays.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.benchmarks.spojoin_baselines import Part
from streamjoin.benchmarks.spojoin_chains import Arrivals
from streamjoin.benchmarks.spojoin_workloads import Query, Ranges, Rows
from streamjoin.benchmarks.workloads import FILL, pair_ids
from streamjoin.config import JoinConfig
from streamjoin.indexes.permutation import Permutation
from streamjoin.indexes.spo_join import SPOJoin
from streamjoin.joins.arrivals import number_step
from streamjoin.joins.engine import Engine
from streamjoin.joins.manager import Manager
from streamjoin.joins.plan import SIDES
from streamjoin.joins.prepared import prepare
from streamjoin.kernels import Keys, RowIds
from streamjoin.keys.operands import Side
from streamjoin.windows import CountWindow

BATCH = 4096
BLOCK = 1 << 16  # pairs that are written before they are handed over

Column = tuple[Keys, RowIds]


def in_order(stored: Rows, base: int = 0) -> tuple[Column, Column]:
    """Return rows sorted by either column, with their ids."""
    first, second = (np.argsort(keys, kind="stable") for keys in stored)
    return (
        (stored.first[first], (base + first).astype(np.int32)),
        (stored.second[second], (base + second).astype(np.int32)),
    )


def matches_of(probe: Callable[..., Iterable[Any]], ranges: Ranges, writes: bool) -> int:
    """Search for a batch of probes; return how many matches they have, and write these if asked."""
    first = np.lexsort((ranges.first_upper, ranges.first_lower))
    second = np.lexsort((ranges.second_upper, ranges.second_lower))
    places = np.empty(second.size, np.int32)
    places[second] = np.arange(second.size)
    found = probe(
        (ranges.first_lower[first], ranges.first_upper[first]),
        places[first],
        (ranges.second_lower[second], ranges.second_upper[second]),
    )
    if not writes:
        return sum(int(crossing.count()) for crossing in found)
    return sum(rows.size for crossing in found for _, rows in crossing.blocks(BLOCK, None))


class PermutedPart(Part):
    """The immutable part: ``batch`` tuples are searched for at once, rows written or counted."""

    def __init__(self, stored: Rows, batch: int = BATCH, writes: bool = True) -> None:
        self.permutation = Permutation.from_sorted(*in_order(stored))
        self.batch, self.writes = batch, writes

    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Search for tuples."""
        return sum(
            matches_of(self.probe, ranges.part(begin, begin + self.batch), self.writes)
            for begin in range(0, rows.first.size, self.batch)
        )

    def probe(self, *ranges: Any) -> list[Any]:
        """Search for a batch of probes; the one answer as a list."""
        return [self.permutation.probe(*ranges)]

    def rewind(self) -> None:
        """Do nothing: searching changes nothing."""


class FreshPart(Part):
    """The mutable part: ``batch`` tuples are searched for at once, and then inserted at once.

    So a tuple does not meet those of its own batch, which are of its own stream in a join of two.
    """

    takes_tuples = True

    def __init__(self, stored: Rows, room: int, batch: int = 1, writes: bool = True) -> None:
        self.stored, self.room, self.batch, self.writes = stored, room, batch, writes
        self.rewind()

    def rewind(self) -> None:
        """Begin again with what was stored first."""
        self.index = SPOJoin(self.stored.first.size + self.room)
        if self.stored.first.size:
            self.index.insert(*in_order(self.stored))

    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Search for tuples and insert them."""
        matches = 0
        for begin in range(0, rows.first.size, self.batch):
            end = begin + self.batch
            matches += matches_of(self.index.probe, ranges.part(begin, end), self.writes)
            self.index.insert(*in_order(rows.part(begin, end), len(self.index)))
        return matches


class EngineJoin:
    """A whole join of two streams by one of the library's algorithms, pairs of rows written."""

    def __init__(
        self,
        query: Query,
        window: int,
        algorithm: str = "spo_join",
        threads: int = 2,
        cores: int | None = None,
    ) -> None:
        self.query = query
        config = JoinConfig.check(
            query.on, CountWindow(window), algorithm=algorithm, threads=threads, cores=cores
        )
        schema = pa.schema(dict.fromkeys(query.columns, pa.int64()))
        schemas: dict[Side, pa.Schema] = dict.fromkeys(SIDES, schema)
        self.engine: Engine = config.make_engine(schemas, deliver=pair_ids)

    def fill(self, side: int, rows: Rows) -> None:
        """Let tuples come that look for nothing, where windows are in one piece; else they look."""
        engine, name = self.engine, SIDES[side]
        for begin in range(0, rows.first.size, FILL):
            batch = self.query.batch(rows.part(begin, begin + FILL))
            if not isinstance(engine.join, Manager):
                engine.push({name: batch})
                continue
            prepared = {name: prepare(engine.plan, name, batch)}
            arrived = engine.counters.rows
            number_step(prepared, {name: batch.num_rows}, arrived, {}, engine.plan.counted)
            engine.manager.insert(list(prepared.values()))
            arrived[name] += batch.num_rows

    def run(self, arrivals: Arrivals) -> int:
        """Take tuples, those of one stream that follow each other as one batch."""
        before = self.engine.counters.matches
        for side, batch in self.batches(arrivals):
            self.engine.push({side: batch})
        return self.engine.counters.matches - before

    def batches(self, arrivals: Arrivals) -> Iterator[tuple[Side, pa.RecordBatch]]:
        """Cut tuples where the stream changes; no columns are copied."""
        cuts = np.flatnonzero(np.diff(arrivals.sides)) + 1
        ends = [*cuts.tolist(), arrivals.sides.size]
        begin = 0
        for end in ends:
            yield SIDES[arrivals.sides[begin]], self.query.batch(arrivals.rows.part(begin, end))
            begin = end
