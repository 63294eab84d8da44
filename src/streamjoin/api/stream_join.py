"""What users call to join streams: `StreamJoin`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Unpack

import pyarrow as pa

from streamjoin.api import snapshots
from streamjoin.api.guard import Guard, exclusive
from streamjoin.api.join_state import JoinState
from streamjoin.api.results import Punctuated, Results
from streamjoin.api.stats import JoinStats
from streamjoin.api.streaming import check_source, sides_of, stream_through, threads_of
from streamjoin.conditions import Condition
from streamjoin.errors import CoreError, StreamJoinError, WindowError
from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import Streaming
from streamjoin.joins.pairs.deliver import Delivered, Delivery
from streamjoin.joins.shared.shared_join import TASK_TUPLES
from streamjoin.kernels.forks import refuse_elsewhere
from streamjoin.kernels.interrupts import hold_signals
from streamjoin.options.checked import JoinOptions
from streamjoin.options.options import STREAMS, StreamOptions
from streamjoin.options.rules import list_examples
from streamjoin.options.signatures import show_options
from streamjoin.options.values import ColumnPair
from streamjoin.windows import Window


@show_options(STREAMS)
class StreamJoin:
    """Join two streams, batch by batch, by any condition inside a window.

    Parameters
    ----------
    on:
        The condition as SQL text over the aliases ``l`` and ``r``, or a `Condition`.
    window:
        {window}
    time:
        The event-time columns ``(left, right)`` of any window but a `CountWindow`; one name means
        both.
    {options}

    Examples
    --------
    >>> from streamjoin import CountWindow
    >>> join = StreamJoin(on="abs(l.x - r.x) <= 1", window=CountWindow(100))
    >>> _ = join.push(left=pa.table({"x": [1, 5, 9]}))
    >>> join.push(right=pa.table({"x": [4, 8]})).to_pylist()
    [{'x': 5, 'x_right': 4}, {'x': 9, 'x_right': 8}]
    """

    def __init__(
        self,
        on: str | Condition,
        window: Window | str,
        time: ColumnPair = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        if window is None:
            raise WindowError(
                f"a stream join needs a window: {list_examples()}; for two finite tables use "
                "join_tables"
            )
        self._open(JoinState(JoinOptions.check(on, window, time, **options)))

    def _open(self, state: JoinState) -> None:
        self._state = state
        self._results: Results | None = None  # of the last `find`
        self._guard = Guard()

    @exclusive
    def push(self, left: Any = None, right: Any = None) -> pa.Table:
        """Add a batch of either stream, or of both, and return the new matches.

        Takes a pyarrow RecordBatch or Table, or anything with the Arrow PyCapsule interface. The
        result has left's columns, then right's; right names that clash get ``_right``. Passing
        the same object as left and right joins a stream with itself; a sliding window stores it
        once.

        Until both streams have been seen, their rows wait, and the result has no rows and the
        columns of one side only.

        If a push is interrupted, by Ctrl-C say, it has not happened, unless the exception has
        ``results``: then it has, and they are what it would have returned. The same holds for
        every other call.
        """
        self._begin()
        return self._table(lambda: self._push(left, right))

    def _push(self, left: Any, right: Any) -> Delivered:
        """Add rows and return what they find; raise if a core has died meanwhile."""
        delivered = self._state.push(left, right)
        self._report(lambda: self._state.table(delivered.items))
        return delivered

    def _report(self, results: Callable[[], pa.Table | Results]) -> None:
        """Raise if cores have died, with what the others have found."""
        try:
            if self._state.engine is not None:
                self._state.engine.executor.report()
        except CoreError as error:
            error.results = results()
            raise

    def _table(self, join: Callable[[], Delivered]) -> pa.Table:
        """Return what is found as a table; an error also carries what was found before it."""
        with hold_signals() as call:
            delivered = join()
            table = self._state.table(delivered.items)
            if delivered.failure is not None:
                delivered.failure.results = table if delivered.items else None
                raise delivered.failure
            return call.give(table)

    def stream(
        self, source: Iterable[Any], task_rows: int = TASK_TUPLES, finish: bool = True
    ) -> Iterator[Punctuated]:
        """Push everything a source yields, and yield matches as they are found.

        ``source`` yields what `push` takes, as pairs ``(left, right)`` or as dicts, with None for a
        side that has nothing. With ``cores``, or if the windows are kept in PIM-Trees or IM-Trees,
        a separate thread reads ahead, as far as channels of bounded depth allow: if you read the
        results slowly, the source slows down too. If you stop reading early, matches that are
        under way are lost. No rows are, except for one item of the source that may have been read
        and not yet pushed.

        When the source is exhausted, rows that wait in batch mode are joined. Tumbling and session
        windows are closed then as by `finish`, and rows without a match are given, if the join
        gives such: all later rows would be late. With ``finish=False`` it all stays open, for
        another source or for `push`. Sliding windows that give nothing but matches have given them
        by then, and take more rows in any case.

        With PIM-Trees, threads share the trees and take tasks of ``task_rows`` rows each from a
        common queue; matches come in order of arrival. If you set `threads` meanwhile, threads join
        or leave.

        >>> from streamjoin import CountWindow
        >>> join = StreamJoin(on="l.x = r.x", window=CountWindow(100), cores=2, ordered="outer")
        >>> rows = [pa.table({"x": [number]}) for number in (1, 2)]
        >>> [part.rows.num_rows for part in join.stream((each, each) for each in rows)]
        [1, 1]
        """
        self._check_stream(source, task_rows)
        state = self._state
        steps = (sides_of(each) for each in source)
        while state.engine is None and (sides := next(steps, None)) is not None:
            yield from self._punctuated_steps(self._push_step(*sides))
        engine = state.engine
        if engine is not None and (threads := self._lend(engine, task_rows)) is not None:
            send = partial(state.submit, engine)
            with closing(stream_through(engine, threads, steps, send)) as delivered:
                yield from self._punctuated(delivered)
        for sides in steps:
            yield from self._punctuated_steps(self._push_step(*sides))
        if finish and state.config.ends:
            yield from self._punctuated_steps(self._last_step(state.finish))
        elif engine is not None and engine.collector.count:
            yield from self._punctuated_steps(self._last_step(state.flush))

    @exclusive
    def _check_stream(self, source: Iterable[Any], task_rows: int) -> None:
        self._begin()
        if type(task_rows) is not int or task_rows < 1:
            raise StreamJoinError(f"task_rows={task_rows!r}: give a number of rows from 1")
        check_source(source)
        if self._state.is_over:
            raise StreamJoinError(
                "this join has finished, so all rows of the source would be late; make a new "
                "StreamJoin, or pass finish=False to the stream() before this one"
            )

    @exclusive
    def _push_step(self, left: Any, right: Any) -> Delivered:
        """Push what a source yields; other calls may have used the join since its last item.

        If it is interrupted, the exception carries what was found.
        """
        self._begin()
        with hold_signals() as call:
            delivered = self._push(left, right)
            if self.schema is not None:
                call.give(self._state.table(delivered.items))
        return delivered

    def _punctuated_steps(self, delivered: Delivered) -> Iterator[Punctuated]:
        """Yield what is found; if a window failed, yield what came before it, then raise."""
        yield from self._punctuated(delivered.items)
        delivered.unwrap()

    @exclusive
    def _last_step(self, join: Callable[[], Delivered]) -> Delivered:
        self._begin()
        with hold_signals() as call:
            delivered = join()
            if self.schema is not None:
                call.give(self._state.table(delivered.items))
        self._report(lambda: self._state.table([]))
        return delivered

    @exclusive
    def _lend(self, engine: Engine, task_rows: int) -> Streaming | None:
        """Lend the windows to the threads that join a source ahead, if this join has such."""
        self._begin()
        engine.streaming = threads_of(engine, task_rows)
        return engine.streaming

    def _punctuated(self, delivered: Iterable[Delivery]) -> Iterator[Punctuated]:
        for delivery in delivered:
            assert self.schema is not None
            yield Punctuated.of(delivery, self.schema)

    @exclusive
    def find(self, left: Any = None, right: Any = None) -> Results:
        """Do what `push` does, but leave the matches in the windows: count them, or fetch some.

        Rows that wait in batch mode are joined too. The results have no order, are valid until the
        next push, find, flush or snapshot, and do not count in ``stats.matches``. Only inner joins
        have it.

        >>> from streamjoin import CountWindow
        >>> join = StreamJoin(on="l.x < r.x", window=CountWindow(1000))
        >>> _ = join.push(left=pa.table({"x": range(1000)}), right=pa.table({"x": [0]}))
        >>> join.find(right=pa.table({"x": range(500, 600)})).count()
        54950
        """
        self._begin()
        refuse_find(self._state.config)
        with hold_signals() as call:
            found = self._state.find(left, right)
            fetch = self._state.fetch
            results = Results(found, self._state.known_schema, fetch, self.threads, self._guard)
            self._results = results
            self._report(lambda: results)
            return call.give(results)

    @exclusive
    def flush(self) -> pa.Table:
        """Join the rows that wait in batch mode, and return their matches."""
        self._begin()
        joined = self._table(self._state.flush)
        self._report(lambda: joined)
        return joined

    def _begin(self) -> None:
        """Close what an earlier call may have left open; refuse while a stream is being read."""
        self._refuse_beside_stream()
        self._close_results()

    def _refuse_beside_stream(self) -> None:
        if self._state.is_streaming:
            refuse_elsewhere(self._guard.process)
            raise StreamJoinError(
                "this join is reading a source; take all that stream() yields, or close() it, "
                "before you use the join otherwise"
            )

    def _close_results(self) -> None:
        if self._results is not None:
            self._results.close()
            self._results = None

    @exclusive
    def advance(self, watermark: Any) -> pa.Table:
        """Declare that no rows before ``watermark`` will come: drop what only they would meet.

        Returns the matches of the tumbling or session windows that this closes; a sliding window
        has already given its matches, unless ``keep`` or ``aggregate`` makes left rows wait until
        nothing can change what they have. Rows before the watermark that come all the same are
        late: they match nothing, and are counted. Takes a datetime, a date or an integer
        (milliseconds), like the time columns. The watermark never moves back.

        >>> from streamjoin import TumblingWindow
        >>> join = StreamJoin(on="l.id = r.id", window=TumblingWindow("1 minute"), time="t")
        >>> rows = pa.table({"id": [1, 1], "t": [59_000, 60_000]})
        >>> join.push(left=rows, right=rows.slice(0, 1)).num_rows, join.advance(60_000).num_rows
        (0, 1)
        """
        config = self._state.config
        if config.closes:
            self._begin()
        else:  # results of `find` stay valid
            self._refuse_beside_stream()
        if config.is_counted:
            raise WindowError(
                f"a watermark has no meaning for {config.window}; rows leave a count window when "
                "newer ones come"
            )
        return self._table(lambda: self._state.advance(watermark))

    @exclusive
    def finish(self) -> pa.Table:
        """Declare that no more rows will come: join what waits, close all windows.

        Returns the last matches. Rows pushed after this are late.

        >>> from streamjoin import SessionWindow
        >>> join = StreamJoin(on="l.id = r.id", window=SessionWindow("1 minute"), time="t")
        >>> rows = pa.table({"id": [1, 1], "t": [0, 60_000]})
        >>> _ = join.push(left=rows, right=rows)
        >>> join.finish().num_rows
        4
        """
        self._begin()
        return self._table(self._state.finish)

    @property
    def threads(self) -> int:
        """How many threads work on this join."""
        return self._state.config.threads

    @threads.setter
    def threads(self, threads: int | None) -> None:
        with self._guard.lock:
            config = self._state.config = self._state.config.with_threads(threads)
            if self._state.engine is not None:
                self._state.engine.set_threads(config.threads_each)

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of the result; None until both streams have been seen."""
        return self._state.schema

    @property
    @exclusive
    def stats(self) -> JoinStats:
        """Rows, matches, late rows, what is held now, and seconds by phase."""
        self._refuse_beside_stream()
        return self._state.stats

    @exclusive
    def snapshot(self) -> bytes:
        """Return the whole state; `restore` goes on from it, in this process or another."""
        self._begin()
        with hold_signals():
            return snapshots.save(self._state)

    @classmethod
    def restore(cls, data: bytes) -> "StreamJoin":
        """Return a join that goes on where ``snapshot`` was taken.

        Raises `SnapshotError` for bytes that are damaged, incomplete or of another version.
        """
        join = cls.__new__(cls)
        with hold_signals(provisional=True):
            join._open(snapshots.load(data))
        return join

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by way of a snapshot."""
        return type(self).restore, (self.snapshot(),)


def refuse_find(config: JoinOptions) -> None:
    """Refuse to leave matches where they are if the result has more than these."""
    for name, value, plain in (
        ("how", config.how.name, "inner"),
        ("keep", config.keep, "all"),
        ("aggregate", dict(config.aggregate), {}),
        ("indicator", config.indicator, False),
        ("late", config.late, "drop"),
    ):
        if value != plain:
            raise StreamJoinError(
                f"find() leaves matches in the windows, and {name}={value!r} gives more than "
                "matches; use push(), or find_matches() for tables"
            )
