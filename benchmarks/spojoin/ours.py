"""Our side of the SPO-Join benchmarks: its parts and the whole, behind the rivals' interfaces.

``PermutedPart`` is the immutable part, a `Permutation`; ``FreshPart`` what takes tuples, a whole
`SPOJoin` or its mutable part alone; ``EngineJoin`` a join with any algorithm of the library, as
users have it. Our parts take probes in batches, which they need in two orders; putting them in
order is part of what is measured. A batch of one tuple is a call from Python for each tuple: some
ten microseconds that no rival pays.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks.harness.workloads import FILL, pair_ids
from benchmarks.spojoin.baselines import Part
from benchmarks.spojoin.chains import Arrivals
from benchmarks.spojoin.workloads import Query, Ranges, Rows
from streamjoin.indexes.two_keys.crossing import Crossing
from streamjoin.indexes.two_keys.mutable_part import Intersection
from streamjoin.indexes.two_keys.permutation import Permutation
from streamjoin.indexes.two_keys.spo_join import MERGE_ROWS, SPOJoin
from streamjoin.joins.build import make_engine
from streamjoin.joins.engine import Engine
from streamjoin.joins.sliding.manager import Manager
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import Side
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.arrivals import number_step
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import prepare
from streamjoin.windows import CountWindow

BATCH = 4096
BLOCK = 1 << 18  # pairs that are written before they are handed over, as in a join
NUMBER = np.zeros(1, np.int32)  # of a probe that comes alone

Column = tuple[Keys, RowIds]
Asked = tuple[Range, RowIds, Range]
Crossed = Crossing | Intersection


def in_order(stored: Rows, base: int = 0) -> tuple[Column, Column]:
    """Return rows sorted by either column, with their ids."""
    first, second = (sort_with_rows(keys) for keys in stored)
    return (first[0], first[1] + np.int32(base)), (second[0], second[1] + np.int32(base))


def ask(rows: Rows, ranges: Ranges) -> Asked:
    """Return what a batch of probes looks for, in the order of both columns as the join has it."""
    if rows.first.size == 1:
        return ranges[:2], NUMBER, ranges[2:]
    first, second = (sort_with_rows(keys)[1] for keys in rows)
    places = np.empty(second.size, np.int32)
    places[second] = np.arange(second.size)
    return (
        (ranges.first_lower[first], ranges.first_upper[first]),
        places[first],
        (ranges.second_lower[second], ranges.second_upper[second]),
    )


def matches_of(found: Iterable[Crossed], writes: bool) -> int:
    """Return how many matches were found, and write these if asked."""
    if not writes:
        return sum(map(len, found))
    return sum(rows.size for crossed in found for _, rows in crossed.blocks(BLOCK))


class PermutedPart(Part):
    """The immutable part: ``batch`` tuples are searched for at once, rows written or counted."""

    def __init__(self, stored: Rows, batch: int = BATCH, writes: bool = True) -> None:
        self.permutation = Permutation.from_sorted(*in_order(stored))
        self.batch, self.writes = batch, writes

    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Search for tuples."""
        matches = 0
        for begin in range(0, rows.first.size, self.batch):
            end = begin + self.batch
            asked = ask(rows.part(begin, end), ranges.part(begin, end))
            matches += matches_of([self.permutation.probe(*asked)], self.writes)
        return matches

    def rewind(self) -> None:
        """Do nothing: searching changes nothing."""


class FreshPart(Part):
    """Tuples that come: ``batch`` of them are searched for at once, and then inserted at once.

    So a tuple does not meet those of its own batch, which are of its own stream in a join of two.
    ``merge_rows`` is how many the mutable part takes before it becomes a permutation; if as many as
    there is room for, there is nothing but a mutable part.
    """

    takes_tuples = True

    def __init__(
        self, stored: Rows, batch: int = 1, merge_rows: int = MERGE_ROWS, writes: bool = True
    ) -> None:
        self.stored, self.batch, self.merge_rows, self.writes = stored, batch, merge_rows, writes
        self.rewind()

    def rewind(self) -> None:
        """Begin again with what was stored first."""
        self.index = SPOJoin(merge_rows=self.merge_rows)
        if not self.stored.first.size:
            return
        if self.stored.first.size < self.merge_rows:
            self.index.mutable.insert(*in_order(self.stored))
        else:
            self.index.insert(*in_order(self.stored))

    def run(self, rows: Rows, ranges: Ranges) -> int:
        """Search for tuples and insert them."""
        matches = 0
        for begin in range(0, rows.first.size, self.batch):
            some = rows.part(begin, begin + self.batch)
            asked = ask(some, ranges.part(begin, begin + self.batch))
            matches += matches_of(self.index.probe(*asked), self.writes)
            self.index.insert(*in_order(some, len(self.index)))
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
        config = JoinOptions.check(
            query.on, CountWindow(window), algorithm=algorithm, threads=threads, cores=cores
        )
        schema = pa.schema(dict.fromkeys(query.columns, pa.int64()))
        schemas: dict[Side, pa.Schema] = dict.fromkeys(SIDES, schema)
        self.engine: Engine = make_engine(config, schemas, deliver=pair_ids)

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
