"""One scenario as a streaming query, followed by its progress reports.

After every micro-batch Spark reports the rows read from each source, how long the batch took, and,
in ``observedMetrics``, what the join itself has counted. Files are read in order of arrival, so the
number of rows read shows which files a batch has finished::

    files put at    0.0   0.5   1.0   1.5   2.0
    batch               [-- 0.0, 0.5 --]           committed at 1.7: latencies 1.7 and 1.2 s
"""

from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

import streamjoin as sj
from streamjoin import spark as sjs
from streamjoin.cli.demo.display import draw_sparkline, format_percentiles
from streamjoin.cli.demo.feeder import Inbox
from streamjoin.errors import StreamJoinError

DELAY = "2 seconds"  # of the watermark: ten times the disorder, so no row is late
CHARTED = 12  # batches


class LiveJoin:
    """Starts a query, follows it, and holds its figures."""

    def __init__(self, spark: SparkSession, inbox: Inbox, batches: int) -> None:
        self.inbox, self.batches = inbox, batches
        self.result = inbox.folder / "matches"
        self.rows = self.matches = 0
        self.last_batch = -1
        self.latest: dict[str, float] = {}  # metrics of the newest batch
        self.durations: list[float] = []  # of each batch but the first, which starts the workers
        self.latencies: list[float] = []  # of each file but the first
        self._read = [0, 0]
        self._began = self._seconds = 0.0
        scenario = inbox.scenario
        left, right = (
            spark.readStream.schema(columns).parquet(str(source)).withWatermark("ts", DELAY)
            for columns, source in zip(scenario.columns, inbox.folders, strict=True)
        )
        joined = sjs.join(
            left, right, on=scenario.on, window=sj.TimeWindow(scenario.window), time="ts"
        )
        checkpoint = str(inbox.folder / "checkpoint")
        self.query = joined.writeStream.start(
            str(self.result), "parquet", "append", checkpointLocation=checkpoint
        )

    @property
    def title(self) -> str:
        return self.inbox.scenario.title

    @property
    def done(self) -> float:
        """The share of all files that is joined."""
        return self.files / self.batches

    @property
    def files(self) -> int:
        """How many files per side are joined, with the result committed."""
        return min(self._read) // self.inbox.pace.rows

    def follow(self) -> None:
        """Read the new reports."""
        if (error := self.query.exception()) is not None:
            log = self.inbox.folder.parent / "spark.log"
            raise StreamJoinError(f"The query {self.title!r} failed; see also {log}. {error}")
        newest = self.query.lastProgress
        if newest is None or newest["batchId"] <= self.last_batch:
            return
        for report in self.query.recentProgress:
            # Batches without rows only move the watermark, and not every core reports them.
            if report["batchId"] > self.last_batch and report["numInputRows"]:
                self._add_report(report)

    def _add_report(self, report: dict[str, Any]) -> None:
        seconds = report["durationMs"]["triggerExecution"] / 1000
        committed = datetime.fromisoformat(report["timestamp"]).timestamp() + seconds
        before, self.last_batch = self.files, report["batchId"]
        self.rows += report["numInputRows"]
        for side, source in enumerate(report["sources"]):
            self._read[side] += source["numInputRows"]
        self.latest = sjs.metrics_of(report)
        self.matches += int(self.latest["matches"])
        if not before:
            self._began = committed
            return
        self._seconds = committed - self._began
        self.durations.append(seconds)
        self.latencies += [committed - put_at for put_at in self.inbox.put_at[before : self.files]]

    def figures(self) -> dict[str, str]:
        pace, chart = "", draw_sparkline(self.durations[-CHARTED:])
        if self.durations:
            later = self.rows - 2 * self.inbox.pace.rows
            pace = f" ({later / self._seconds:,.0f} per second)"
        return {
            "rows in": f"{self.rows:,}{pace}",
            "matches": f"{self.matches:,}",
            "batch p50, p95": f"{format_percentiles(self.durations)} {chart}",
            "latency p50, p95": format_percentiles(self.latencies),
            "live rows": f"{self.latest.get('live_rows', 0):,.0f}",
            "state": f"{self.latest.get('state_bytes', 0) / 1e6:,.1f} MB",
        }
