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
from dataclasses import replace
from itertools import chain, pairwise, zip_longest

import numpy as np
import pyarrow as pa

from streamjoin.joins.engine import Engine, Place
from streamjoin.joins.executor import Clock
from streamjoin.joins.sliding.chain import Chain
from streamjoin.kernels.compile import MAX_KEY, Flags, Keys, Positions
from streamjoin.keys.operands import Side
from streamjoin.keys.splitters import Histogram
from streamjoin.options.how import LEFT
from streamjoin.plans.batches import take_rows
from streamjoin.plans.marks import Marks
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Arrival, Prepared
from streamjoin.plans.preparing import prepare
from streamjoin.plans.times import time_type, to_key
from streamjoin.spark.cores import cache
from streamjoin.spark.cores.cache import CachedEngine
from streamjoin.spark.cores.portions import Portion, cut_portions
from streamjoin.spark.metrics import Metrics
from streamjoin.spark.planning.spec import HOME, JoinSpec
from streamjoin.spark.routing import hints
from streamjoin.spark.routing.exchange import Received, receive
from streamjoin.spark.routing.parcels import Parcel
from streamjoin.spark.state.mark_pages import MarkBook, find_live, pages_between, remove_pages
from streamjoin.spark.state.segments import (
    ORDINAL,
    Manifest,
    Run,
    Segment,
    compact_segments,
    expire_segments,
    group_segments,
    list_numbers,
    read_segment,
    write_segments,
)
from streamjoin.spark.state.store import Store
from streamjoin.spark.tasks import Moment

HISTOGRAM_DECAY = 2  # the counts of routing keys halve with every batch
LOAD_BYTES = 1 << 30  # of a side's rows that an engine takes back at once
NO_NUMBERS = np.empty(0, np.int64)


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
        with self.metrics.engine(engine):
            yield from self.advance(engine, late_before)
            yield from self.join_received(engine, received)
            yield from self.advance(engine, self.watermark)
            yield from self.give_early(self.cached, received.newest)
        self.manifest.arrived = dict(engine.counters.rows)
        self.sample = received.sample
        with self.metrics.phase("state"):
            self._write_state(received.histogram, received.newest)

    def advance(self, engine: Engine, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Drop what a watermark has passed, and give the rows of it that match nothing."""
        if watermark is not None:
            for delivery in engine.advance_iter(watermark):
                yield from delivery.rows
            self._take_settled(engine)

    def give_early(self, cached: CachedEngine, newest: int | None) -> Iterator[pa.RecordBatch]:
        """Give the rows whose patience has run out by the newest time that any core has got.

        So they are given once all rows of the batch have been joined, whatever its portions.
        """
        if self.spec.gives_early:
            cached.newest = self.latest(newest)
            if cached.newest is not None:
                for delivery in cached.engine.give_early(cached.newest):
                    yield from delivery.rows
                self._take_settled(cached.engine)

    def latest(self, newest: int | None) -> int | None:
        """Return the latest time so far, given that of this batch."""
        return max(
            (each for each in (newest, self.manifest.newest) if each is not None), default=None
        )

    def join_received(self, engine: Engine, received: Received) -> Iterator[pa.RecordBatch]:
        """Find the matches of all rows, take them in, and write those that are stored."""
        for portion in cut_portions(received.sides, self.spec.schemas, engine.order):
            yield from self._join_portion(engine, received, portion)
            del portion  # before the next one takes as much memory

    def _join_portion(
        self, engine: Engine, received: Received, portion: Portion
    ) -> Iterator[pa.RecordBatch]:
        def place(side: Side, batch: Prepared) -> Prepared:
            return self.place(received, batch, portion.stored[side])

        arrived = engine.counters.rows
        self.home_before = {side: arrived[side] + count for side, count in portion.stored.items()}
        batches = portion.batches
        if self.spec.has_guests:
            stored = portion.stored
            batches = {side: add_home(rows, stored[side]) for side, rows in batches.items()}
        yield from self.join(engine, batches, place)
        self._write_inserted(engine)

    def join(
        self, engine: Engine, batches: dict[Side, pa.RecordBatch], place: Place
    ) -> Iterator[pa.RecordBatch]:
        """Find the matches, and take the rows in."""
        for delivery in engine.push_iter(batches, place, self.is_home):
            yield from delivery.rows
        self._take_settled(engine)

    def _take_settled(self, engine: Engine) -> None:
        """Note which rows were settled: if the step fails, the engine is not used again."""
        told = engine.outcome.told
        if told is not None:
            assert self.cached is not None
            for side, numbers in told.items():
                self.cached.book.settle(side, numbers)
            engine.outcome.told = {side: [] for side in told}
        engine.outcome.keep()

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

    def place(self, received: Received, batch: Prepared, count: int) -> Prepared:
        """Return the rows that probe here, marked which are stored.

        The first ``count`` are at home here, or every n-th if rows are numbered.
        """
        if self.spec.numbered:
            return self._place_numbered(received, batch)
        self.metrics.probes += len(batch)
        self._count_late(batch.side, int(np.count_nonzero(batch.intake.late < count)))
        if batch.side not in self.spec.replicated:
            batch = batch.with_stored(mark_first(batch, count))
        if self.spec.keeps_marks and batch.side in self.plan.marked:
            self._number(batch)
            if self.spec.has_guests:
                self._settle_guests(batch, ~mark_first(batch, count))
        return batch

    def _place_numbered(self, received: Received, batch: Prepared) -> Prepared:
        """Return the rows that probe here if all have come here, to be numbered."""
        assert batch.ordinals is not None
        if batch.times is not None and len(batch):
            received.summaries.append({"newest": int(batch.times.max())})
        if self.number == 0:
            self._count_late(batch.side, batch.intake.late.size)
            self.metrics.null_times += batch.intake.null_times
        is_home = batch.ordinals % self.spec.cores == self.number
        if batch.side in self.spec.confined:
            batch = select_arrived(batch, is_home)
        elif batch.side not in self.spec.replicated:
            batch = batch.with_stored(is_home)
        self.metrics.probes += len(batch)
        return batch

    def _count_late(self, side: Side, count: int) -> None:
        """Count rows that have come too late."""
        self.metrics.late += count
        if side == "left":
            self.metrics.late_left += count
        else:
            self.metrics.late_right += count

    def _number(self, batch: Prepared) -> None:
        """Number rows as they are stored, those of a segment one after the other."""
        first = self.manifest.numbered[batch.side]
        batch.ordinals = np.empty(len(batch), np.int64)
        for rows in self.cut_segments(batch):
            batch.ordinals[rows] = np.arange(first, first + rows.size)
            first += rows.size
        self.manifest.numbered[batch.side] = first

    def _settle_guests(self, batch: Prepared, are_guests: Flags) -> None:
        """Settle rows that live at another core: there it is told whether they match."""
        assert batch.ordinals is not None
        assert self.cached is not None
        batch.marks = Marks.of(are_guests)
        self.cached.book.settle(batch.side, [batch.ordinals[are_guests]])

    def _expire(self) -> Iterator[pa.RecordBatch]:
        """Drop what the watermark has passed; an observer needs rows for that, and who gives any.

        Otherwise an engine that is not up to date would do, but it must not tell what is due.
        """
        due = self.manifest.due
        is_due = due is not None and self.watermark is not None and self.watermark > due
        if self.observer is not None or is_due:
            self.cached = self._take_engine()
        elif not self.plan.marked:
            self.cached = cache.take_engine(self.owner, self.manifest)
        if self.cached is not None:
            with self.metrics.engine(self.cached.engine):
                yield from self.advance(self.cached.engine, self.watermark)
        self._write_state(None, None)

    def _take_engine(self) -> CachedEngine:
        """Return an engine that holds what the state holds."""
        segments, needed = self.manifest.segments, self.least_needed(self.told.watermark)
        cached = cache.take_engine(self.owner, self.manifest)
        if cached is not None and not all(
            needed is not None and last < needed[side] for side, last in cached.find_extra(segments)
        ):
            cached = None  # a failed task has left rows in it
        if cached is not None and not self._catch_up(cached):
            cached = None  # or matches
        if cached is None:
            cached = self._make_engine()
        missing = cached.find_missing(segments)
        if missing:
            self.metrics.cache_misses += 1
            with self.metrics.phase("load"):
                steps = self._load(missing, cached.book)
                first = next(steps, {})
                if all(can_follow(batch, cached.engine.chains[s]) for s, batch in first.items()):
                    steps = chain([first], steps)
                else:
                    cached = self._make_engine()
                    steps = self._load(segments, cached.book)
                for rows in steps:
                    cached.engine.manager.restore(rows)
                    self._take_lives_back(cached.engine, rows)
        else:
            self.metrics.cache_hits += 1
        cached.note_segments(segments)
        cached.engine.restore_arrived(self.manifest.arrived)
        self._forget_given(cached.engine)
        self._forget_early(cached)
        self._observe(cached.engine)
        return cached

    def _forget_given(self, engine: Engine) -> None:
        """Settle the rows that were given before, by any worker.

        The state has no marks of rows that have left, but segments and engines may have the rows.
        """
        bounds = engine.manager.due_bounds(self.told)
        for side in self._given_when_due & bounds.keys():
            for _ in engine.chains[side].take_due(bounds[side]):
                pass

    def _forget_early(self, cached: CachedEngine) -> None:
        """Note that rows were given early before, by any worker: the time of a row tells.

        Every batch with rows has given those whose patience had run out by its newest time, those
        too that had just come.
        """
        if self.spec.gives_early and self.manifest.newest is not None:
            cached.newest = self.manifest.newest
            cached.engine.forget_early(cached.newest)

    @property
    def _given_when_due(self) -> frozenset[Side]:
        """The sides of which something is given when the watermark has passed a row's window."""
        alone = self.spec.config.how.alone
        return alone | LEFT if self.plan.defers else alone

    def _make_engine(self) -> CachedEngine:
        """Return an engine without rows, and with the marks of those that it gets."""
        cached = CachedEngine(self.spec.make_engine(self.observer))
        cached.book.catch_up(self.store, self.manifest)
        return cached

    def _catch_up(self, cached: CachedEngine) -> bool:
        """Let an engine know which of its rows are settled; whether it knew of no others."""
        sides = cached.book.catch_up(self.store, self.manifest)
        for side in sides or ():
            for subwindow in cached.engine.chains[side]:
                assert subwindow.ordinals is not None
                assert subwindow.marks is not None
                settled = cached.book.read(side, subwindow.ordinals.values)
                subwindow.marks.settle(np.flatnonzero(settled))
        return sides is not None

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

    def _load(self, segments: list[Segment], book: MarkBook) -> Iterator[dict[Side, Prepared]]:
        """Yield the rows of segments, in as many steps as it takes to keep batches small."""
        sides = [
            self._read_side([each for each in segments if each.side == side]) for side in SIDES
        ]
        for step in zip_longest(*sides):
            yield {
                side: self._prepare_stored(side, rows[0], rows[1], book)
                for side, rows in zip(SIDES, step, strict=True)
                if rows is not None
            }

    def _read_side(self, segments: list[Segment]) -> Iterator[tuple[pa.RecordBatch, Keys]]:
        """Yield the rows of a side's segments, oldest first, and their numbers if they have any."""
        groups = group_segments(segments, LOAD_BYTES)
        rows = ([read_segment(self.store, each) for each in group] for group in groups)
        if self.spec.ordering is None:
            for group, batches in zip(groups, rows, strict=True):
                yield pa.concat_batches(batches), list_numbers(group)
        elif groups:
            for batch in sort_by_ordinal(list(chain(*rows)), len(groups)):
                yield batch, NO_NUMBERS

    def _prepare_stored(
        self, side: Side, rows: pa.RecordBatch, numbers: Keys, book: MarkBook
    ) -> Prepared:
        """Compute the keys of rows that were stored, and look which are settled."""
        batch = prepare(self.plan, side, rows.select(self.spec.core_schemas[side].names))
        if self.spec.keeps_ordinals:
            batch.ordinals = rows.column(ORDINAL).to_numpy()
        if self.spec.keeps_marks and side in self.plan.marked:
            batch.ordinals = numbers if batch.ordinals is None else batch.ordinals
            batch.marks = Marks.of(book.read(side, batch.ordinals))
        return batch

    def _write_state(self, histogram: Histogram | None, newest: int | None) -> None:
        """Write what this batch has changed beside rows; a core with nothing left says so."""
        manifest, store, cached = self.manifest, self.store, self.cached
        is_complete = cached is not None and not cached.find_missing(manifest.segments)
        manifest.newest = self.latest(newest)
        needed = self.least_needed(self.watermark)
        if needed is not None:
            expire_segments(store, manifest, needed)
        if self.spec.keeps_marks:
            self._write_marks()
        is_empty = self.is_empty
        if is_empty and not self.has_input:
            store.write_manifest(None)
            return
        for side in SIDES:
            compact_segments(store, manifest, self.moment.batch, side)
        if manifest.table is not None and histogram is not None:
            self._adapt_table(histogram, newest, needed)
        elif self.has_input and self.spec.adapts and self.spec.keeps_table:
            self._age_table(newest, needed)  # at every core, or at none
        expiry = self.watermark_ms + 1 if is_empty else self.next_expiry_ms()
        if expiry is not None and expiry < 1:  # 0 is no watermark, and would let it go off at once
            expiry = 1
        if expiry is not None and expiry != manifest.timer:
            store.set_timer(expiry, instead_of=manifest.timer)
            manifest.timer = expiry
        manifest.batch, manifest.watermark_ms = self.moment.batch, self.watermark_ms
        store.write_manifest(manifest.to_bytes())
        segments, pages = manifest.segments, manifest.marks
        store.keep_copies({*(each.id for each in segments), *(each.id for each in pages)})
        if cached is not None:
            if is_complete:
                cached.note_segments(manifest.segments)
            cached.batch = self.moment.batch
            cache.put_engine(self.owner, cached)
        if manifest.table is not None and self.spec.adapts and manifest.table.is_learnt:
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

    def _age_table(self, newest: int | None, needed: dict[Side, int] | None) -> None:
        """Forget a routing by which no row is stored any more."""
        table, latest = self.manifest.table, self.manifest.newest if newest is None else newest
        if table is not None and latest is not None:
            expired = None if needed is None else min(needed.values())
            self.manifest.table = table.age(latest, expired)

    def _write_marks(self) -> None:
        """Write which rows are settled, and note when the first of the others is due."""
        manifest = self.manifest
        live = self.find_live()
        if self.cached is None:
            remove_pages(self.store, manifest, live)
            return
        self.cached.book.write(self.store, manifest, live)
        manifest.due = self.find_due(self.cached.engine)

    def find_live(self) -> dict[Side, set[int]]:
        """Return the pages of marks that are still needed."""
        if not self.spec.numbered:
            return {side: find_live(self.manifest, side) for side in SIDES}
        arrived, needed = self.manifest.arrived, self.least_needed(self.watermark)
        assert needed is not None
        return {side: pages_between(max(needed[side], 0), arrived[side]) for side in SIDES}

    def find_due(self, engine: Engine) -> int | None:
        """Return the last watermark by which no row without a match is due; None if there is none.

        Every row that is not settled is looked at, whatever the engine has learnt of them before:
        another worker has to come to the same result.
        """
        if self.spec.counted:
            return None
        found: list[int] = []
        for side in self._given_when_due:
            least = min((each.find_first_due() for each in engine.chains[side]), default=MAX_KEY)
            if least < MAX_KEY:
                found.append(self._due_after(side, least))
        return min(found, default=None)

    def _due_after(self, side: Side, time: int) -> int:
        """Return the last watermark by which a row is not due."""
        part = self.plan.window_part
        if part is not None:
            return part.start(int(part.numbers(np.array([time]))[0]) + 1) - 1
        return time - self.plan.needed_from(0)[side]

    def _write_rows(self, batch: Prepared) -> None:
        """Write stored rows as segments."""
        stored, times, manifest = self.label_rows(batch), batch.times, self.manifest
        has_numbers = self.spec.keeps_marks and batch.side in self.plan.marked
        for places in self.cut_segments(batch):
            keys = batch.ordinals if times is None else times
            assert keys is not None
            last = int(keys[places].max())
            runs: list[Run] = []
            if has_numbers and not self.spec.keeps_ordinals:
                assert batch.ordinals is not None
                runs = [(int(batch.ordinals[places[0]]), places.size)]
            rows = stored if places.size == len(batch) else take_rows(stored, places)
            write_segments(self.store, manifest, self.moment.batch, batch.side, rows, last, runs)

    def cut_segments(self, batch: Prepared) -> list[Positions]:
        """Return the rows of each segment: those far ahead in time apart, as they stay longer."""
        every, times = np.arange(len(batch)), batch.times
        if times is None or not times.size:
            return [every] if every.size else []
        extent = -min(self.plan.needed_from(0).values())
        ahead = times > np.partition(times, times.size // 2)[times.size // 2] + extent
        return [every[~ahead], every[ahead]] if ahead.any() else [every]

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
        expiry = min(ends) // 1000 + 1
        # A timer goes off when the watermark has passed it; then rows from the next microsecond on
        # are on time.
        return expiry if manifest.due is None else min(expiry, -(-manifest.due // 1000) - 1)


def mark_first(batch: Prepared, count: int) -> Flags:
    """Return which rows were among the first ``count`` of what was prepared."""
    return batch.places < count


def add_home(rows: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """Return rows with a column that tells that the first ``count`` are at home here."""
    return rows.append_column(HOME, pa.array(np.arange(rows.num_rows) < count))


def select_arrived(batch: Prepared, flags: Flags) -> Prepared:
    """Return some of the rows of a batch, and when they came."""
    assert batch.arrival is not None
    numbers, (lower, upper) = batch.arrival
    arrival = Arrival(numbers[flags], (lower[flags], upper[flags]))
    return replace(batch.select(flags), arrival=arrival)


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
