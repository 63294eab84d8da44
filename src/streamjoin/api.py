"""What users call to join streams: `StreamJoin`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from streamjoin import snapshots
from streamjoin.batches import as_batch, owned
from streamjoin.config import ColumnPair, JoinConfig
from streamjoin.durations import Duration
from streamjoin.errors import CoreError, StreamJoinError, WindowError
from streamjoin.joins.engine import Engine, Step, leave
from streamjoin.joins.executor import Deliver, Streaming
from streamjoin.joins.gather import Delivery
from streamjoin.joins.ordering import Ordered
from streamjoin.joins.times import ticks, time_type, to_key
from streamjoin.keys.operands import Side
from streamjoin.opening import Opening
from streamjoin.parallel.shared_join import TASK
from streamjoin.pipeline import Pipeline, sides_of, threads_of
from streamjoin.predicates import Condition
from streamjoin.results import Punctuated, Results
from streamjoin.stats import JoinStats
from streamjoin.windows import CountWindow, Window


class StreamJoin:
    """Join two streams, batch by batch, by any condition inside a sliding window.

    Parameters
    ----------
    on:
        The condition as SQL text over the aliases ``l`` and ``r``, or a `Condition`.
    window:
        `TimeWindow` (pairs whose event times are close), `CountWindow` (each row meets the last
        n rows of the other stream), `TumblingWindow` (pairs in the same stretch of time) or
        `SessionWindow` (pairs without a long pause between them).
    time:
        The event-time columns ``(left, right)`` of any window but a `CountWindow`; one name means
        both.
    algorithm:
        ``"auto"``, or the structure to keep windows in: ``"bi_sort"``, ``"rap_table"``,
        ``"wib_tree"``, ``"scan"``; for two inequalities or bands at once, ``"spo_join"``; or, for
        rows that come a few at a time, ``"pim_tree"``, ``"im_tree"``, ``"ib_chain"``,
        ``"b_chain"``, ``"b_tree"``. For equalities inside tumbling and session windows: ``"npj"``,
        ``"prj"``, ``"mway"``, ``"mpass"``, when they close, or ``"shj_jm"``, ``"shj_jb"``,
        ``"pmj_jm"``, ``"pmj_jb"``, as rows come.
    delay:
        Let the watermark follow the data: after each push it stands this far behind the newest
        time of the slower stream. Without it, call `advance`.
    order:
        Count windows: the columns that give arrival order within one push; without, left first.
    threads:
        How many threads probe; all cores if None. May be set while the join runs.
    batch_rows, batch_time:
        Batch mode: rows wait until there are ``batch_rows``, or until the first has waited for
        ``batch_time``, whichever comes first; then they are joined together, which costs less a
        row. `push` looks at the clock, an empty ``push()`` too; `flush` does not wait.
    cores:
        Spread the windows over so many join cores, each a thread with a part of the rows
        (SplitJoin); one if None.
    ordered:
        The order of matches: ``"none"``; ``"outer"``, those of an earlier row come first, counted
        through both streams; ``"inner"``, in addition those of one row oldest first; or a number
        p, where only groups of p rows of the other stream are in order.
    emit:
        Tumbling and session windows: ``"close"`` returns their matches when the watermark has
        passed their end, ``"eager"`` as rows come, ``"auto"`` as suits `optimize` best. The pairs
        are the same.
    optimize:
        What ``"auto"`` looks at: ``"throughput"``, ``"latency"`` or ``"progressiveness"``.
    tuning:
        Knobs of an algorithm: ``{"bits": 10}`` of ``"prj"``, ``"run_rows"`` of ``"mway"`` and
        ``"mpass"``, ``"delta"`` of ``"pmj_jm"`` and ``"pmj_jb"``, ``"group"`` of ``"shj_jb"`` and
        ``"pmj_jb"``.

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
        window: Window,
        time: ColumnPair = None,
        algorithm: str = "auto",
        delay: Duration | None = None,
        order: ColumnPair = None,
        threads: int | None = None,
        batch_rows: int | None = None,
        batch_time: Duration | None = None,
        cores: int | None = None,
        ordered: Ordered = "none",
        emit: str | None = None,
        optimize: str = "throughput",
        tuning: Mapping[str, int] | None = None,
    ) -> None:
        if window is None:
            raise WindowError(
                "a stream join needs a window: TimeWindow('10 minutes'), TumblingWindow('1 "
                "minute'), SessionWindow('10 minutes') or CountWindow(1000); for two finite tables "
                "use join_tables"
            )
        self._config = JoinConfig.check(
            on,
            window,
            time,
            order,
            algorithm,
            delay,
            threads,
            batch_rows,
            batch_time,
            cores,
            ordered,
            emit,
            optimize,
            tuning,
        )
        self._results: Results | None = None  # of the last `find`
        self._is_streaming = False
        self._opening = Opening()
        self._engine: Engine | None = None

    def push(self, left: Any = None, right: Any = None) -> pa.Table:
        """Add a batch of either stream, or of both, and return the new matches.

        Takes a pyarrow RecordBatch or Table, or anything with the Arrow PyCapsule interface. The
        result has left's columns, then right's; right names that clash get ``_right``. Passing
        the same object as left and right joins a stream with itself, and stores it once.

        Until both streams have been seen, their rows wait, and the result has no rows and the
        columns of one side only.
        """
        self._begin()
        return self._table(self._deliveries(left, right))

    def _deliveries(self, left: Any, right: Any) -> list[Delivery]:
        """Add rows and return what they find."""
        batches, is_self = self._check(left, right)
        if self._engine is None:
            delivered = self._push_first(batches, is_self)
        else:
            delivered = self._push(self._engine, batches)
            delivered += self._follow(self._engine)
        self._report(lambda: self._table(delivered))
        return delivered

    def _report(self, results: Callable[[], pa.Table | Results]) -> None:
        """Tell of cores that have died, with what the others have found."""
        try:
            if self._engine is not None:
                self._engine.join.report()
        except CoreError as error:
            error.results = results()
            raise

    def _table(self, delivered: list[Delivery]) -> pa.Table:
        """Return joined rows as a table; until there are any, of the columns that are known."""
        schema = self.schema
        if schema is None:
            schema = next(iter(self._opening.schemas.values()), pa.schema([]))
        return pa.Table.from_batches([rows for each in delivered for rows in each.rows], schema)

    def stream(self, source: Iterable[Any], task_rows: int = TASK) -> Iterator[Punctuated]:
        """Push all that a source gives, and yield matches as they come.

        ``source`` gives what `push` takes, as pairs ``(left, right)`` or as dicts, either side
        None where there is nothing. With ``cores``, or if the windows are kept in PIM-Trees or
        IM-Trees, a thread of its own reads it ahead, as far as channels of bounded depth allow: who
        reads the results slowly slows the source down. Who stops reading loses the matches that
        are on their way, but no rows, except for the one item of the source that may have been
        read and not yet pushed.

        Over PIM-Trees, threads take tasks of ``task_rows`` rows each from a common queue and share
        the trees, and matches come in the order of arrival. Setting `threads` meanwhile lets
        threads join or leave.

        >>> from streamjoin import CountWindow
        >>> join = StreamJoin(on="l.x = r.x", window=CountWindow(100), cores=2, ordered="outer")
        >>> rows = [pa.table({"x": [number]}) for number in (1, 2)]
        >>> [part.rows.num_rows for part in join.stream((each, each) for each in rows)]
        [1, 1]
        """
        self._begin()
        if type(task_rows) is not int or task_rows < 1:
            raise StreamJoinError(f"task_rows={task_rows!r}: give a number of rows from 1")
        if not isinstance(source, Iterable):
            raise StreamJoinError(
                f"source={source!r} gives nothing; pass something to iterate over, such as a list "
                "of pairs (left, right)"
            )
        steps = (sides_of(each) for each in source)
        while self._engine is None and (sides := next(steps, None)) is not None:
            yield from self._punctuated(self._deliveries(*sides))
        engine = self._engine
        if engine is not None and (threads := threads_of(engine, task_rows)) is not None:
            yield from self._pipeline(engine, threads, steps)
        for sides in steps:
            yield from self._punctuated(self._deliveries(*sides))
        if self._engine is not None and self._engine.collector.count:
            delivered = self._engine.flush()
            yield from self._punctuated(delivered)
            self._report(lambda: self._table([]))

    def _punctuated(self, delivered: list[Delivery]) -> Iterator[Punctuated]:
        for delivery in delivered:
            assert self.schema is not None
            yield Punctuated.of(delivery, self.schema)

    def _pipeline(
        self, engine: Engine, join: Streaming, steps: Iterator[tuple[Any, Any]]
    ) -> Iterator[Punctuated]:
        """Read the rest of a source ahead of its results."""

        def send(sides: tuple[Any, Any]) -> None:
            batches, _ = self._check(*sides)
            # Copies: the source may use its memory again before the cores are through with it.
            engine.submit({side: owned(batch) for side, batch in batches.items()})
            self._follow(engine)

        self._is_streaming, engine.streaming = True, join
        try:
            for delivery in Pipeline(engine, join, steps, send):
                yield Punctuated.of(delivery, engine.schema)
        finally:
            join.release()
            self._is_streaming, engine.streaming = False, None

    def find(self, left: Any = None, right: Any = None) -> Results:
        """Do as `push` does, but leave the matches where they are: count them, or fetch some.

        Rows that wait in batch mode are joined too. The results are good until the next push, find,
        flush or snapshot, in no order, and ``stats.matches`` does not count them.

        >>> from streamjoin import CountWindow
        >>> join = StreamJoin(on="l.x < r.x", window=CountWindow(1000))
        >>> _ = join.push(left=pa.table({"x": range(1000)}), right=pa.table({"x": [0]}))
        >>> join.find(right=pa.table({"x": range(500, 600)})).count()
        54950
        """
        self._begin()
        batches, is_self = self._check(left, right)
        if self._engine is None:  # rows that waited for the other side have matches too
            joined = self._table(self._push_first(batches, is_self))
            results = Results([], joined.schema, joined.to_batches())
        else:
            found = self._engine.find(batches)
            found += self._follow(self._engine, leave)
            self._results = results = Results(
                found, self._engine.schema, threads=self._config.threads
            )
        self._report(lambda: results)
        return results

    def flush(self) -> pa.Table:
        """Join the rows that wait in batch mode, and return their matches."""
        self._begin()
        if self._engine is None:
            return pa.schema([]).empty_table()
        joined = self._table(self._engine.flush())
        self._report(lambda: joined)
        return joined

    def _push(self, engine: Engine, batches: dict[Side, pa.RecordBatch]) -> list[Delivery]:
        """Join batches at once or, in batch mode, once there are enough."""
        if not engine.collector.is_on:
            return list(engine.flow(batches))
        engine.collect({side: owned(batch) for side, batch in batches.items()})
        return engine.flush() if engine.collector.is_due else []

    def _begin(self) -> None:
        """Close what another call may have left open, or refuse to go on beside it."""
        self._refuse_beside_stream()
        self._close_results()

    def _refuse_beside_stream(self) -> None:
        if self._is_streaming:
            raise StreamJoinError(
                "this join is reading a source; take all that stream() yields, or close() it, "
                "before you use the join otherwise"
            )

    def _close_results(self) -> None:
        if self._results is not None:
            self._results.close()
            self._results = None

    def _check(self, left: Any, right: Any) -> tuple[dict[Side, pa.RecordBatch], bool]:
        """Return what was pushed as batches, and whether both are one."""
        is_self = left is right and left is not None
        batches: dict[Side, pa.RecordBatch] = {}
        if left is not None:
            batches["left"] = as_batch(left)
        if right is not None:  # a reader can be read only once
            batches["right"] = batches["left"] if is_self else as_batch(right)
        for side, batch in batches.items():
            self._opening.check(side, batch.schema)
        if self._engine is not None and self._engine.is_self_join and batches and not is_self:
            raise StreamJoinError(
                "this join began as a self-join, with the same batch as left and right; go on so, "
                "or make another StreamJoin whose first push has two different objects"
            )
        return batches, is_self

    def _push_first(self, batches: dict[Side, pa.RecordBatch], is_self: bool) -> list[Delivery]:
        """Hold batches back until both schemas are known, then go through them all."""
        opening = self._opening
        schemas = opening.schemas | {side: batch.schema for side, batch in batches.items()}
        if len(schemas) < 2:
            opening.hold(batches)
            return []
        engine = self._config.make_engine(schemas, is_self=is_self and not opening.has_rows)
        delivered = []
        for step in opening.steps:
            try:
                delivered += self._replay(engine, step)
            except StreamJoinError as error:
                opening.steps.remove(step)
                error.add_note("this is about rows pushed earlier, which are dropped; push again")
                raise
        delivered += self._replay(engine, Step(batches))
        self._opening, self._engine = Opening(schemas), engine
        return delivered

    def _replay(self, engine: Engine, step: Step) -> list[Delivery]:
        delivered = self._push(engine, step.batches)
        if step.watermark is not None:
            delivered += engine.advance(to_key(step.watermark, time_type(engine.plan)))
        if step.is_last:
            delivered += [*engine.flush(), *engine.finish()]
        return delivered + self._follow(engine)

    def _follow(self, engine: Engine, deliver: Deliver | None = None) -> list[Any]:
        if self._config.delay_us is None:
            return []
        return engine.follow(ticks(self._config.delay_us, engine.plan), deliver)

    def advance(self, watermark: Any) -> pa.Table:
        """Tell that no rows before ``watermark`` will come: what only they would meet is dropped.

        Returns the matches of the tumbling or session windows that close thereby; a sliding window
        has given its matches already. Rows before the watermark that come all the same are late:
        they match nothing and are counted. Takes a datetime, date or integer (milliseconds), as
        the time columns are; it never moves back.

        >>> from streamjoin import TumblingWindow
        >>> join = StreamJoin(on="l.id = r.id", window=TumblingWindow("1 minute"), time="t")
        >>> rows = pa.table({"id": [1, 1], "t": [59_000, 60_000]})
        >>> join.push(left=rows, right=rows.slice(0, 1)).num_rows, join.advance(60_000).num_rows
        (0, 1)
        """
        if isinstance(self._config.window, CountWindow):
            self._refuse_beside_stream()
            raise WindowError(
                f"a watermark has no meaning for {self._config.window}; rows leave a count window "
                "when newer ones come"
            )
        if self._engine is None:
            self._refuse_beside_stream()
            self._opening.hold_watermark(watermark, self._config.time)
            return self._table([])
        if not self._engine.plan.closes:  # results of `find` stay good
            self._refuse_beside_stream()
            self._engine.advance(to_key(watermark, time_type(self._engine.plan)))
            return self._table([])
        self._begin()
        return self._table(self._engine.advance(to_key(watermark, time_type(self._engine.plan))))

    def finish(self) -> pa.Table:
        """Tell that no more rows will come: joins what waits, closes all windows.

        Returns the last matches. Rows that are pushed all the same are late.

        >>> from streamjoin import SessionWindow
        >>> join = StreamJoin(on="l.id = r.id", window=SessionWindow("1 minute"), time="t")
        >>> rows = pa.table({"id": [1, 1], "t": [0, 60_000]})
        >>> _ = join.push(left=rows, right=rows)
        >>> join.finish().num_rows
        4
        """
        self._begin()
        if self._engine is None:
            self._opening.hold_end()
            return self._table([])
        return self._table([*self._engine.flush(), *self._engine.finish()])

    @property
    def threads(self) -> int:
        """How many threads work on this join."""
        return self._config.threads

    @threads.setter
    def threads(self, threads: int | None) -> None:
        self._config = self._config.with_threads(threads)
        if self._engine is not None:
            self._engine.set_threads(self._config.threads_each)

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of the result; None until both streams have been seen."""
        return None if self._engine is None else self._engine.schema

    @property
    def stats(self) -> JoinStats:
        """Rows, matches, late rows, what is held now, and seconds by phase."""
        self._refuse_beside_stream()
        return self._opening.stats() if self._engine is None else JoinStats.of(self._engine)

    def snapshot(self) -> bytes:
        """Return the whole state, to go on from with `restore`, in this process or another."""
        self._begin()
        return snapshots.save(self._config, self._opening, self._engine)

    @classmethod
    def restore(cls, data: bytes) -> "StreamJoin":
        """Return a join that goes on where ``snapshot`` was taken."""
        join = cls.__new__(cls)
        join._results, join._is_streaming = None, False
        join._config, join._opening, join._engine = snapshots.load(data)
        return join
