"""Joins over full windows for SplitJoin's figures, and the sources that drive them.

A `Bed` is a join in one of four forms, with its windows filled without looking for matches (a
nested loop could not afford it) by the way each form stores rows::

    split        SplitJoin on ``cores`` threads; also with one core
    round robin  the same, but the turns to store are one row long, as in the paper
    handshake    the chain of `handshake`
    plain        no executor: the join in one piece, probing with ``cores`` threads

Left and right batches come in turns, one a step. Keys of the two streams are drawn apart, and there
are as many different batches as fill a window, so a window has none twice; ``matches`` tells how
many a row really found.

A closed loop sends as fast as the channels take it. An open loop sends every batch at its scheduled
time, whether or not the ones before it are through; where it cannot, because the channels are full,
the batch waits at the source, and its latency counts from the schedule all the same (otherwise a
slow join would choose when it is asked: coordinated omission).
"""

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count, cycle, takewhile
from threading import Thread
from time import perf_counter, sleep
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks.harness.full_windows import FILL_ROWS, fill_windows, make_join
from benchmarks.harness.scale import Sized
from benchmarks.harness.workloads import SCHEMA, SPAN, band_for
from benchmarks.splitjoin.handshake import Handshake
from streamjoin.joins.engine import Engine
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.sliding.sizes import Sizes
from streamjoin.joins.split.executor import SplitExecutor, Timing
from streamjoin.keys.operands import Side
from streamjoin.options.values import Ordered
from streamjoin.plans.plan import SIDES
from streamjoin.windows import CountWindow, TimeWindow

SECONDS = Sized(full=2.0, quick=0.1)  # of a run that counts for a claim
FEW = 8  # different batches of each stream, at least
FEWEST = 4  # batches of a run
TIMED = SCHEMA.append(pa.field("t", pa.timestamp("us")))
Form = Literal["split", "round robin", "handshake", "plain"]


@dataclass(frozen=True)
class Load:
    """What is joined: so many rows of each stream in a window, that come in batches."""

    algorithm: str
    window: int
    batch: int
    matches: float = 2.0
    timed: bool = False
    seed: int = 1

    @property
    def windowing(self) -> CountWindow | TimeWindow:
        """The window; in a timed one, a row comes every microsecond."""
        if not self.timed:
            return CountWindow(self.window)
        span = timedelta(microseconds=self.window)
        return TimeWindow(before=span, after=span)

    @property
    def name(self) -> str:
        """What the algorithm is called."""
        return {"scan": "nested loop", "bi_sort": "BI-Sort"}[self.algorithm]

    @property
    def slug(self) -> str:
        """The same in file names."""
        return {"scan": "nested_loop"}.get(self.algorithm, self.algorithm)

    def __str__(self) -> str:
        return f"{self.name}, {'time' if self.timed else 'count'} windows of {self.window:,}"


def name_cores(cores: int) -> str:
    """Return a number of cores as text.

    >>> name_cores(1), name_cores(2)
    ('1 core', '2 cores')
    """
    return f"{cores} core{'s' * (cores != 1)}"


class Source:
    """Batches of both streams in turns, for ever."""

    def __init__(self, load: Load) -> None:
        self.load, self.rng = load, np.random.default_rng(load.seed)
        distinct = max(load.window // load.batch, FEW)
        self.keys: dict[Side, Iterator[pa.Array]] = {
            side: cycle([self._draw(load.batch) for _ in range(distinct)]) for side in SIDES
        }
        self.ids = pa.array(np.arange(load.batch))
        self.arrived = dict.fromkeys(SIDES, 0)
        self.sides: Iterator[Side] = cycle(SIDES)

    def _draw(self, rows: int) -> pa.Array:
        return pa.array(self.rng.integers(0, SPAN, rows))

    def filling(self) -> Iterator[dict[Side, pa.RecordBatch]]:
        """Yield what fills the windows."""
        for first in range(0, self.load.window, FILL_ROWS):
            rows = min(FILL_ROWS, self.load.window - first)
            ids = pa.array(np.arange(rows))
            yield {side: self._batch(side, self._draw(rows), ids) for side in SIDES}

    def next(self) -> dict[Side, pa.RecordBatch]:
        """Return the next batch."""
        side = next(self.sides)
        return {side: self._batch(side, next(self.keys[side]), self.ids)}

    def _batch(self, side: Side, keys: pa.Array, ids: pa.Array) -> pa.RecordBatch:
        first = self.arrived[side]
        self.arrived[side] += len(keys)
        if not self.load.timed:
            return pa.RecordBatch.from_arrays([keys, ids], schema=SCHEMA)
        times = pa.array(np.arange(first, first + len(keys))).cast(pa.timestamp("us"))
        return pa.RecordBatch.from_arrays([keys, ids, times], schema=TIMED)


@dataclass(frozen=True)
class Passage:
    """When a batch should have come, and what became of it."""

    scheduled: float
    timing: Timing


class Bed:
    """A join over full windows; the module docstring tells its forms."""

    def __init__(
        self, load: Load, cores: int = 1, ordered: Ordered = "none", form: Form = "split"
    ) -> None:
        self.load, self.source = load, Source(load)
        self.engine = make_form(load, cores, ordered, form)
        self.rows = self.found = 0  # of all runs
        for batches in self.source.filling():
            fill_windows(self.engine, batches)

    @property
    def matches(self) -> float:
        """How many matches a row found."""
        return self.found / max(self.rows, 1)

    @property
    def join(self) -> SplitExecutor | Handshake:
        """The executor, where there is one."""
        assert isinstance(self.engine.executor, SplitExecutor | Handshake)
        return self.engine.executor

    def close(self) -> None:
        """End the threads."""
        if not isinstance(self.engine.executor, Manager):
            self.join.stop()

    def rate(self, seconds: float) -> float:
        """Return the rows of both streams that a closed loop joins in a second."""
        gc.collect()
        begin = perf_counter()

        def goes_on(number: Any) -> bool:
            return number < FEWEST or perf_counter() - begin < seconds

        sent = self._run(takewhile(goes_on, count()))
        return sent * self.load.batch / (perf_counter() - begin)

    def paced(self, rate: float, batches: int) -> list[Passage]:
        """Let batches come at a steady rate, in rows a second, and return how they fared."""
        gc.collect()
        self.join.timings.clear()
        begin = perf_counter() + 0.01
        schedule = [begin + number * self.load.batch / rate for number in range(batches)]

        def due() -> Iterator[float]:
            for moment in schedule:
                sleep(max(moment - perf_counter(), 0))
                yield moment

        self._run(due())
        timings = sorted(self.join.timings, key=lambda timing: timing.step)
        return [Passage(*each) for each in zip(schedule, timings, strict=False)]

    def _run(self, ticks: Iterable[object]) -> int:
        """Send a batch for each tick, take all results, and return how many batches were sent."""
        before, failures = self.rows, list[BaseException]()
        if isinstance(self.engine.executor, Manager):
            for _ in ticks:
                self.found += sum(
                    each.matches for each in self.engine.push_iter(self.source.next())
                )
                self._follow()
            return (self.rows - before) // self.load.batch

        def read() -> None:
            try:
                for _ in ticks:
                    self.engine.submit(self.source.next())
                    self._follow()
            except BaseException as error:
                failures.append(error)
            self.join.submit_last()

        Thread(target=read, name="benchmark source", daemon=True).start()
        for gathered in self.join.gathered():
            self.found += sum(delivery.matches for delivery in gathered.found)
            if gathered.ends and gathered.step.is_last:
                break
        for error in failures:
            raise error
        return (self.rows - before) // self.load.batch

    def _follow(self) -> None:
        self.rows += self.load.batch
        if self.load.timed:
            self.engine.follow(0)


def make_form(load: Load, cores: int, ordered: Ordered, form: Form) -> Engine:
    """Return the engine of a join in one of the four forms, its windows empty."""
    split = 1 if form == "plain" else cores
    engine = make_join(
        band_for(load.window, load.matches),
        load.windowing,
        TIMED if load.timed else SCHEMA,
        "t" if load.timed else None,
        algorithm=load.algorithm,
        threads=cores,
        cores=split,
        ordered="outer" if form == "handshake" else ordered,  # whose rows are always numbered
    )
    if isinstance(engine.executor, Manager) and form != "plain":
        engine.executor = SplitExecutor([engine.executor], None, engine.schema)
    if form == "handshake":
        assert isinstance(engine.executor, SplitExecutor)
        engine.executor = Handshake([core.manager for core in engine.executor.cores])
    if form == "round robin":
        assert isinstance(engine.executor, SplitExecutor)
        take_turns_by_row(engine.executor)
    return engine


def take_turns_by_row(join: SplitExecutor) -> None:
    """Make turns one row long; subwindows become shorter instead, as every core gets a share."""
    for core in join.cores:
        core.sizes = {side: Sizes(most=1) for side in SIDES}
        for chain in core.manager.chains.values():
            most = max(chain.sizes.most // len(join.cores), 1)
            chain.sizes = replace(chain.sizes, most=most)
