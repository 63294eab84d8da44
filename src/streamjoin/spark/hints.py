"""Hints: how packing tasks learn the routing table that the cores have agreed on.

The table for the next micro-batch follows from the state, and every core keeps the same one. A task
that packs rows has no state, so each core leaves the table in a file on its host, under the name of
the query, its run and the batch it is for. A task that finds none, on another host or in the first
batch, sends its rows to all cores, and these pick: slower, and with the same result. So a hint can
be lost, and never be wrong: it is used for exactly the batch that it was made for.
"""

import json
import os
import tempfile
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pyspark import TaskContext

from streamjoin.joins.routing import RoutingTable

FORGOTTEN = 24 * 3600  # seconds after which a file of a query that ended is removed


@dataclass(frozen=True)
class Moment:
    """Where a task stands: the query, its run, and the micro-batch."""

    query: str
    run: str
    batch: int

    @classmethod
    def current(cls) -> "Moment | None":
        """Return the moment of the task that runs in this process; None outside of streams."""
        context = TaskContext.get()
        if context is None:
            return None
        batch = context.getLocalProperty("streaming.sql.batchId")
        if batch is None:
            return None
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        run = context.getLocalProperty("spark.jobGroup.id") or ""
        return cls(query, run, int(batch))

    def __str__(self) -> str:
        return f"{self.query}/{self.run}"


def folder() -> Path:
    """Return where this user's hints lie on this host."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    path = Path(tempfile.gettempdir()) / f"streamjoin-{user}" / "hints"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def path_of(moment: Moment, name: str, batch: int) -> Path:
    """Return the file of a batch's hint."""
    digest = sha256(f"{moment}/{name}".encode()).hexdigest()[:32]
    return folder() / f"{digest}-{batch}.json"


def publish(moment: Moment, name: str, table: RoutingTable) -> None:
    """Leave the table for the batch after this one."""
    path = path_of(moment, name, moment.batch + 1)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(table.to_json()))
    draft.replace(path)
    path_of(moment, name, moment.batch - 1).unlink(missing_ok=True)
    if moment.batch % 64 == 0:
        remove_forgotten()


def find(moment: Moment | None, name: str) -> RoutingTable | None:
    """Return the table for this batch, if a core has left it on this host."""
    if moment is None:
        return None
    try:
        text = path_of(moment, name, moment.batch).read_text()
    except OSError:
        return None
    return RoutingTable.from_json(json.loads(text))


def remove_forgotten() -> None:
    """Remove the hints of queries that have ended."""
    oldest = time.time() - FORGOTTEN
    for path in folder().iterdir():
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:
            continue  # another process was faster
