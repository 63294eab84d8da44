"""The engine of one join: a plan, a watermark, and what has been counted so far.

It takes record batches whose schemas are known and gives joined record batches. The public
`StreamJoin` stands above it and deals with what users may pass, an executor below it finds matches
and holds the windows. The engine asks the executor for these things, in this order::

    probe        look for the matches of rows that come
    insert       store these rows
    close        look for what only the end of a window gives
    take_due     give the rows that nothing can match any more, if the join gives such
    expire       drop what has left the window
    take_early   give the rows that have waited long enough, if the join gives such

What changes the state is an attempt: until it is committed, an interrupt, or running out of memory,
leaves everything as it was. A sliding window is committed when rows are inserted, after the probe
for their matches. Windows that close are searched once more after that, maybe for long; so there
it is when the first of them expires, and rows that were inserted are taken out again before::

    sliding     probe . . . | insert, expire
    closing     probe . insert . close . . . | expire

What gives matches as they are found is called ``..._iter``; all of them must be taken.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.errors import StreamJoinError
from streamjoin.joins.collector import Collector
from streamjoin.joins.executor import Clock, Deliver, Executor, Streaming
from streamjoin.joins.lives import RowLives
from streamjoin.joins.outcomes.outcome import Alone, Outcome
from streamjoin.joins.outcomes.reduction import Reduction
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivered, Delivery, LeftInPlace, leave_and_name
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Flags, Keys
from streamjoin.kernels.interrupts import checkpoint, commit, shield
from streamjoin.kernels.threads import share, threads_for
from streamjoin.keys.bound_terms import validity
from streamjoin.keys.operands import Operands, Side
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.keys.sort_keys import encode
from streamjoin.plans.arrivals import Orders, number_step
from streamjoin.plans.batches import take_rows
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.preparing import prepare

Place = Callable[[Side, Prepared], Prepared]  # what a core joins of a batch, and stores of that
IsHome = Callable[[Side, Keys], Flags]  # which rows live here, by their ordinals; see `joins.lives`


@dataclass(frozen=True)
class Push:
    """Batches that are pushed together, and the watermark that is set after them."""

    batches: dict[Side, pa.RecordBatch]
    watermark: Any = None
    is_last: bool = False  # whether rows that come after it are late


@dataclass
class Counters:
    """What an engine has seen."""

    rows: dict[Side, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    matches: int = 0
    late: int = 0
    null_times: int = 0
    late_left: int = 0
    unmatched: int = 0  # rows that were given, and match nothing

    def copy(self) -> "Counters":
        """Return what has been seen so far."""
        return replace(self, rows=dict(self.rows))


@dataclass(frozen=True)
class PreparedPush:
    """Batches that are pushed together, prepared."""

    prepared: dict[Side, Prepared]
    rows: dict[Side, pa.RecordBatch]  # all that came, those too that cannot match, in their order
    interleaved: bool  # whether some rows of right came before some of left

    def place(self, place: Place) -> "PreparedPush":
        """Return what one of several cores joins of this."""
        placed = {side: place(side, batch) for side, batch in self.prepared.items()}
        return replace(self, prepared=placed)


class Engine:
    """Steps of one join over record batches; see the module docstring."""

    def __init__(
        self,
        plan: JoinPlan,
        executor: Executor,
        outcome: Outcome,
        order: Operands | None = None,
        numbers: bool = False,
        collector: Collector | None = None,
        lives: RowLives | None = None,
        reduction: Reduction | None = None,
    ) -> None:
        self.plan, self.executor, self.outcome, self.order = plan, executor, outcome, order
        self.reduction = reduction  # if a left row's pairs count together
        self.lives = lives  # if what becomes of each row is to be told
        self.numbers = numbers or plan.counted is not None or lives is not None
        self.streaming: Streaming | None = None  # has the windows while a source is read
        self.counters = Counters()
        self.watermark: int | None = None  # in keys of the time part
        self.is_over = False  # no more rows are coming
        self.newest: dict[Side, int] = {}
        self.sees_all = True  # else whoever does calls `give_early`: the rows of both streams
        self.seconds = {"keys": 0.0}
        self.collector = Collector() if collector is None else collector
        self._unsettled: dict[Side, Prepared] | None = None
        self._is_committed = False
        self._is_torn = False  # whether a change of the state has failed half-way

    @contextmanager
    def attempt(self, settles: bool = True) -> Iterator[None]:
        """Do something that an interrupt undoes, or leaves as it is if it comes too late.

        What is wrong with the data is no interrupt: it raises `StreamJoinError`, whose notes tell
        what was dropped. Unless it ``settles``, what `find` has given stays good. What fails
        otherwise after the commit, as memory may run out while rows are stored, leaves a state that
        is not whole, and from then on the join is refused.
        """
        self.check_whole()
        if settles and self._unsettled is not None:
            with shield():
                self.settle()
        self._is_committed = False
        counters = self.counters.copy()
        before = counters, dict(self.newest), self.watermark, self.is_over, self._unsettled
        waiting, take_back = self.collector.mark, self.mark()
        self.executor.begin()
        try:
            checkpoint()
            yield
        except StreamJoinError:
            raise
        except BaseException:
            self._is_torn = True
            if not self._is_committed:
                self.counters, self.newest, self.watermark, self.is_over = before[:-1]
                self._unsettled = before[-1]
                self.collector.restore(waiting)
                take_back()
                self.executor.undo()
                self._is_torn = False
            raise
        finally:
            self.executor.conclude()
            self.keep()

    @contextmanager
    def attempt_whole(self) -> Iterator[None]:
        """Do the first of all things, after which there is no engine if anything goes wrong."""
        take_back = self.mark()
        try:
            yield
        except BaseException:
            take_back()
            raise
        self.keep()

    def mark(self) -> Callable[[], None]:
        """Return what takes all back that is told of rows from here on, or settled."""
        take_back = self.outcome.mark()
        take_lives_back = do_nothing if self.lives is None else self.lives.mark()

        def undo() -> None:
            take_back()
            take_lives_back()

        return undo

    def keep(self) -> None:
        """Note that nothing so far is taken back."""
        self.outcome.keep()
        if self.lives is not None:
            self.lives.keep()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self.outcome.schema

    def take(self, item: Delivery | LeftInPlace | Alone) -> Any:
        """Settle the rows of matches, tell of them, and count those that are delivered.

        All matches pass here, each once, and all rows that match nothing.
        """
        if isinstance(item, Alone):
            rows = self.outcome.give(item)
            if not item.are_late:
                self.counters.unmatched += sum(each.num_rows for each in rows)
            return Delivery(0, rows)
        if self.lives is not None:
            self.lives.match(item.pairs)
        met = self.outcome.settle(item.claims)
        if isinstance(item, LeftInPlace):
            return item.found
        self.counters.matches += item.matches
        return replace(item, rows=[*met, *item.rows], claims=()) if item.claims else item

    def _commit(self) -> None:
        """Note that there is no way back."""
        if not self._is_committed:
            self._is_committed = True
            commit()

    def _insert(self, prepared: dict[Side, Prepared]) -> None:
        """Store what came, after all its matches have been taken."""
        if self.plan.defers and self.plan.counted is None and not prepared:
            return  # what is closed next can still be interrupted
        if not self.executor.can_undo:
            self._commit()
        self.executor.insert(prepared)

    @property
    def is_self_join(self) -> bool:
        """Whether both sides are one stream, stored once."""
        return self.executor.is_self_join

    @property
    def manager(self) -> Manager:
        """The manager of a join whose windows are in one piece."""
        assert self.executor.manager is not None
        return self.executor.manager

    @property
    def chains(self) -> dict[Side, Chain]:
        """The stored rows of both sides, where they are in one piece."""
        return self.manager.chains

    def push(self, batches: Mapping[Side, pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Join a batch of one side or of both; an error leaves everything as it was."""
        return [rows for delivery in self.push_iter(batches) for rows in delivery.rows]

    def push_iter(
        self,
        batches: Mapping[Side, pa.RecordBatch],
        place: Place | None = None,
        is_home: IsHome | None = None,
    ) -> Iterator[Delivery]:
        """Join as `push` does, but give the joined rows as they are found.

        State changes when the last has been taken. Where a join is spread over cores, ``place``
        returns the rows that probe here, marked which are stored, and ``is_home`` tells which live
        here.
        """
        self.settle()
        push = self.prepare(batches)
        placed = push if place is None else push.place(place)
        take_back = self.mark()
        try:
            self.arrive(placed, is_home)
            yield from self.give_left_out(push, is_home)
            yield from self._probe_and_insert(placed.prepared, push.interleaved)
        except StreamJoinError:
            take_back()
            raise
        self.count(push)
        yield from self.close_iter()

    def submit(self, batches: Mapping[Side, pa.RecordBatch]) -> None:
        """Send batches to the threads that join them, without waiting for their matches.

        In batch mode they wait until there are enough, or for `submit_waiting`.
        """
        push = self.prepare(batches)
        self.arrive(push)
        self.count(push)
        if not self.collector.is_on:
            self._threads.submit(push.prepared, push.interleaved, self.clock)
            return
        self.collector.add(push.prepared)
        if self.collector.is_due:
            self.submit_waiting()

    @property
    def _threads(self) -> Streaming:
        threads = self.streaming or self.executor.streaming
        assert threads is not None
        return threads

    def submit_waiting(self) -> None:
        """Send the rows that wait."""
        waiting = self.collector.concatenate()
        if waiting:
            self.collector.clear()
            self._threads.submit(waiting, self.numbers, self.clock)

    def collect(self, batches: Mapping[Side, pa.RecordBatch]) -> list[Delivery]:
        """Let rows wait until `flush`, or until `find`; return what need not wait."""
        self.settle()
        push = self.prepare(batches)
        self.arrive(push)
        given = list(self.give_left_out(push))
        self.count(push)
        self.collector.add(push.prepared)
        return given

    def flush(self) -> list[Delivery]:
        """Join all rows that wait; windows that they held open are then to be closed."""
        self.settle()
        waiting = self.collector.concatenate()
        with self._dropping_what_waits():
            found = list(self._probe_and_insert(waiting, self.numbers))
        self.collector.clear()
        return found

    @contextmanager
    def _dropping_what_waits(self) -> Iterator[None]:
        """Drop the rows that wait if these cannot be joined."""
        take_back = self.mark()
        try:
            yield
        except StreamJoinError as error:
            error.add_note(
                f"the {self.collector.count:,} rows that waited are dropped; push them again "
                "without the one that this is about"
            )
            take_back()
            self._lose(self.collector.concatenate().values())
            self.collector.clear()
            raise

    def find(self, batches: Mapping[Side, pa.RecordBatch]) -> list[Found]:
        """Look for matches, and leave them where they are: they are good until `settle`."""
        self.collect(batches)
        probing = self.collector.concatenate()
        with self._dropping_what_waits():
            left = self.executor.probe(probing, self.numbers, deliver=leave_and_name)
            found = [self.take(each) for each in left]
        if self.executor.is_lasting:
            self.collector.clear()
            self._insert(probing)
            return [*found, *self.close_iter(leave_and_name)]
        self._unsettled = probing
        return found

    def settle(self) -> None:
        """Store the rows whose matches `find` has given; from now on they match others."""
        self.check_whole()
        if self._unsettled is not None:
            self._is_torn = True
            self.executor.insert(self._unsettled)
            self._unsettled = None
            self.collector.clear()
            for _ in self.close_iter():
                pass  # a sliding window gives nothing when rows leave it
            self._is_torn = False

    def check_whole(self) -> None:
        """Refuse to go on with a state that is half changed: kernels would read beyond rows."""
        if self._is_torn:
            raise StreamJoinError(
                "this join ran out of memory, or failed otherwise, while it stored rows, so what "
                "it holds is not whole; go on from its last snapshot, StreamJoin.restore(...), or "
                "make a new StreamJoin"
            )

    def prepare(self, batches: Mapping[Side, pa.RecordBatch], threads: int = 1) -> PreparedPush:
        """Compute the keys of what comes, and number it; changes nothing."""
        begin = perf_counter()
        orders: Orders = {}
        rows: dict[Side, pa.RecordBatch] = {}
        for side, batch in batches.items():
            if self.order is not None:
                batch, orders[side] = sort_by(batch, self.order.values(side, batch))
            rows[side] = batch

        def prepare_one(side: Side) -> Prepared:
            return prepare(self.plan, side, rows[side], self.watermark, self.is_over)

        if all(part.exact for part in self.plan.equalities):
            threads = 1  # waking another takes longer than most other keys, unlike hashes
        threads = threads_for(sum(batch.num_rows for batch in rows.values()), threads)
        prepared = dict(zip(rows, share(prepare_one, list(rows), threads), strict=True))
        if self.numbers:
            counts = {side: batch.num_rows for side, batch in rows.items()}
            number_step(prepared, counts, self.counters.rows, orders, self.plan.counted)
        self.seconds["keys"] += perf_counter() - begin
        return PreparedPush(prepared, rows, len(orders) == 2)

    def arrive(self, push: PreparedPush, is_home: IsHome | None = None) -> None:
        """Tell of rows that come, before they are counted; all live here if ``is_home`` is None."""
        if self.lives is None:
            return
        for side, batch in push.prepared.items():
            first, rows = self.counters.rows[side], push.rows[side]
            ordinals = np.arange(first, first + rows.num_rows)
            self.lives.arrive(
                first, rows, batch, None if is_home is None else is_home(side, ordinals)
            )

    def give_left_out(
        self, push: PreparedPush, is_home: IsHome | None = None
    ) -> Iterator[Delivery]:
        """Give the rows that came too late, or cannot match at all, if the result has such.

        All live here if ``is_home`` is None, otherwise those for which it says so.
        """
        how = self.outcome.how
        if not self.outcome.keeps_late and not how.alone:
            return
        for side, batch in push.prepared.items():
            if batch.is_whole:
                continue
            rows, late = push.rows[side], batch.intake.late
            if batch.intake.positions is None and batch.roles.can_match is None:
                continue  # nothing was left out
            alone = np.ones(rows.num_rows, np.bool_)
            if is_home is not None:
                alone = is_home(side, self.counters.rows[side] + np.arange(rows.num_rows))
                late = late[alone[late]]
            alone[batch.places[batch.matching]] = False
            alone[batch.intake.late] = False
            for each, are_late in ((late, True), (np.flatnonzero(alone), False)):
                if each.size:
                    yield self.take(Alone(side, take_rows(rows, each), are_late=are_late))

    def follow_rows(self, prepared: Mapping[Side, Prepared]) -> dict[Side, Prepared]:
        """Give marks to the rows for which it counts whether they match."""
        follows = self.plan.follows
        return {side: each.follow() if side in follows else each for side, each in prepared.items()}

    def _probe_and_insert(
        self, prepared: dict[Side, Prepared], interleaved: bool
    ) -> Iterator[Delivery]:
        """Find matches, give their rows, and store what came."""
        prepared = self.follow_rows(prepared)
        before = self.counters.matches
        try:
            for delivery in self.executor.probe(prepared, interleaved):
                yield self.take(delivery)
        except StreamJoinError:
            self.counters.matches = before
            raise
        except MemoryError as error:
            matches, self.counters.matches = self.counters.matches - before, before
            raise StreamJoinError(
                f"the matches of this step do not fit into memory, after {matches:,} of them "
                f"({error}); push fewer rows at a time, or leave them where they are with find(), "
                "which can count them, or fetch some at a time"
            ) from error
        self._insert(prepared)

    def count(self, push: PreparedPush) -> None:
        """Count what has come."""
        for side, batch in push.prepared.items():
            intake = batch.intake
            self.counters.rows[side] += push.rows[side].num_rows
            self.counters.late += intake.late.size
            self.counters.late_left += intake.late.size if side == "left" else 0
            self.counters.null_times += intake.null_times
            if intake.newest is not None:
                self.newest[side] = max(self.newest.get(side, intake.newest), intake.newest)

    def restore_arrived(self, rows: Mapping[Side, int]) -> None:
        """Continue counting from the rows that had arrived when the state was saved."""
        self.counters.rows = dict(rows)

    def restore_watermark(self, watermark: int | None) -> None:
        """Continue from a watermark that is kept elsewhere; nothing is dropped or closed yet."""
        self.watermark = watermark

    def advance(self, watermark: int, deliver: Deliver | None = None) -> Delivered:
        """Note that rows before ``watermark`` come no more, and drop what they alone would meet.

        Returns the matches of windows that close thereby.
        """
        return Delivered.collect(self.advance_iter(watermark, deliver))

    def advance_iter(self, watermark: int, deliver: Deliver | None = None) -> Iterator[Any]:
        """Do as `advance` does, but give the matches as they are found; all must be taken."""
        if self.watermark is None or watermark > self.watermark:
            self.watermark = watermark
            yield from self.close_iter(deliver)

    def finish(self, deliver: Deliver | None = None) -> Delivered:
        """Note that no rows come any more, and return the matches of windows that are open."""
        self.watermark, self.is_over = MAX_KEY + 1, True  # all that comes is late
        return self.close(deliver)

    def close(self, deliver: Deliver | None = None) -> Delivered:
        """Return the matches of windows that the watermark has passed."""
        return Delivered.collect(self.close_iter(deliver))

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on."""
        self.executor.set_threads(threads)
        if self.streaming is not None:
            self.streaming.set_threads(threads)

    @property
    def clock(self) -> Clock:
        """How far the streams have come."""
        return Clock(dict(self.counters.rows), self.watermark, self.is_over)

    def close_iter(self, deliver: Deliver | None = None) -> Iterator[Any]:
        """Drop what has left the window, unless rows wait for it; give what closing it gives.

        All of it must be taken.
        """
        if self.collector.count:
            return
        clock = self.clock
        try:
            if self.plan.closes or self.plan.defers:
                for item in self.executor.close(clock, deliver):
                    yield self.take(item)
        except StreamJoinError:
            self._expire(clock)
            raise
        if self.outcome.how.alone:
            for alone in self.executor.take_due(clock):
                yield self.take(alone)
        self._expire(clock)
        if self.sees_all and self.newest and not self.is_over:
            yield from self.give_early(max(self.newest.values()))

    def give_early(self, newest: int) -> Iterator[Delivery]:
        """Give the rows without a match whose patience has run out, and that are not due.

        Whatever is due has left by now, or is settled. ``newest`` is the newest time of any row.
        """
        for alone in self._take_early(newest):
            yield self.take(alone)

    def forget_early(self, newest: int) -> None:
        """Note that rows were given early before, when ``newest`` was the newest time."""
        for _ in self._take_early(newest):
            pass

    def _take_early(self, newest: int) -> Iterator[Alone]:
        patience = self.plan.patience
        return iter(()) if patience is None else self.executor.take_early(newest - patience)

    def _expire(self, clock: Clock) -> None:
        """Drop what has left the window."""
        if self.streaming is not None:
            self.streaming.expire(clock)
            return
        if self.executor.would_expire(clock):
            self._commit()
        closing = self.executor.closing if self.lives is not None else None
        closed = {} if closing is None else closing.find_closed(clock)
        self.executor.expire(clock)
        if closing is not None:
            self._lose(closing.take_lost())
        self.end_lives(clock, closed)

    def end_lives(self, clock: Clock, closed: Mapping[Side, Keys] | None = None) -> None:
        """Tell of the rows that no row can meet any more; all ends pass here."""
        if self.lives is not None:
            self.lives.end(clock, closed)

    def _lose(self, batches: Iterable[Prepared]) -> None:
        """Tell of rows that an error has dropped."""
        if self.lives is not None:
            for batch in batches:
                assert batch.ordinals is not None
                self.lives.lose(batch.side, batch.ordinals)

    def follow(self, delay: int, deliver: Deliver | None = None) -> Delivered:
        """Move the watermark by Spark's rule: ``delay`` behind the slower side's newest time."""
        if len(self.newest) < 2:
            return Delivered()
        return self.advance(min(self.newest.values()) - delay, deliver)


def do_nothing() -> None:
    """Do nothing."""


def sort_by(batch: pa.RecordBatch, values: pa.Array) -> tuple[pa.RecordBatch, Keys]:
    """Sort a batch by order values, NULL first, stably; return their keys too."""
    keys, order = sort_with_rows(order_keys(values))
    return take_rows(batch, order), keys


def order_keys(values: pa.Array) -> Keys:
    """Return the keys of order values, NULL first."""
    keys = encode(values)
    has_value = validity(values)
    return keys if has_value is None else np.where(has_value, keys, MIN_KEY)
