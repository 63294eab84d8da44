"""Receiving: from the frames of a micro-batch to the rows of one core.

Frames that are addressed to the core hold just its rows. Of those that go to all cores it picks its
own, by a table that every core works out alone, from the same frames.

Which rows a core gets, and in which order it stores them, is the same in every attempt of its task.
Frames are sorted, and rows stand where they would if they had come in frames of the other kind: a
task that packs may find a hint at its first attempt, and none at the next. Which rows it gets does
not depend on the order of rows within a task either, which may change if the input comes out of a
shuffle: the table is made from sorted keys, and rows are dealt by what is in them (`routing`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamjoin.errors import StreamJoinError
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Histogram
from streamjoin.plans.batches import in_one_piece
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared, prepare
from streamjoin.spark.routing import parcels as frames
from streamjoin.spark.routing.packing import learn
from streamjoin.spark.routing.parcels import Role
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.spec import JoinSpec
from streamjoin.spark.state import segments as state

SAMPLE = 1 << 16  # keys that the first routing table is made from


class Arrived(NamedTuple):
    """A frame as it came; the order of these is the same on every core and in every retry."""

    side: int
    part: int
    number: int
    role: int
    frame: bytes


@dataclass
class Coming:
    """One side's rows in this batch: those to store first, then those that only probe."""

    stored: list[pa.RecordBatch] = field(default_factory=list)
    probing: list[pa.RecordBatch] = field(default_factory=list)
    seen: int = 0  # rows of this side that all cores together got
    null_times: int = 0  # ... of which so many have no time

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return all rows as one batch."""
        return in_one_piece([*self.stored, *self.probing], schema)

    @property
    def count(self) -> int:
        """How many rows are to be stored."""
        return sum(batch.num_rows for batch in self.stored)


@dataclass
class Received:
    """What came in a micro-batch."""

    sides: dict[Side, Coming] = field(default_factory=lambda: {side: Coming() for side in SIDES})
    facts: list[dict[str, Any]] = field(default_factory=list)  # about rows that went to any core
    table: RoutingTable | None = None  # by which they were routed
    rows: int = 0  # that reached this core

    @property
    def histogram(self) -> Histogram | None:
        """The routing keys of all cores' rows."""
        every = [
            state.histogram_of(told["histogram"]) for told in self.facts if "histogram" in told
        ]
        return sum(every[1:], every[0]) if every else None

    @property
    def sample(self) -> Keys | None:
        """Some routing keys of all cores' rows, as often as they stand for others."""
        every = [
            np.repeat(np.array(told["sample"], np.int64), told["stride"])
            for told in self.facts
            if "sample" in told
        ]
        return np.concatenate(every) if every else None

    @property
    def newest(self) -> int | None:
        """The latest time of a row."""
        return max((told["newest"] for told in self.facts if "newest" in told), default=None)


def receive(
    spec: JoinSpec, number: int, table: RoutingTable | None, arrived: Iterable[Arrived]
) -> Received:
    """Unpack the frames, and pick the rows of core ``number`` from those that went to all.

    ``table`` is the one that the state holds, if it does.
    """
    received = Received()
    came: list[tuple[Side, int, pa.RecordBatch]] = []
    for each in sorted(arrived):
        side = SIDES[each.side]
        coming = received.sides[side]
        batch, told = frames.unpack(each.frame)
        if told:
            received.facts.append(told)
            coming.seen += told["rows"]
            coming.null_times += told.get("null_times", 0)
        received.rows += batch.num_rows
        came.append((side, Role.STORE if spec.numbered else each.role, batch))
    plan = spec.routing_plan()
    common = [prepare(plan, side, batch) for side, role, batch in came if role == Role.PICK]
    if not spec.numbered:
        received.table = agree(spec, table, received.facts, common)
    prepared = iter(common)
    for side, role, batch in came:
        coming = received.sides[side]
        if role == Role.STORE:
            coming.stored.append(batch)
        elif role == Role.PROBE:
            coming.probing.append(batch)
        else:
            pick(spec, number, received, side, next(prepared))
    return received


def agree(
    spec: JoinSpec,
    table: RoutingTable | None,
    facts: list[dict[str, Any]],
    batches: list[Prepared],
) -> RoutingTable:
    """Return the routing table of this batch, the same on every core."""
    used = [told["table"] for told in facts if "table" in told]
    table = table or spec.first_table()
    if table is None and used:
        table = RoutingTable.from_json(used[0])
    if table is None:
        keys = [spec.route_keys(batch) for batch in batches]
        every = np.sort(np.concatenate(keys)) if keys else np.empty(0, np.int64)
        sample = every[:: every.size // SAMPLE + 1]
        table = RoutingTable.from_sample(sample, spec.cores, more_comes=True)
    if any(each != table.to_json() for each in used):
        raise StreamJoinError(
            "rows were routed by another table than the one in the state; if join(checkpoint=...) "
            "names another checkpoint than the query's checkpointLocation, correct it, otherwise "
            "this should not happen: restart the query, which reads the table again, and report it"
        )
    return table


def pick(spec: JoinSpec, number: int, received: Received, side: Side, rows: Prepared) -> None:
    """Take a core's rows from those that went to all."""
    table, coming = received.table, received.sides[side]
    assert table is not None
    keys = spec.route_keys(rows)
    cells = table.cells(keys)
    received.facts.append(learn(spec, rows, table, keys, cells))
    owners = table.owners(cells, rows.rows)
    others = table.probing(spec.route_ranges(rows, keys), cells, owners).of(number)
    mine = table.stored(owners).of(number)
    coming.stored.append(rows.rows.take(pa.array(mine)))
    coming.probing.append(rows.rows.take(pa.array(others)))
