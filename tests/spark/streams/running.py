"""Streams of files on Spark: one file a side and micro-batch, and queries over them."""

import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from streamjoin import spark as sjs
from tests.spark.drivers.starting import SIDES, read_sides

SECONDS = 180  # after which a query that has not ended is taken for stuck


class Streams:
    """Two streams in a folder, and what is computed from them."""

    def __init__(self, session: Any, folder: Path, delay: str | None = "2 seconds") -> None:
        self.session, self.folder, self.delay = session, folder, delay
        self.batches: list[tuple[pa.Table, pa.Table]] = []
        for side in SIDES:
            (folder / side).mkdir(parents=True, exist_ok=True)

    def add(self, left: pa.Table, right: pa.Table) -> None:
        """Write the next micro-batch; either side may have no rows."""
        number = len(self.batches)
        self.batches.append((left, right))
        for side, table in zip(SIDES, (left, right), strict=True):
            path = self.folder / side / f"{number:04}.parquet"
            hidden = path.with_name(f"_{path.name}")
            pq.write_table(table, hidden)
            os.utime(hidden, (1e9 + number, 1e9 + number))  # Spark reads the oldest first
            hidden.rename(path)

    def read(self) -> list[Any]:
        """Return both sides as streaming DataFrames."""
        return read_sides(self.session, self.folder, self.delay)

    def join(self, on: str, **others: Any) -> Any:
        """Join both."""
        left, right = self.read()
        return sjs.join(left, right, on=on, **others)

    def start(self, joined: Any, name: str = "", sink: str = "memory") -> Any:
        """Start a query that ends when it has seen all files that are there."""
        name = name or f"q{uuid4().hex}"
        writer = joined.writeStream.queryName(name).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{name}"))
        if sink == "files":
            writer = writer.format("parquet").option("path", str(self.folder / f"sink-{name}"))
        query = (writer if sink == "files" else writer.format("memory")).start()
        # Each query starts a Python process that must answer within 10 seconds: one at a time.
        while query.isActive and query.lastProgress is None:
            time.sleep(0.05)
        return query

    def sink(self, name: str) -> Any:
        """Return what a query with this name has written to files."""
        return self.session.read.parquet(str(self.folder / f"sink-{name}"))


def finish(*queries: Any) -> None:
    """Wait until queries end; an error in one is raised."""
    for query in queries:
        if not query.awaitTermination(SECONDS):
            query.stop()
            raise TimeoutError(f"{query.name} did not end: {query.status}")


def pairs(frame: Any) -> Counter[tuple[Any, Any]]:
    """Return the ids of joined rows."""
    return Counter(tuple(row) for row in frame.select("id", "id_right").collect())


def metrics(query: Any) -> list[dict[str, Any]]:
    """Return what each batch told, with the number of rows in Spark's state."""
    return [
        {**told, "state_rows": each.stateOperators[0].numRowsTotal, "batch": each.batchId}
        for each in query.recentProgress
        if (told := sjs.metrics_of(each))
    ]


def total(told: Iterable[dict[str, Any]], name: str) -> Any:
    """Add up a metric over batches."""
    return sum(each[name] for each in told)
