"""Pipelines that do all of a streaming join but the join: what is left is what Spark costs.

Both read, pack, route and shuffle as the real one does, and their processors are called alike:

* `StoringCore` unpacks the rows, computes their keys and, for a count window, numbers all rows and
  picks its share; it writes the same segments and manifest, drops what has expired, and gives as
  many rows of the same columns as the join would: slices of the rows that came, beside each other,
  which costs no copy. It sorts, searches and gathers nothing, has no indexes, and never reads a
  segment back.
* `DiscardingCore` is the papers' "empty system" (PanJoin V-C): it takes the parcels, unpacks none,
  stores nothing and gives nothing. It still tells the packing tasks the routing, as real cores do:
  without it they would send every row to every core, and the baseline would be slower than need be.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.harness.spark.inputs import MATCHES
from streamjoin.joins.engine import Engine, Place
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.spark.api import describe_result, stream_spec
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.planning.inputs import prepare_inputs
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing import hints
from streamjoin.spark.routing.exchange import receive
from streamjoin.spark.routing.parcels import Parcel
from streamjoin.spark.state.mark_pages import MarkBook
from streamjoin.spark.state.segments import Segment
from streamjoin.spark.streams import JoinProcessor, MakeProcessor, join_streams

SLICE = 1 << 16  # rows given together, as the processor sends them on


class StoringCore(JoinCore):
    """Stores and gives as much as the join, and joins nothing."""

    matches = MATCHES  # that a row is given

    def join(
        self, engine: Engine, batches: dict[Side, pa.RecordBatch], place: Place
    ) -> Iterator[pa.RecordBatch]:
        """Give ``matches`` rows for every row that is stored."""
        kept = yield from store_rows(
            self.spec, engine, batches, place, lambda kept: self.matches * sum(map(len, kept))
        )
        engine.manager.inserted = kept

    def _load(self, segments: list[Segment], book: MarkBook) -> Iterator[dict[Side, Prepared]]:
        """Read nothing back: there is nothing to search."""
        return iter(())


def store_rows(
    spec: JoinSpec,
    engine: Engine,
    batches: dict[Side, pa.RecordBatch],
    place: Place,
    count: Callable[[list[Prepared]], int],
) -> Generator[pa.RecordBatch, None, list[Prepared]]:
    """Prepare what is stored here, give so many rows of it, and return it."""
    coming = engine.prepare(batches)
    every = [place(side, batch).stored for side, batch in coming.prepared.items()]
    kept = [batch for batch in every if len(batch)]
    if len(kept) == 2:
        names = dict(zip(SIDES, spec.columns, strict=True))
        rows = [each.rows.select(names[each.side]) for each in kept]
        for given in pair_slices(rows, count(kept), spec.result_schema):
            engine.counters.matches += given.num_rows
            yield given
    engine.count(coming)
    return kept


def pair_slices(
    rows: list[pa.RecordBatch], count: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield ``count`` rows in all: slices of both batches beside each other, over and over."""
    step = min(SLICE, *(batch.num_rows for batch in rows))
    starts = [0, 0]
    while count:
        size = min(step, count)
        starts = [
            start if start + size <= batch.num_rows else 0
            for start, batch in zip(starts, rows, strict=True)
        ]
        slices = [batch.slice(start, size) for start, batch in zip(starts, rows, strict=True)]
        yield pa.RecordBatch.from_arrays(
            [column for each in slices for column in each.columns], schema=schema
        )
        starts = [start + size for start in starts]
        count -= size


class DiscardingCore(JoinCore):
    """Takes the parcels and does nothing with them."""

    def step(self, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        """Drop the rows of one micro-batch, and pass the routing on to the next."""
        parcels = list(parcels)
        if self.spec.adapts:
            table = hints.find(self.moment, self.spec.name)
            if table is None:  # the first batch: rows came to all cores, and these make the table
                table = receive(self.spec, self.number, None, parcels).table
            if table is not None:
                hints.publish(self.moment, self.spec.name, table)
        return iter(())


class StoringProcessor(JoinProcessor):
    """The processor of `StoringCore`."""

    core_class = StoringCore

    def __init__(self, spec: JoinSpec, flat: bool, matches: int = MATCHES) -> None:
        super().__init__(spec, flat)
        self.matches = matches

    def _core(self, key: Any, timer_values: Any) -> JoinCore:
        core = super()._core(key, timer_values)
        assert isinstance(core, StoringCore)
        core.matches = self.matches
        return core


class DiscardingProcessor(JoinProcessor):
    """The processor of `DiscardingCore`."""

    core_class = DiscardingCore


def build_without_join(
    left: DataFrame, right: DataFrame, config: JoinOptions, processor: MakeProcessor
) -> DataFrame:
    """Return what `streamjoin.spark.join` returns, with another processor in it."""
    inputs = prepare_inputs(left, right, config)
    spec = stream_spec(left.sparkSession, inputs, "auto", None, "streamjoin")
    return join_streams(inputs, spec, describe_result(left, right, inputs), processor)
