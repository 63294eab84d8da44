"""Hints: how packing tasks learn the routing table that the cores have agreed on.

The table for the next micro-batch follows from the state, and every core keeps the same one. A task
that packs rows has no state, so each core leaves the table in a file on its host, under the name of
the query's run and the batch it is for. A task that finds none, on another host or in the first
batch after a start, sends its rows to all cores, and these pick: slower, with the same result. So a
hint can be lost, but never be wrong: it is used for exactly the batch that it was made for, and
only if it is as it was written.

Two kinds of first batches need no file. In a query's very first batch, no state holds a table yet,
so where rows are routed by hash, all tasks spread the hashes evenly. In the first batch after a
restart, tasks use the table that the driver has read from the checkpoint (`state.checkpoint`).
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.state.digests import seal, unseal
from streamjoin.spark.state.shared_files import open_folder, read_file, remove_file, write_file
from streamjoin.spark.tasks import Moment


@dataclass(frozen=True)
class SavedTable:
    """The table of the batch with which a query continues."""

    query: str
    batch: int
    table: str  # in JSON

    def find(self, moment: Moment | None) -> RoutingTable | None:
        """Return the table, if this is its batch."""
        if moment is None or (moment.query, moment.batch) != (self.query, self.batch):
            return None
        return RoutingTable.from_json(json.loads(self.table))


def path_of(parent: Path, name: str, batch: int) -> Path:
    """Return the file of a batch's hint."""
    return parent / f"routing-{sha256(name.encode()).hexdigest()[:16]}-{batch}.json"


def publish(moment: Moment, name: str, table: RoutingTable) -> None:
    """Leave the table for the batch after this one."""
    parent = open_folder(moment.owner)
    if parent is not None:
        table_json = json.dumps(table.to_json()).encode()
        write_file(path_of(parent, name, moment.batch + 1), seal(table_json))
        remove_file(path_of(parent, name, moment.batch - 1))


def find(moment: Moment | None, name: str) -> RoutingTable | None:
    """Return the table for this batch, if a core has left it on this host."""
    parent = None if moment is None else open_folder(moment.owner)
    if moment is None or parent is None:
        return None
    sealed = read_file(path_of(parent, name, moment.batch))
    content = None if sealed is None else unseal(sealed)
    return None if content is None else RoutingTable.from_json(json.loads(content))
