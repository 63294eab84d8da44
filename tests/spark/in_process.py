"""Joins on Spark without Spark: its tasks, cores, stores and workers in this process.

`Cluster` runs the micro-batches of a stream as Spark would, and throws dice for what Spark leaves
open: how rows are cut into tasks, which worker runs a core, which task finds a hint, and which
one fails, in the middle or after its work, and is run again.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import numpy as np
import pyarrow as pa

from streamjoin.joins.sliding.manager import Manager
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.batches import as_batch
from streamjoin.plans.plan import SIDES
from streamjoin.plans.preparing import prepare
from streamjoin.spark.api import make_spec
from streamjoin.spark.cores import cache
from streamjoin.spark.cores.closing_core import ClosingCore
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.metrics import Metrics
from streamjoin.spark.planning.inputs import Inputs, choose_routing, range_part
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing.exchange import StreamPacker
from streamjoin.spark.routing.parcels import SCHEMA, Parcel
from streamjoin.spark.state.segments import Manifest, list_numbers
from streamjoin.spark.tables import (
    Placement,
    SideSample,
    TableCores,
    TablePacker,
    place_tables,
)
from streamjoin.spark.tasks import Moment, choose_labels


def make_join(
    on: str,
    schema: pa.Schema,
    cores: int,
    routing: str = "auto",
    tables: bool = False,
    algorithm: str = "auto",
    **options: Any,
) -> JoinSpec:
    """Return what `sjs.join` makes of its arguments, for two sides of one schema."""
    config = JoinOptions.check(on, **{"window": None, "algorithm": algorithm, **options})
    inputs = Inputs(
        frames={},
        columns=dict.fromkeys(SIDES, tuple(schema.names)),
        config=replace(config, threads=1),
        schemas=dict.fromkeys(SIDES, schema),
        filters=(),
        computed=(),
        residuals=(),
    )
    plan = inputs.plan()
    kind, _ = choose_routing(plan, config, routing, tables)
    part = range_part(plan, tables) if kind == "range" else None
    return make_spec(inputs, kind, part, choose_labels(cores, cores), "streamjoin")


class MemoryStore:
    """A core's state in a dict."""

    def __init__(self) -> None:
        self.saved: bytes | None = None
        self.segments: dict[Any, bytes] = {}
        self.copies: dict[Any, bytes] = {}  # that a test has put here
        self.timers: set[int] = set()
        self.diary: Any = None  # of an observer; goes back with the state when a task fails
        self.reads = 0

    @property
    def manifest(self) -> Manifest | None:
        return None if self.saved is None else Manifest.from_bytes(self.saved)

    def read_manifest(self) -> bytes | None:
        return self.saved

    def write_manifest(self, data: bytes | None) -> None:
        self.saved = data

    def read(self, id_: Any) -> bytes | None:
        self.reads += 1
        return self.segments.get(id_)

    def find_copy(self, id_: Any) -> bytes | None:
        return self.copies.get(id_)

    def keep_copies(self, ids: Any) -> None:
        self.copies = {id_: data for id_, data in self.copies.items() if id_ in ids}

    def write(self, id_: Any, data: bytes) -> None:
        assert id_ not in self.segments
        self.segments[id_] = data

    def remove(self, id_: Any) -> None:
        del self.segments[id_]

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        if instead_of is not None:
            self.timers.discard(instead_of)
        self.timers.add(milliseconds)


@dataclass(frozen=True)
class Luck:
    """What may happen, and how often it does."""

    tasks: int = 3  # at most, a side
    workers: int = 2
    hints: float = 0.8  # of tasks find theirs
    failures: float = 0.1  # of tasks
    restarts: float = 0.05  # of batches: the driver is lost, and all workers with it


STEADY = Luck(tasks=1, workers=1, hints=1.0, failures=0.0, restarts=0.0)


class Cluster:
    """A streaming query: one call of `batch` is one micro-batch."""

    def __init__(self, spec: JoinSpec, luck: Luck = STEADY, seed: int = 0, delay: int = 0) -> None:
        self.spec, self.luck, self.random, self.delay = spec, luck, Random(seed), delay
        self.stores = {label: MemoryStore() for label in spec.labels}
        self.workers: list[Any] = []
        self.name, self.number, self.run = uuid4().hex, -1, 0
        self.watermark = 0  # in milliseconds
        self.last_watermark = 0  # of the batch before
        self.newest: dict[str, int] = {}
        self.metrics = Metrics()
        self.core = ClosingCore if spec.closes else JoinCore
        self.restart()

    def restart(self) -> None:
        """Lose the driver and all workers; the stores stay."""
        self.run += 1
        self.workers = [OrderedDict() for _ in range(self.luck.workers)]

    @property
    def moment(self) -> Moment:
        """Where its tasks stand."""
        return Moment(self.name, str(self.run), self.number)

    def batch(self, left: pa.Table, right: pa.Table) -> list[pa.RecordBatch]:
        """Run a micro-batch, then move the watermark, in milliseconds, by Spark's rule."""
        self.number += 1
        sides = dict(zip(SIDES, (left, right), strict=True))
        if self.random.random() < self.luck.restarts:
            before = deepcopy(self.stores)
            self._run(sides)
            self.stores = before
            self.restart()
        rows = self._run(sides)
        self.check()
        self.last_watermark = self.watermark
        self._move_watermark(sides)
        return rows

    def fail(self, left: pa.Table, right: pa.Table) -> None:
        """Run a micro-batch whose tasks all fail when they have done their work."""
        self.number += 1
        before = deepcopy(self.stores)
        self._run(dict(zip(SIDES, (left, right), strict=True)))
        self.stores = before
        self.number -= 1

    def idle(self) -> list[pa.RecordBatch]:
        """Run a micro-batch without rows: Spark does so when the watermark has moved."""
        self.number += 1
        self.metrics = Metrics()
        rows = self._run_timers()
        self.check()
        self.last_watermark = self.watermark
        return rows

    @property
    def late_until(self) -> int | None:
        """The time, in milliseconds, at or before which rows of the next batch are late."""
        return self.last_watermark or None

    def pairs(self, left: pa.Table, right: pa.Table) -> Counter[tuple[Any, Any]]:
        """Run a micro-batch, and return the ids of what it joins."""
        return pairs_of(self.batch(left, right))

    def manifests(self) -> list[Manifest]:
        """Return those of the cores that have any."""
        return [held for store in self.stores.values() if (held := store.manifest) is not None]

    def rows_held(self) -> list[int]:
        """Return how many rows each core holds."""
        return [
            sum(segment.rows for segment in store.manifest.segments) if store.manifest else 0
            for store in self.stores.values()
        ]

    def check(self) -> None:
        """Assert that cores agree on the routing, and that stores hold what manifests list."""
        manifests = self.manifests()
        for held in manifests[1:]:
            assert (held.table and held.table.to_json()) == (
                manifests[0].table and manifests[0].table.to_json()
            )
            assert held.newest == manifests[0].newest
            assert held.arrived == manifests[0].arrived or not self.spec.numbered
        for store in self.stores.values():
            manifest = store.manifest
            listed = []
            if manifest is not None:
                listed = [each.id for each in manifest.segments]
                listed += [each.id for each in manifest.marks]
            assert sorted(store.segments) == sorted(listed)
            assert manifest is None or all(segment.rows for segment in manifest.segments)
        for worker in self.workers:
            for owner, cached in worker.items():
                assert not cached.engine.outcome.settled  # it would never be forgotten
                if isinstance(cached.engine.executor, Manager):
                    for chain in cached.engine.chains.values():
                        chain.check()
                    check_marks(cached, self.stores[int(owner.rpartition("/")[2])].manifest)

    def _run(self, sides: dict[Any, pa.Table]) -> list[pa.RecordBatch]:
        self.metrics = Metrics()
        parcels = self._pack(sides)
        rows: list[pa.RecordBatch] = []
        for label in self.random.sample(list(parcels), len(parcels)):
            rows += self._step(label, parcels[label])
        return rows + self._run_timers()

    def _step(self, label: int, sent: list[Parcel]) -> list[pa.RecordBatch]:
        return self._task(label, lambda core: core.step(iter(sent)))

    def _run_timers(self) -> list[pa.RecordBatch]:
        rows = []
        for label, store in self.stores.items():
            for timer in sorted(store.timers):
                if timer < self.watermark:
                    store.timers.discard(timer)
                    rows += self._task(label, expire)
        return rows

    def _pack(self, sides: dict[Any, pa.Table]) -> dict[int, list[Parcel]]:
        parcels: dict[int, list[Parcel]] = {}
        moment, number = self.moment, 0
        for side, table in sides.items():
            for task in cut(self.random, table, self.random.randint(1, self.luck.tasks)):
                found = moment if self.random.random() < self.luck.hints else None
                pieces = cut(self.random, task, self.random.randint(1, self.luck.tasks))
                batches = [batch for piece in pieces for batch in piece.to_batches()]
                with patch.object(Moment, "current", lambda found=found: found):
                    for sent in StreamPacker(self.spec, side)(iter(batches)):
                        [row] = sent.to_pylist()
                        core, parcel = open_envelope(row, number)
                        parcels.setdefault(core, []).append(parcel)
                number += 1
        for each in parcels.values():
            self.random.shuffle(each)
        return parcels

    def _task(
        self, label: int, work: Callable[[JoinCore], Iterator[pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        """Run a core's task until it does not fail; what a failed one wrote is forgotten."""
        before = deepcopy(self.stores[label])
        while True:
            fails = self.random.random() < self.luck.failures
            worker = self.random.choice(self.workers)
            with patch.object(cache, "_ENGINES", worker):
                core = self.core(self.spec, label, self.stores[label], self.watermark, self.moment)
                rows = work(core)
                if fails and self.random.random() < 0.5:
                    next(rows, None)
                else:
                    joined = list(rows)
                    if not fails:
                        self._count(core.metrics)
                        return joined
            self.stores[label] = deepcopy(before)

    def _count(self, metrics: Metrics) -> None:
        for each in fields(Metrics):
            total = getattr(self.metrics, each.name) + getattr(metrics, each.name)
            setattr(self.metrics, each.name, total)

    def _move_watermark(self, sides: dict[Any, pa.Table]) -> None:
        if self.spec.config.time is None:
            return
        for (side, table), name in zip(sides.items(), self.spec.config.time, strict=True):
            times = [each for each in table[name].cast(pa.int64()).to_pylist() if each is not None]
            if times:
                late = max(times) // 1000 - self.delay
                self.newest[side] = max(late, self.newest.get(side, late))
        if len(self.newest) == 2:
            self.watermark = max(self.watermark, min(self.newest.values()))


def open_envelope(row: dict[str, Any], task: int) -> tuple[int, Parcel]:
    """Return the label of a core and the parcel that a task has sent it."""
    values = {name: row[name] for name in Parcel._fields}
    return row["core"], Parcel(**{**values, "task": task})


def check_marks(cached: cache.CachedEngine, manifest: Manifest | None) -> None:
    """Assert that the marks in an engine are those that its book has for the state.

    What the state has of rows that have left is what their pages had when these were last needed.
    """
    plan = cached.engine.plan
    for side in plan.follows if plan.names_settled else ():
        for subwindow in cached.engine.chains[side]:
            assert subwindow.ordinals is not None
            assert subwindow.marks is not None
            ordinals = subwindow.ordinals.values
            settled = subwindow.marks.read(np.arange(len(subwindow)))
            known = cached.book.read(side, ordinals)
            assert (known <= settled).all()
            if manifest is not None and cached.batch == manifest.batch:
                held = np.isin(ordinals, list_numbers(manifest.of(side)))
                assert (settled[held] == known[held]).all()


def expire(core: JoinCore) -> Iterator[pa.RecordBatch]:
    """Do what the processor does when a timer goes off."""
    core.manifest.timer = None
    return core.expire()


def pairs_of(batches: list[pa.RecordBatch]) -> Counter[tuple[Any, Any]]:
    """Return the ids of joined rows."""
    found: Counter[tuple[Any, Any]] = Counter()
    for rows in batches:
        found.update(zip(rows["id"].to_pylist(), rows["id_right"].to_pylist(), strict=True))
    return found


def join_tables(
    make: Callable[[int], JoinSpec], left: pa.Table, right: pa.Table, cores: int, seed: int = 0
) -> pa.Table:
    """Join tables as Spark would: samples, tasks that pack, and cores."""
    return join_parcels(*pack_tables(make, left, right, cores, seed), seed)


def pack_tables(
    make: Callable[[int], JoinSpec], left: pa.Table, right: pa.Table, cores: int, seed: int = 0
) -> tuple[Placement, JoinSpec, list[dict[str, Any]]]:
    """Return the placement of a join of tables, the join, and what the cores get, in order."""
    dice, rows = Random(seed), dict(zip(SIDES, (left, right), strict=True))
    draft = make(1)
    samples = {
        side: SideSample(table.num_rows, prepare(draft.routing_plan(), side, as_batch(table)))
        for side, table in rows.items()
    }
    placement = place_tables(draft, samples, cores)
    spec = make(placement.table.cores)
    sent: list[dict[str, Any]] = []
    for side, table in rows.items():
        for number, task in enumerate(cut(dice, table, dice.randint(1, 3))):
            for batch in TablePacker(spec, placement, side)(iter(task.to_batches())):
                sent += [{**row, "task": number} for row in batch.to_pylist()]
    sent.sort(key=lambda row: (row["core"], row["role"], row["task"], row["number"]))
    return placement, spec, sent


def join_parcels(
    placement: Placement, spec: JoinSpec, sent: list[dict[str, Any]], seed: int = 0
) -> pa.Table:
    """Join what cores of one partition get."""
    pieces = cut(Random(seed), pa.Table.from_pylist(sent, SCHEMA), 3)
    batches = (batch for piece in pieces for batch in piece.to_batches())
    names = spec.result_schema.names
    joined = [rows.rename_columns(names) for rows in TableCores(spec, placement.stored)(batches)]
    return pa.Table.from_batches(joined, schema=spec.result_schema)


def cut(dice: Random, table: pa.Table, count: int) -> list[pa.Table]:
    """Cut a table into pieces, some of them empty."""
    cuts = sorted(dice.randint(0, table.num_rows) for _ in range(count - 1))
    edges = [0, *cuts, table.num_rows]
    return [table.slice(low, high - low) for low, high in pairwise(edges)]
