"""A join core: one of the parallel joiners of a stream, for one micro-batch.

::

    parcels -> receive: own rows -> engine: probe, insert -> joined rows
                  (in portions)       |
         manifest, segments  <--------+      routing table for the next batch -> hint

It knows nothing of Spark's operators: a `Store` holds its state, and its caller passes the parcels
and the watermark. A failure is harmless at any moment, even after the state was committed: every
attempt of a task writes the same state (see `state.segments`), and a cached engine is used only if
its segments are those of the state. For this, rows are put into an order that does not depend on
how parcels arrive (`routing.exchange`), and nothing that one worker alone knows, such as a clock or
its past, has a say in rows or state.

Where the lives of rows are observed (`joins.lives`), each attempt has an observer of its own. What
it was told is undone if the attempt fails. If its task fails later, Spark goes back to the state
before: an observer that remembers anything has to keep it there. The rows that live on are those in
the state, without those that had ended by its clock (`told`), whichever worker has told that.

A row is late by Spark's rule: its time is at or before the watermark of the batch before. A core
sees the watermark of its own batch, and remembers the last one. Between the two, the watermark can
have moved only if the batch before had rows, and then the core was there, since tasks whose rows
were all left out send empty parcels. For this reason a core without rows keeps its manifest until
the watermark has moved.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, zip_longest

import numpy as np
import pyarrow as pa

from streamjoin.joins.engine import Choose, Engine
from streamjoin.joins.executor import Clock
from streamjoin.joins.sliding.chain import Chain
from streamjoin.kernels.compile import Flags, Keys
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Histogram
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.preparing import prepare
from streamjoin.plans.times import time_type, to_key
from streamjoin.spark.cores import cache
from streamjoin.spark.cores.cache import CachedEngine
from streamjoin.spark.cores.portions import Portion, cut_portions
from streamjoin.spark.metrics import Metrics
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing import hints
from streamjoin.spark.routing.exchange import Received, receive
from streamjoin.spark.routing.parcels import Parcel
from streamjoin.spark.state.segments import (
    ORDINAL,
    Manifest,
    Segment,
    compact_segments,
    expire_segments,
    group_segments,
    read_segment,
    write_segments,
)
from streamjoin.spark.state.store import Store
from streamjoin.spark.tasks import Moment

HISTOGRAM_DECAY = 2  # the counts of routing keys halve with every batch
LOAD_BYTES = 1 << 30  # of a side's rows that an engine takes back at once


class JoinCore:
    """One core in one micro-batch."""

    def __init__(
        self, spec: JoinSpec, label: int, store: Store, watermark_ms: int, moment: Moment
    ) -> None:
        self.spec, self.store, self.plan, self.moment = spec, store, spec.plan(), moment
        self.number = spec.labels.index(label)
        self.metrics = Metrics()
        self.owner = f"{moment.owner}/{spec.name}/{label}"
        self.observer = spec.make_observer(self.number)
        self.home_before: dict[Side, int] = {}  # the first ordinal of rows that only probe
        self.cached: CachedEngine | None = None
        self.sample: Keys | None = None  # of routing keys, if a summary had any
        self.has_input = False  # whether this batch had rows for any core, or had and lost them
        self.watermark = self._as_key(watermark_ms)
        self.watermark_ms = watermark_ms
        saved = store.read_manifest()
        if saved is None:
            self.manifest = Manifest(spec.facts)
        else:
            self.manifest = Manifest.from_bytes(saved)
            self.manifest.check(spec.facts)

    def _as_key(self, watermark_ms: int) -> int | None:
        """Return the least time that is on time; None before Spark has set a watermark."""
        # It is 0 then: rows before 1970 are not late.
        if watermark_ms <= 0 or self.plan.time_part is None:
            return None
        return to_key(watermark_ms, time_type(self.plan)) + 1

    @property
    def late_before(self) -> int | None:
        """The least time of a row that is not late in this batch."""
        if self.manifest.batch == self.moment.batch - 1:
            return self._as_key(self.manifest.watermark_ms)
        return self.watermark

    @property
    def is_empty(self) -> bool:
        """Whether no core has a row that is still needed."""
        manifest = self.manifest
        if self.spec.numbered or manifest.segments:  # counting never ends
            return False
        needed = self.least_needed(self.watermark)
        return manifest.newest is None or (
            needed is not None and manifest.newest < min(needed.values())
        )

    def least_needed(self, watermark: int | None) -> dict[Side, int] | None:
        """Return the least time, or ordinal, of stored rows that later rows can still meet."""
        window = self.spec.config.window
        if self.spec.counted:
            assert window is not None
            arrived = self.manifest.arrived
            return {side: arrived[side] - getattr(window, side) for side in SIDES}
        return None if watermark is None else self.plan.needed_from(watermark)

    @property
    def told(self) -> Clock:
        """How far the streams had come when the state was written: ends until then were told."""
        return Clock(dict(self.manifest.arrived), self._as_key(self.manifest.watermark_ms))

    def step(self, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        """Join the rows of one micro-batch, then write what has changed."""
        self.has_input = True
        return self._attempt(self._step(parcels))

    def expire(self) -> Iterator[pa.RecordBatch]:
        """Drop what the watermark has passed, in a batch without rows for this core."""
        return self._attempt(self._expire())

    def _attempt(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield joined rows; if that fails, nothing has been told of rows."""
        if self.observer is None:
            yield from rows
            return
        mark = self.observer.mark()
        try:
            yield from rows
        except BaseException:
            self.observer.undo(mark)
            raise
        self.observer.keep()

    def _step(self, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        """Join, write, and tell, as `step` says."""
        with self.metrics.phase("unpack"):
            received = receive(self.spec, self.number, self.manifest.table, parcels)
        self.metrics.received_rows = received.rows
        if self.number == 0:  # one core counts for all
            self.metrics.add_rows(received.sides)
        self.manifest.table = received.table
        self.cached = self._take_engine()
        engine, late_before = self.cached.engine, self.late_before
        if late_before is not None:
            engine.advance(late_before)
        with self.metrics.engine(engine):
            yield from self.join_received(engine, received)
        self.manifest.arrived = dict(engine.counters.rows)
        if self.watermark is not None:
            engine.advance(self.watermark)
        self.sample = received.sample
        with self.metrics.phase("state"):
            self._write_state(received.histogram, received.newest)

    def join_received(self, engine: Engine, received: Received) -> Iterator[pa.RecordBatch]:
        """Find the matches of all rows, take them in, and write those that are stored."""
        for portion in cut_portions(received.sides, self.spec.schemas, engine.order):
            yield from self._join_portion(engine, received, portion)
            del portion  # before the next one takes as much memory

    def _join_portion(
        self, engine: Engine, received: Received, portion: Portion
    ) -> Iterator[pa.RecordBatch]:
        def choose(side: Side, batch: Prepared) -> Flags:
            return self.choose_stored(received, batch, portion.stored[side])

        arrived = engine.counters.rows
        self.home_before = {side: arrived[side] + count for side, count in portion.stored.items()}
        yield from self.join(engine, portion.batches, choose)
        self._write_inserted(engine)

    def join(
        self, engine: Engine, batches: dict[Side, pa.RecordBatch], choose: Choose
    ) -> Iterator[pa.RecordBatch]:
        """Find the matches, and take the rows in."""
        for delivery in engine.push_iter(batches, choose, self.is_home):
            yield from delivery.rows

    def is_home(self, side: Side, ordinals: Keys) -> Flags:
        """Return which of the rows that come live here: one core for each row."""
        if self.spec.numbered:
            return ordinals % self.spec.cores == self.number
        return ordinals < self.home_before[side]

    def _write_inserted(self, engine: Engine) -> None:
        """Write the rows that a portion has stored, so that they need not be kept beside others."""
        assert self.cached is not None
        with self.metrics.phase("state"):
            for batch in engine.executor.take_inserted():
                self._write_rows(batch)
            self.cached.note_segments(self.manifest.segments)

    def choose_stored(self, received: Received, batch: Prepared, count: int) -> Flags:
        """Return which rows are stored here: the first ``count``, or every n-th if numbered."""
        self.metrics.probes += len(batch)
        if self.spec.numbered:
            assert batch.ordinals is not None
            if batch.times is not None and len(batch):
                received.summaries.append({"newest": int(batch.times.max())})
            if self.number == 0:
                self.metrics.late += batch.intake.late.size
                self.metrics.null_times += batch.intake.null_times
            return batch.ordinals % self.spec.cores == self.number
        self.metrics.late += int(np.count_nonzero(batch.intake.late < count))
        return mark_first(batch, count)

    def _expire(self) -> Iterator[pa.RecordBatch]:
        """Drop what the watermark has passed; only an observer needs rows for that."""
        if self.observer is None:
            self.cached = cache.take_engine(self.owner, self.manifest.batch)
        else:
            self.cached = self._take_engine()
        if self.cached is not None and self.watermark is not None:
            self.cached.engine.advance(self.watermark)
        self._write_state(None, None)
        return iter(())

    def _take_engine(self) -> CachedEngine:
        """Return an engine that holds what the state holds."""
        segments, needed = self.manifest.segments, self.least_needed(self.told.watermark)
        cached = cache.take_engine(self.owner, self.manifest.batch)
        if cached is not None and not all(
            needed is not None and last < needed[side] for side, last in cached.find_extra(segments)
        ):
            cached = None  # a failed task has left rows in it
        if cached is None:
            cached = self._make_engine()
        missing = cached.find_missing(segments)
        if missing:
            self.metrics.cache_misses += 1
            with self.metrics.phase("load"):
                steps = self._load(missing)
                first = next(steps, {})
                if all(can_follow(batch, cached.engine.chains[s]) for s, batch in first.items()):
                    steps = chain([first], steps)
                else:
                    cached, steps = self._make_engine(), self._load(segments)
                for rows in steps:
                    cached.engine.manager.restore(rows)
                    self._take_lives_back(cached.engine, rows)
        else:
            self.metrics.cache_hits += 1
        cached.note_segments(segments)
        cached.engine.restore_arrived(self.manifest.arrived)
        self._observe(cached.engine)
        return cached

    def _make_engine(self) -> CachedEngine:
        """Return an engine without rows."""
        return CachedEngine(self.spec.make_engine(self.observer))

    def _take_lives_back(self, engine: Engine, batches: dict[Side, Prepared]) -> None:
        """Let rows that were stored live on, those whose ends were told too, until `_observe`."""
        if engine.lives is not None:
            for batch in batches.values():
                engine.lives.take_back(batch, self.find_home(batch))

    def find_home(self, batch: Prepared) -> Flags | None:
        """Return which stored rows live here; None: all."""
        return None

    def _observe(self, engine: Engine) -> None:
        """Let this attempt's observer know what happens from now on to the rows that live."""
        if engine.lives is not None:
            assert self.observer is not None
            engine.lives.observer = self.observer
            closing = engine.executor.closing
            clock = self.told
            engine.lives.forget(clock, None if closing is None else closing.find_closed(clock))

    def _load(self, segments: list[Segment]) -> Iterator[dict[Side, Prepared]]:
        """Yield the rows of segments, in as many steps as it takes to keep batches small."""
        sides = [
            self._read_side([each for each in segments if each.side == side]) for side in SIDES
        ]
        for step in zip_longest(*sides):
            yield {
                side: self._prepare_stored(side, rows)
                for side, rows in zip(SIDES, step, strict=True)
                if rows is not None
            }

    def _read_side(self, segments: list[Segment]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a side's segments, oldest first."""
        groups = group_segments(segments, LOAD_BYTES)
        rows = ([read_segment(self.store, each) for each in group] for group in groups)
        if self.spec.ordering is None:
            yield from map(pa.concat_batches, rows)
        elif groups:
            yield from sort_by_ordinal(list(chain(*rows)), len(groups))

    def _prepare_stored(self, side: Side, rows: pa.RecordBatch) -> Prepared:
        """Compute the keys of rows that were stored."""
        batch = prepare(self.plan, side, rows.select(self.spec.schemas[side].names))
        if self.spec.keeps_ordinals:
            batch.ordinals = rows.column(ORDINAL).to_numpy()
        return batch

    def _write_state(self, histogram: Histogram | None, newest: int | None) -> None:
        """Write what this batch has changed beside rows; a core with nothing left says so."""
        manifest, store, cached = self.manifest, self.store, self.cached
        is_complete = cached is not None and not cached.find_missing(manifest.segments)
        if newest is not None:
            manifest.newest = max(newest, newest if manifest.newest is None else manifest.newest)
        needed = self.least_needed(self.watermark)
        if needed is not None:
            expire_segments(store, manifest, needed)
        is_empty = self.is_empty
        if is_empty and not self.has_input:
            store.write_manifest(None)
            return
        for side in SIDES:
            compact_segments(store, manifest, self.moment.batch, side)
        if manifest.table is not None and histogram is not None:
            self._adapt_table(histogram, newest, needed)
        expiry = self.watermark_ms + 1 if is_empty else self.next_expiry_ms()
        if expiry is not None and expiry < 1:  # 0 is no watermark, and would let it go off at once
            expiry = 1
        if expiry is not None and expiry != manifest.timer:
            store.set_timer(expiry, instead_of=manifest.timer)
            manifest.timer = expiry
        manifest.batch, manifest.watermark_ms = self.moment.batch, self.watermark_ms
        store.write_manifest(manifest.to_bytes())
        store.keep_copies({segment.id for segment in manifest.segments})
        if cached is not None:
            if is_complete:
                cached.note_segments(manifest.segments)
            cached.batch = self.moment.batch
            cache.put_engine(self.owner, cached)
        if manifest.table is not None and self.spec.adapts:
            hints.publish(self.moment, self.spec.name, manifest.table)
        self.metrics.measure_state(manifest, None if cached is None else cached.engine)

    def _adapt_table(
        self, histogram: Histogram, newest: int | None, needed: dict[Side, int] | None
    ) -> None:
        """Work out the routing of the next batch from what all cores know."""
        manifest = self.manifest
        assert manifest.table is not None
        if manifest.histogram is not None:
            old = manifest.histogram
            histogram += Histogram(old.counts // HISTOGRAM_DECAY, old.least, old.greatest)
        latest = manifest.newest if newest is None else newest
        expired = None if needed is None else min(needed.values())
        manifest.table, is_new = manifest.table.advance(
            histogram, latest if latest is not None else 0, expired, self.sample
        )
        manifest.histogram = None if is_new else histogram

    def _write_rows(self, batch: Prepared) -> None:
        """Write stored rows as a segment; those far ahead in time apart, since they stay longer."""
        stored, times = self.label_rows(batch), batch.times
        number = self.moment.batch
        if times is None:
            assert batch.ordinals is not None
            last = int(batch.ordinals[-1])
            write_segments(self.store, self.manifest, number, batch.side, stored, last)
            return
        extent = -min(self.plan.needed_from(0).values())
        ahead = times > np.partition(times, times.size // 2)[times.size // 2] + extent
        for flags in (~ahead, ahead) if ahead.any() else (~ahead,):
            last = int(times[flags].max())
            rows = stored if flags.all() else stored.filter(pa.array(flags))
            write_segments(self.store, self.manifest, number, batch.side, rows, last)

    def label_rows(self, batch: Prepared) -> pa.RecordBatch:
        """Return rows as the state keeps them: with their ordinals, if any are kept."""
        if not self.spec.keeps_ordinals:
            return batch.rows
        return batch.rows.append_column(ORDINAL, pa.array(batch.ordinals))

    def next_expiry_ms(self) -> int | None:
        """Return the watermark, in milliseconds, at which something can be dropped."""
        manifest = self.manifest
        if self.spec.counted or manifest.newest is None:
            return None
        start = self.plan.needed_from(0)
        ends = [segment.last - start[segment.side] for segment in manifest.segments]
        if not ends and self.spec.numbered:
            return None
        if not ends:
            ends = [manifest.newest - min(start.values())]
        return min(ends) // 1000 + 1


def mark_first(batch: Prepared, count: int) -> Flags:
    """Return which rows were among the first ``count`` of what was prepared."""
    return batch.places < count


def sort_by_ordinal(batches: list[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in the order of their ordinals, in about ``count`` parts.

    The segments of an ordered time window overlap: see `JoinCore._write_rows`.
    """
    if count == 1:
        yield pa.concat_batches(batches).sort_by(ORDINAL)
        return
    ordinals = [batch.column(ORDINAL).to_numpy() for batch in batches]
    every = np.sort(np.concatenate(ordinals))
    for low, high in pairwise([*every[:: -(-every.size // count)], every[-1] + 1]):
        flags = [(each >= low) & (each < high) for each in ordinals]
        parts = [batch.filter(pa.array(own)) for batch, own in zip(batches, flags, strict=True)]
        yield pa.concat_batches(parts).sort_by(ORDINAL)


def can_follow(batch: Prepared, chain: Chain) -> bool:
    """Whether rows come after all that a chain holds; only count windows need this.

    They may not if small segments were put together, some of which the chain holds: the rows of
    these have left the window, but come again.
    """
    if batch.plan.counted is None or not chain.subwindows or not len(batch):
        return True
    assert batch.ordinals is not None
    return bool(batch.ordinals[0] > chain.subwindows[-1].last)
