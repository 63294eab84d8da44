"""A join core of windows that close: rows wait in the state, and are joined at the end.

::

    parcels -> own rows -> engine: wait, or an eager algorithm -> joined rows, if eager
                              |
    timer, or the next rows: the watermark has passed the end of a window -> joined rows

A row is late by Spark's rule, as in every `JoinCore`. The watermark of its own batch closes windows
after the batch's rows have come in. The state of a batch holds its watermark, and so says which
windows are closed: segments may hold their rows beside those of open ones.

With a routing by hash, equal rows are stored by one core, and that is all. Otherwise right rows go
to every core and left rows to one each, a join matrix: a pair is found where its left row is. Then
a right row lives at the core that would store it alone. Where it counts which right rows match, it
is the other way round.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import ClosingExecutor
from streamjoin.kernels.compile import MAX_KEY, Flags, Positions
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.preparing import prepare
from streamjoin.plans.window_keys import window_numbers
from streamjoin.spark.cores import cache
from streamjoin.spark.cores.cache import CachedEngine
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.routing.exchange import receive
from streamjoin.spark.routing.parcels import Parcel

FEW_WINDOWS = 4  # of a batch, that have segments of their own, which are dropped as a whole


class ClosingCore(JoinCore):
    """One core in one micro-batch."""

    def _step(self, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        """Take the rows of one micro-batch in, close windows, then write what has changed."""
        with self.metrics.phase("unpack"):
            received = receive(self.spec, self.number, None, parcels)
        self.metrics.received_rows = received.rows
        if self.number == 0:  # one core counts for all
            self.metrics.add_rows(received.sides)
        self.cached = self._take_engine()
        with self.metrics.engine(self.cached.engine):
            yield from self.join_received(self.cached.engine, received)
            yield from self._close_windows()
            yield from self.give_early(self.cached, received.newest)
        if self.observer is not None:
            self.manifest.arrived = dict(self.cached.engine.counters.rows)
        with self.metrics.phase("state"):
            self._write_state(None, received.newest)

    def find_home(self, batch: Prepared) -> Flags | None:
        """Return which stored rows live here: of right ones that every core stores, its share."""
        table = self.spec.first_table()
        assert table is not None
        if batch.side not in self.spec.replicated or self.spec.is_hashed:
            return None
        routed = prepare(self.spec.routing_plan(), batch.side, batch.rows)
        owners = table.owners(table.cells(self.spec.route_keys(routed)), routed.rows)
        return owners == self.number

    def _expire(self) -> Iterator[pa.RecordBatch]:
        """Close what the watermark has passed, in a batch without rows for this core."""
        self.cached = self._take_engine()
        with self.metrics.engine(self.cached.engine):
            yield from self._close_windows()
        self._write_state(None, None)

    def _close_windows(self) -> Iterator[pa.RecordBatch]:
        """Join the windows that the watermark of this batch has passed."""
        assert self.cached is not None
        engine = self.cached.engine
        if self.watermark is not None:
            engine.restore_watermark(self.watermark)
            for delivery in engine.close_iter():
                yield from delivery.rows
            self._take_settled(engine)
        self.manifest.windows = self._windows(self.cached).saved

    def _take_engine(self) -> CachedEngine:
        """Return an engine that holds what the state holds."""
        manifest = self.manifest
        cached = cache.take_engine(self.owner, manifest)
        if cached is None or not self._can_continue(cached) or not self._catch_up(cached):
            cached = self._make_engine()
            # What it has seen, and how fast, only this worker knows: attempts would differ.
            self._windows(cached).decide_by_rows_alone()
        missing = cached.find_missing(manifest.segments)
        if missing:
            self.metrics.cache_misses += 1
            with self.metrics.phase("load"):
                for rows in self._load(missing, cached.book):
                    self._windows(cached).restore(rows, manifest.windows)
                    self._take_lives_back(cached.engine, rows)
        else:
            self.metrics.cache_hits += 1
        self._observe(cached.engine)
        if self.told.watermark is not None:  # in whichever worker
            cached.engine.executor.expire(self.told)
        self._forget_early(cached)
        cached.note_segments(manifest.segments)
        if self.observer is not None:
            cached.engine.restore_arrived(manifest.arrived)
        cached.engine.restore_watermark(self.late_before)
        return cached

    def _catch_up(self, cached: CachedEngine) -> bool:
        """Return whether an engine knows which of its rows are settled, and of no others."""
        return cached.book.catch_up(self.store, self.manifest) == set()

    def find_due(self, engine: Engine) -> None:
        """Return None: rows without a match are due when their windows close."""

    def _can_continue(self, cached: CachedEngine) -> bool:
        """Whether an engine needs no more than the segments that it lacks.

        Segments that only the engine has must be of closed windows. Where there are any differences
        at all, engines of sessions, and those that depend on how rows were pushed, are not used.
        """
        segments = self.manifest.segments
        extra = cached.find_extra(segments)
        if not extra and not cached.find_missing(segments):
            return True
        windows, part = self._windows(cached), self.plan.window_part
        if part is None or windows.has_runs:
            return False
        closed = self._as_key(self.manifest.watermark_ms)
        first = None if closed is None else part.start(int(part.numbers(np.array([closed]))[0]))
        return not extra or (first is not None and max(last for _, last in extra) < first)

    def _windows(self, cached: CachedEngine) -> ClosingExecutor:
        """Return the windows of an engine."""
        closing = cached.engine.executor.closing
        assert closing is not None
        return closing

    def cut_segments(self, batch: Prepared) -> list[Positions]:
        """Return the rows of each segment: one per window if there are few."""
        if self.plan.window_part is not None:
            numbers = window_numbers(batch)
            each = np.unique(numbers)
            if 1 < each.size <= FEW_WINDOWS:
                return [np.flatnonzero(numbers == number) for number in each]
        return [np.arange(len(batch))] if len(batch) else []

    def least_needed(self, watermark: int | None) -> dict[Side, int] | None:
        """Return the least time that a row of an open window can have."""
        if self.cached is None:
            return None
        span = self._windows(self.cached).span
        return dict.fromkeys(SIDES, MAX_KEY if span is None else span[0])

    @property
    def is_empty(self) -> bool:
        """Whether no core has rows that wait: all of them forget the last watermark together."""
        manifest = self.manifest
        if manifest.segments or manifest.newest is None:
            return not manifest.segments
        return self.watermark is not None and self.watermark >= self._end_of(manifest.newest)

    def _end_of(self, time: int) -> int:
        """Return the least time of rows that close the window, or session, of a row alone."""
        part, pause = self.plan.window_part, self.plan.longest_pause
        if part is not None:
            return part.start(int(part.numbers(np.array([time]))[0]) + 1)
        assert pause is not None
        return time + pause + 1

    def next_expiry_ms(self) -> int | None:
        """Return the time of the timer for the next window that closes.

        It goes off when the watermark has passed it; then rows from the next microsecond on come.
        """
        assert self.cached is not None
        span, newest = self._windows(self.cached).span, self.manifest.newest
        if span is None and newest is None:
            return None
        end = span[1] if span is not None else self._end_of(newest or 0)
        return -((1 - end) // 1000) - 1
