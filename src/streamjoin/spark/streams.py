"""The streaming join: pack both sides, join in stateful cores, give rows.

::

    left   -> pack --+
                     +-> groupBy(core) -> JoinProcessor: the state is here -> joined rows
    right  -> pack --+

Joined rows leave the processor as pandas frames over Arrow arrays, which costs nothing. Nested
types cannot; for them the processor gives frames, and another `mapInArrow` turns them into rows.
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
from streamjoin.spark.metrics import COLUMN
from streamjoin.spark.planning import Inputs
from streamjoin.spark.routing import parcels as frames
from streamjoin.spark.routing.hints import Moment
from streamjoin.spark.routing.packing import StreamPacker
from streamjoin.spark.routing.receiving import Arrived
from streamjoin.spark.schemas import is_flat, plain_names, plainly_named
from streamjoin.spark.spec import JoinSpec
from streamjoin.spark.state.segments import SparkStore

# Joined rows that are sent on together: each batch costs a millisecond, and the JVM's memory.
ENOUGH, MOST_BYTES = 1 << 16, 1 << 24
FRAME = "frame"


class JoinProcessor(StatefulProcessor):
    """Spark's side of a join core: rows and timers in, joined rows out."""

    core_class: type[JoinCore] = JoinCore

    def __init__(self, spec: JoinSpec, flat: bool) -> None:
        self.spec, self.flat = spec, flat

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        # Arrow's own pools give freed memory back, and every batch would have to fault it in again.
        pa.set_memory_pool(pa.system_memory_pool())
        self.spec = self.spec.placed()
        self.handle, self.store = handle, SparkStore(handle, self.spec.name)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Join what one core got in this micro-batch."""
        core = self._core(key, timerValues)
        arrived = (
            Arrived(*values)
            for frame in rows
            for values in zip(
                frame["side"],
                frame["part"],
                frame["number"],
                frame["role"],
                frame["frame"],
                strict=True,
            )
        )
        for batch in parcels(core.step(arrived)):
            yield self._rows(batch)
        yield self._told(core)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Drop what the watermark has passed."""
        core = self._core(key, timerValues)
        core.manifest.timer = None  # it has just gone off
        for batch in parcels(core.expire()):
            yield self._rows(batch)
        yield self._told(core)

    def close(self) -> None:
        """Nothing is open."""

    def _core(self, key: Any, timer_values: Any) -> JoinCore:
        watermark = timer_values.getCurrentWatermarkInMs()
        moment = Moment.current()
        assert moment is not None
        self.store.open_core(int(key[0]), moment)
        return self.core_class(self.spec, int(key[0]), self.store, watermark, moment)

    def _rows(self, batch: pa.RecordBatch) -> pd.DataFrame:
        """Return joined rows as Spark takes them."""
        if not self.flat:
            return pd.DataFrame({FRAME: [frames.pack(batch)], COLUMN: [None]})
        return as_pandas([*batch.columns, pa.nulls(len(batch), pa.string())])

    def _told(self, core: JoinCore) -> pd.DataFrame:
        """Return the row of metrics."""
        told = pa.array([core.metrics.to_json()])
        if not self.flat:
            return pd.DataFrame({FRAME: [None], COLUMN: told.to_pylist()})
        schema = self.spec.result_schema
        return as_pandas([*(pa.nulls(1, kind) for kind in schema.types), told])


class ClosingProcessor(JoinProcessor):
    """The same for windows that close."""

    core_class = ClosingCore


def parcels(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield joined rows in batches that are neither small nor large."""
    for batch in coalesce_batches(batches, ENOUGH, MOST_BYTES):
        yield from split_by_bytes(batch, MOST_BYTES)


MakeProcessor = Callable[[JoinSpec, bool], JoinProcessor]


def as_pandas(columns: list[pa.Array]) -> pd.DataFrame:
    """Return Arrow arrays, metrics last, as a pandas frame that shares their memory."""
    names = [*plain_names(len(columns) - 1), COLUMN]
    series = [pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([c]))) for c in columns]
    return pd.DataFrame(dict(zip(names, series, strict=True)), copy=False)


def unpack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn frames into rows, for `mapInArrow`."""
    for batch in batches:
        for frame in batch.column(0):
            rows = frames.unpack(frame.as_buffer())[0]
            yield rows.rename_columns(plain_names(rows.num_columns))


def join_streams(
    inputs: Inputs, spec: JoinSpec, output: StructType, processor: MakeProcessor
) -> DataFrame:
    """Return the DataFrame of joined rows."""
    packed = [
        frame.toDF(*plain_names(len(frame.columns))).mapInArrow(
            StreamPacker(spec, side), frames.COLUMNS
        )
        for side, frame in inputs.frames.items()
    ]
    flat = is_flat(output)
    told = StructField(COLUMN, StringType())
    plain = plainly_named(output)
    given = [*plain.fields, told] if flat else [StructField(FRAME, BinaryType()), told]
    time_mode = "None" if spec.counted else "EventTime"
    joined = (
        packed[0]
        .union(packed[1])
        .groupBy("core")
        .transformWithStateInPandas(
            processor(spec, flat), StructType(given), outputMode="Append", timeMode=time_mode
        )
    )
    rows = metrics.observe(joined, spec.name)
    return (rows if flat else rows.mapInArrow(unpack_rows, plain)).toDF(*output.names)
