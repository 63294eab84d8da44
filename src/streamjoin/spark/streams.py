"""The streaming join: two DataFrames in, one out, and what happens to a micro-batch in between.

::

    driver    join_streams        plans both sides, once per query           here
    ------------------------------------------------------------------------------------------------
    task      StreamPacker        rows of left  -> parcels --+               routing.exchange
    task      StreamPacker        rows of right -> parcels --+
                                                             |
                            groupBy("core"), Spark's shuffle |
                                                             v
    core      JoinProcessor       parcels in, joined rows out                here
                core.step           in order:                                cores.join_core
                  receive             own rows, and the routing table        routing.exchange
                  _take_engine        from this worker's cache or the state  cores.cache
                  join                probe, then insert                     joins.engine
                  _write_state        new segments, a manifest, a hint       state.segments
                _to_pandas          joined rows, then a row of metrics       here
    ------------------------------------------------------------------------------------------------
    Spark     observe_metrics     adds up the metrics, drops their rows      metrics

Joined rows leave the processor as pandas frames over Arrow arrays, which costs nothing. Nested
types cannot; for them the processor gives parcels, and another `mapInArrow` turns them into rows.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from streamjoin.plans.batches import coalesce_batches, split_by_bytes
from streamjoin.spark import metrics
from streamjoin.spark.cores.closing_core import ClosingCore
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.planning.inputs import Inputs
from streamjoin.spark.planning.schemas import is_flat, name_plainly, plain_names
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing.exchange import StreamPacker
from streamjoin.spark.routing.parcels import COLUMNS, Parcel, pack_rows, unpack_rows
from streamjoin.spark.state.store import SparkStore
from streamjoin.spark.tasks import Moment

# Joined rows that are sent on together: each batch costs a millisecond, and the JVM's memory.
OUTPUT_ROWS, OUTPUT_BYTES = 1 << 16, 1 << 24
DATA = "data"  # the column of parcels that holds nested rows on their way out

MakeProcessor = Callable[[JoinSpec, bool], "JoinProcessor"]


def join_streams(
    inputs: Inputs, spec: JoinSpec, output: StructType, processor: MakeProcessor
) -> DataFrame:
    """Return the DataFrame of joined rows: the plan that each micro-batch goes through."""
    packed = [
        frame.toDF(*plain_names(len(frame.columns))).mapInArrow(StreamPacker(spec, side), COLUMNS)
        for side, frame in inputs.frames.items()
    ]
    flat, plain = is_flat(output), name_plainly(output)
    fields = plain.fields if flat else [StructField(DATA, BinaryType())]
    schema = StructType([*fields, StructField(metrics.COLUMN, StringType())])
    joined = (
        packed[0]
        .union(packed[1])
        .groupBy("core")
        .transformWithStateInPandas(
            processor(spec, flat),
            schema,
            outputMode="Append",
            timeMode="None" if spec.counted else "EventTime",
        )
    )
    rows = metrics.observe_metrics(joined, spec.name)
    return (rows if flat else rows.mapInArrow(unpack_nested, plain)).toDF(*output.names)


class JoinProcessor(StatefulProcessor):
    """Spark's side of a join core: parcels and timers in, joined rows out."""

    core_class: type[JoinCore] = JoinCore

    def __init__(self, spec: JoinSpec, flat: bool) -> None:
        self.spec, self.flat = spec, flat

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        # Arrow's own pools give freed memory back, and every batch would have to fault it in again.
        pa.set_memory_pool(pa.system_memory_pool())
        self.spec = self.spec.place()
        self.handle, self.store = handle, SparkStore(handle, self.spec.name)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Join what one core got in this micro-batch."""
        core = self._core(key, timerValues)
        parcels = (
            Parcel(*values)
            for pandas in rows
            for values in zip(*(pandas[name] for name in Parcel._fields), strict=True)
        )
        yield from self._to_pandas(core, core.step(parcels))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Drop what the watermark has passed."""
        core = self._core(key, timerValues)
        core.manifest.timer = None  # it has just gone off
        yield from self._to_pandas(core, core.expire())

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _core(self, key: Any, timer_values: Any) -> JoinCore:
        watermark = timer_values.getCurrentWatermarkInMs()
        moment = Moment.current()
        assert moment is not None
        self.store.open_core(int(key[0]), moment)
        return self.core_class(self.spec, int(key[0]), self.store, watermark, moment)

    def _to_pandas(
        self, core: JoinCore, joined: Iterable[pa.RecordBatch]
    ) -> Iterator[pd.DataFrame]:
        """Yield joined rows as Spark takes them, and then the row of metrics."""
        types = self.spec.result_schema.types
        for batch in resize_batches(joined):
            if self.flat:
                yield wrap_arrow([*batch.columns, pa.nulls(len(batch), pa.string())])
            else:
                yield pd.DataFrame({DATA: [pack_rows(batch)], metrics.COLUMN: [None]})
        text = core.metrics.to_json()
        if self.flat:
            yield wrap_arrow([*(pa.nulls(1, kind) for kind in types), pa.array([text])])
        else:
            yield pd.DataFrame({DATA: [None], metrics.COLUMN: [text]})


class ClosingProcessor(JoinProcessor):
    """The same for windows that close."""

    core_class = ClosingCore


def resize_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield joined rows in batches that are neither small nor large."""
    for batch in coalesce_batches(batches, OUTPUT_ROWS, OUTPUT_BYTES):
        yield from split_by_bytes(batch, OUTPUT_BYTES)


def wrap_arrow(columns: list[pa.Array]) -> pd.DataFrame:
    """Return Arrow arrays, metrics last, as a pandas frame that shares their memory."""
    names = [*plain_names(len(columns) - 1), metrics.COLUMN]
    series = [pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([c]))) for c in columns]
    return pd.DataFrame(dict(zip(names, series, strict=True)), copy=False)


def unpack_nested(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn parcels of joined rows into these rows, for `mapInArrow`."""
    for batch in batches:
        for data in batch.column(0):
            rows = unpack_rows(data.as_buffer())[0]
            yield rows.rename_columns(plain_names(rows.num_columns))
