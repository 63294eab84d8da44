"""The cores' metrics, as observed metrics of the streaming query.

Each core ends its micro-batch with one row that holds its `Metrics` as JSON and nothing else. Spark
collects these rows (`DataFrame.observe`), adds them up into one struct, and shows it in
``StreamingQueryProgress.observedMetrics["streamjoin"].total``; then they are filtered out. A sum
per metric would be simpler, but each would be computed for every joined row: a list of the rows
that have metrics costs a tenth of twenty sums.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from streamjoin.keys.operands import Side

if TYPE_CHECKING:
    from streamjoin.joins.engine import Engine
    from streamjoin.spark.routing.exchange import ReceivedRows
    from streamjoin.spark.state.segments import Manifest

COLUMN = "__streamjoin_metrics"


@dataclass
class Metrics:
    """One core's work in one micro-batch; all of these add up over cores.

    In a batch without rows, only the cores that had something to drop report.
    """

    cores: int = 1  # that report
    rows_left: int = 0
    rows_right: int = 0
    received_rows: int = 0  # by all cores together: one may go to several
    probes: int = 0  # rows that looked for matches; one may probe several cores
    matches: int = 0
    unmatched: int = 0  # rows that were given, and match nothing
    late: int = 0
    late_left: int = 0
    late_right: int = 0
    null_times: int = 0
    live_rows: int = 0  # in the state, after the batch
    segments: int = 0
    state_bytes: int = 0  # as compressed in the state store
    memory_bytes: int = 0  # of the engines in the workers
    epochs: int = 0  # of routing, over all cores
    cache_hits: int = 0
    cache_misses: int = 0
    unpack_ms: float = 0.0
    load_ms: float = 0.0
    keys_ms: float = 0.0
    sort_ms: float = 0.0
    probe_ms: float = 0.0
    insert_ms: float = 0.0
    state_ms: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of a block to a phase."""
        begin = perf_counter()
        yield
        setattr(self, f"{name}_ms", getattr(self, f"{name}_ms") + 1e3 * (perf_counter() - begin))

    @contextmanager
    def engine(self, engine: "Engine") -> Iterator[None]:
        """Add what an engine does in a block."""
        before, counted = {**engine.seconds, **engine.executor.seconds}, engine.counters.copy()
        yield
        after = {**engine.seconds, **engine.executor.seconds}
        for name in ("keys", "sort", "probe", "insert"):
            setattr(self, f"{name}_ms", 1e3 * (after.get(name, 0) - before.get(name, 0)))
        self.matches = engine.counters.matches - counted.matches
        self.unmatched = engine.counters.unmatched - counted.unmatched

    def add_rows(self, sides: "dict[Side, ReceivedRows]") -> None:
        """Count the rows of the input."""
        for side, received in sides.items():
            setattr(self, f"rows_{side}", received.seen)
            self.null_times += received.null_times

    def measure_state(self, manifest: "Manifest", engine: "Engine | None") -> None:
        """Measure what is held after the batch."""
        self.live_rows = sum(segment.rows for segment in manifest.segments)
        self.segments = len(manifest.segments)
        self.state_bytes = sum(segment.bytes for segment in manifest.segments)
        self.epochs = len(manifest.table.epochs) if manifest.table else 0
        if engine is not None:
            self.memory_bytes = engine.executor.nbytes

    def to_json(self) -> str:
        """Write for the metrics row."""
        return json.dumps(asdict(self))


SCHEMA = ", ".join(
    f"{field.name} {'double' if field.type is float else 'bigint'}" for field in fields(Metrics)
)


def observe_metrics(rows: DataFrame, name: str) -> DataFrame:
    """Have Spark add up the metrics and drop their rows; return the joined rows."""
    names = [field.name for field in fields(Metrics)]
    reports = F.transform(F.collect_list(COLUMN), lambda text: F.from_json(text, SCHEMA))
    zeros = F.from_json(F.lit(json.dumps(dict.fromkeys(names, 0))), SCHEMA)
    total = F.aggregate(
        reports, zeros, lambda one, other: F.struct(*((one[n] + other[n]).alias(n) for n in names))
    )
    return rows.observe(name, total.alias("total")).where(F.col(COLUMN).isNull()).drop(COLUMN)


def metrics_of(progress: Any, name: str = "streamjoin") -> dict[str, float]:
    """Return a join's metrics from the progress of a streaming query; empty if there are none.

    ``sjs.metrics_of(query.lastProgress)["matches"]``
    """
    row = (progress["observedMetrics"] or {}).get(name) if progress else None
    return {} if row is None else row_to_dict(row_to_dict(row)["total"])


def row_to_dict(row: Any) -> dict[str, Any]:
    """Return a row of a progress report as a dict.

    Spark Connect sends rows as a list of values together with their schema.
    """
    fields = row if isinstance(row, dict) else row.asDict()
    if set(fields) != {"values", "schema"}:
        return fields
    names = [field["name"] for field in fields["schema"]["fields"]]
    return dict(zip(names, fields["values"], strict=True))


class MetricsListener(StreamingQueryListener):
    """Logs a join's metrics after every micro-batch: ``spark.streams.addListener(...)``."""

    def __init__(self, name: str = "streamjoin", log: logging.Logger | None = None) -> None:
        self.name = name
        self.log = log or logging.getLogger("streamjoin.spark")

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Log the start."""
        self.log.info("query %s started", event.name or event.id)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Log the metrics of a batch."""
        progress = event.progress
        totals = metrics_of(progress, self.name)
        if totals:
            figures = ", ".join(f"{key} {value:,.0f}" for key, value in totals.items() if value)
            self.log.info("batch %d: %s", progress.batchId, figures or "nothing to do")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Log nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Log the end."""
        self.log.info("query %s ended%s", event.id, f": {event.exception}" * bool(event.exception))
