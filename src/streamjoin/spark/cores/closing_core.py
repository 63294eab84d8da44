"""A join core of windows that close: rows wait in the state, and are joined at the end.

::

    frames -> own rows -> engine: wait, or an eager algorithm -> joined rows, if eager
                              |
    timer, or the next rows: the watermark has passed the end of a window -> joined rows

A row is late by Spark's rule, as in every `JoinCore`. The watermark of its own batch closes windows
after the batch's rows have come in. The state of a batch tells its watermark, so whoever loads it
knows which windows are closed: segments may hold their rows beside those of open ones.

With a routing by hash, equal rows are stored by one core, and that is all. Otherwise right rows go
to every core and left rows to one each, a join matrix: a pair is found where its left row is.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from streamjoin.joins.executor import Clock
from streamjoin.joins.sessions.join import SessionJoin
from streamjoin.joins.tumbling.join import TumblingJoin
from streamjoin.kernels.compile import MAX_KEY, Flags
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.window_keys import window_numbers
from streamjoin.spark.cores.cache import Kept
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.routing.receiving import Arrived, receive
from streamjoin.spark.state import segments as state

FEW = 4  # windows of a batch that have segments of their own, which are dropped as a whole


class ClosingCore(JoinCore):
    """One core in one micro-batch."""

    def step(self, arrived: Iterable[Arrived]) -> Iterator[pa.RecordBatch]:
        """Take the rows of one micro-batch in, close windows, then write what has changed."""
        self.has_input = True
        with self.metrics.phase("unpack"):
            received = receive(self.spec, self.number, None, arrived)
        coming = received.sides
        self.metrics.received_rows = received.rows
        if self.number == 0:  # one core counts for all
            self.metrics.add_rows(coming)
        self.kept = self._take()
        batches = {
            side: rows.batch(self.spec.schemas[side])
            for side, rows in coming.items()
            if rows.stored or rows.probing
        }

        def choose(side: Side, batch: Prepared) -> Flags:
            count = coming[side].count
            self.metrics.late += int(np.count_nonzero(batch.late < count))
            self.metrics.probes += len(batch)
            if side == "right":
                return np.ones(len(batch), np.bool_)
            positions = np.arange(len(batch)) if batch.positions is None else batch.positions
            return positions < count

        with self.metrics.engine(self.kept.engine):
            yield from self.join(self.kept.engine, batches, choose)
            yield from self._close()
        with self.metrics.phase("state"):
            self._write(None, received.newest)

    def expire(self) -> Iterator[pa.RecordBatch]:
        """Close what the watermark has passed, in a batch without rows for this core."""
        self.kept = self._take()
        with self.metrics.engine(self.kept.engine):
            yield from self._close()
        self._write(None, None)

    def _close(self) -> Iterator[pa.RecordBatch]:
        """Join the windows that the watermark of this batch has passed."""
        assert self.kept is not None
        engine = self.kept.engine
        if self.watermark is not None:
            engine.watermark = self.watermark
            for delivery in engine.close_windows():
                yield from delivery.rows
        self.manifest.windows = self._windows(self.kept).saved

    def _take(self) -> Kept:
        """Return an engine that holds what the state holds."""
        kept, manifest = self._take_kept(), self.manifest
        if kept is None or not self._can_go_on(kept):
            kept = Kept(self.spec.make_engine())
            # What it has seen, and how fast, only this worker knows: attempts would differ.
            self._windows(kept).adviser.decides = False
        missing = [each for each in manifest.segments if each.id not in kept.segments]
        if missing:
            self.metrics.cache_misses += 1
            with self.metrics.phase("load"):
                for rows in self._load(missing):
                    self._windows(kept).restore(rows, manifest.windows)
        else:
            self.metrics.cache_hits += 1
        closed = self._as_key(manifest.watermark_ms)
        if closed is not None:  # by whichever worker
            kept.engine.join.advance(Clock({}, closed))
        kept.segments = {each.id: (each.side, each.last) for each in manifest.segments}
        kept.engine.watermark = self.late_before
        return kept

    def _can_go_on(self, kept: Kept) -> bool:
        """Whether an engine needs no more than the segments that it lacks.

        Those that only it has must be of windows that are closed. Sessions, and what depends on
        how rows were pushed, are not looked at closer.
        """
        live = {segment.id for segment in self.manifest.segments}
        if live == set(kept.segments):
            return True
        windows, part = self._windows(kept), self.plan.window_part
        if part is None or not isinstance(windows, TumblingJoin) or windows.has_runs:
            return False
        closed = self._as_key(self.manifest.watermark_ms)
        stale = [last for id_, (_, last) in kept.segments.items() if id_ not in live]
        first = None if closed is None else part.start(int(part.numbers(np.array([closed]))[0]))
        return not stale or (first is not None and max(stale) < first)

    def _windows(self, kept: Kept) -> TumblingJoin | SessionJoin:
        """Return the windows of an engine."""
        join = kept.engine.join
        assert isinstance(join, TumblingJoin | SessionJoin)
        return join

    def _inserted(self) -> list[Prepared]:
        """Take what the engine has stored in this batch."""
        assert self.kept is not None
        windows = self._windows(self.kept)
        inserted, windows.inserted = windows.inserted, []
        return inserted

    def _add(self, batch: Prepared) -> None:
        """Write stored rows as segments, one for each of a few windows."""
        shares = [batch]
        if self.plan.window_part is not None:
            numbers = window_numbers(batch)
            each = np.unique(numbers)
            if 1 < each.size <= FEW:
                shares = [batch.take(np.flatnonzero(numbers == number)) for number in each]
        for share in shares:
            assert share.times is not None
            last = int(share.times.max())
            state.add(self.store, self.manifest, self.moment.batch, batch.side, share.rows, last)

    def needed(self, watermark: int | None) -> dict[Side, int] | None:
        """Return the least time that a row of an open window can have."""
        if self.kept is None:
            return None
        span = self._windows(self.kept).span
        return dict.fromkeys(SIDES, MAX_KEY if span is None else span[0])

    @property
    def is_empty(self) -> bool:
        """Whether no core has anything that waits: all forget the last watermark together."""
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
        assert self.kept is not None
        span, newest = self._windows(self.kept).span, self.manifest.newest
        if span is None and newest is None:
            return None
        end = span[1] if span is not None else self._end_of(newest or 0)
        return -((1 - end) // 1000) - 1
