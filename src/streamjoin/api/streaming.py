"""Pushes a source through the threads that join it, without waiting for their results.

A separate thread reads the source and sends its steps down; the caller, who iterates, takes the
results. Between them are channels of bounded depth, so a slow caller slows the source down. The
caller can be interrupted while waiting for results; what is under way is stored all the same.
"""

import os
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

import pyarrow as pa

from streamjoin.errors import CoreError, StreamJoinError
from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import Streaming
from streamjoin.joins.messages import Gathered
from streamjoin.joins.pairs.deliver import Delivery
from streamjoin.joins.shared.shared_stream import SharedStream
from streamjoin.joins.split.losses import raise_error
from streamjoin.kernels.forks import is_here
from streamjoin.kernels.interrupts import hold_signals, shield


class Pipeline:
    """One source on its way through an engine; ``send`` checks and submits its items."""

    def __init__(
        self,
        engine: Engine,
        join: Streaming,
        source: Iterator[tuple[Any, Any]],
        send: Callable[..., None],
    ) -> None:
        self.engine, self.join, self.source, self.send = engine, join, source, send
        self._process = os.getpid()
        self._stopped = Event()
        self._sending, self._has_ended = Lock(), False
        self._is_empty = False  # whether all that was sent has been gathered
        self._failure: BaseException | None = None

    def __iter__(self) -> Iterator[Delivery]:
        """Start reading the source, and yield results until it is exhausted.

        A caller who stops early loses the matches still under way; the rows are stored.
        """
        with hold_signals():
            self.join.wait()
        Thread(target=self._read, name="streamjoin source", daemon=True).start()
        try:
            for gathered in self._wait_for_results():
                yield from self._count_matches(gathered)
                raise_error(gathered.problems)
                if gathered.ends:
                    self.join.report()
        except CoreError as error:
            rest = [rows for each in self._gather_rest() for rows in each.rows]
            error.results = pa.Table.from_batches(rest, self.engine.schema)
            raise
        finally:
            if is_here(self._process):  # a forked child has no threads to wait for
                with hold_signals(), shield():
                    self._drop_rest()
        self.join.report()
        if self._failure is not None:
            raise self._failure

    def _wait_for_results(self) -> Iterator[Gathered]:
        """Yield what is gathered; hold signals while waiting for it."""
        coming = self._gather_steps()
        while True:
            with hold_signals():
                gathered = next(coming, None)
            if gathered is None:
                return
            yield gathered

    def _drop_rest(self) -> None:
        """Stop reading the source, and wait until all that was sent is stored."""
        try:
            for _ in self._gather_rest():
                pass
        finally:
            self._stopped.set()
            with self._sending:  # wait until what is being sent is counted and stored
                pass

    def _read(self) -> None:
        try:
            for item in self.source:
                if not self._send_unless_stopped(partial(self.send, *item)):
                    return
            self._send_unless_stopped(self.engine.submit_waiting)
        except BaseException as error:
            self._failure = error
        self._submit_last()

    def _send_unless_stopped(self, act: Callable[[], None]) -> bool:
        """Send something, unless the stream has stopped; return whether it was sent."""
        with self._sending:  # so that the last step comes after it
            if self._stopped.is_set():
                return False
            act()
            return True

    def _submit_last(self) -> None:
        with self._sending:
            if not self._has_ended:
                self._has_ended = True
                self.join.submit_last()

    def _gather_rest(self) -> Iterator[Delivery]:
        """Stop reading the source, and yield what is under way; dead cores raise elsewhere."""
        if not self._is_empty:
            self._stopped.set()
            # From a separate thread: the channels may be full until we read again, below.
            Thread(target=self._submit_last, daemon=True).start()
            for gathered in self._gather_steps():
                yield from self._count_matches(gathered)

    def _gather_steps(self) -> Iterator[Gathered]:
        """Yield everything gathered before the last step."""
        for gathered in self.join.gathered():
            if gathered.step.is_last:
                self._is_empty = gathered.ends
                if gathered.ends:
                    return
                continue
            yield gathered

    def _count_matches(self, gathered: Gathered) -> Iterator[Delivery]:
        for delivery in gathered.found:
            yield self.engine.take(delivery)
        if gathered.ends and gathered.step.clock is not None:
            self.engine.end_lives(gathered.step.clock)


def stream_through(
    engine: Engine, join: Streaming, steps: Iterator[tuple[Any, Any]], send: Callable[..., None]
) -> Generator[Delivery, None, None]:
    """Read a source ahead of its results; meanwhile its threads own the windows."""
    engine.streaming, process = join, os.getpid()
    try:
        yield from Pipeline(engine, join, steps, send)
    finally:
        if is_here(process):
            with hold_signals(), shield():
                join.release()
                engine.streaming = None
                if not engine.collector.count:  # a row that waits may meet any stored one
                    engine.end_lives(engine.clock)


def threads_of(engine: Engine, task_rows: int) -> Streaming | None:
    """Return the threads that can join a source ahead of its results, or None."""
    with hold_signals(), shield():
        engine.settle()
    if engine.plan.residuals:  # they may fail on values, and then nothing may be stored
        return None
    if (
        engine.plan.defers or not engine.outcome.is_inner
    ):  # steps follow each other without waiting, and rows settle last
        return None
    return engine.executor.streaming or SharedStream.of(engine, task_rows)


def check_source(source: Any) -> None:
    """Refuse what cannot be iterated over."""
    if isinstance(source, AsyncIterable):
        raise StreamJoinError(
            f"source={source!r} is asynchronous, and stream() reads in a plain loop; write "
            "'async for left, right in source: matches = join.push(left, right)'"
        )
    if not isinstance(source, Iterable):
        raise StreamJoinError(
            f"source={source!r} is not a source; pass something to iterate over that gives pairs "
            "(left, right), such as a list or a generator"
        )


def sides_of(item: Any) -> tuple[Any, Any]:
    """Return the left and right of an item of a source."""
    if isinstance(item, Mapping) and item.keys() <= {"left", "right"}:
        return item.get("left"), item.get("right")
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    what = f"something of type {type(item).__name__}"
    if isinstance(item, tuple | list):
        what = f"a {type(item).__name__} of {len(item)}"
    elif isinstance(item, Mapping):
        what = f"a {type(item).__name__} with the keys {', '.join(map(repr, item))}"
    raise StreamJoinError(
        f"the source of a stream gave {what}; it gives pairs (left, right) or dicts "
        "{'left': ..., 'right': ...}, either of them None where there is nothing"
    )
