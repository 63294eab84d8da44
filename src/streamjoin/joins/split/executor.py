"""SplitJoin as an executor of the engine: cores, the two trees, and the threads they run on.

::

    source -> distribution tree -> join cores -> gathering tree -> consumer
              (its root: the       (a thread      (its root: the
               source's thread)     each)          consumer's thread)

Between any two threads there is a channel of bounded depth, so a slow thread slows down those
before it. A step either waits, probing in all cores before any of them inserts it (`probe`, then
`insert`), or follows others into the channels without waiting (`submit`, while another thread takes
what is `gathered`). Threads start with the first step, and end when the executor is stopped or
garbage-collected.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from threading import Lock, Thread
from time import perf_counter
from typing import Any, TypeVar
from weakref import finalize

import pyarrow as pa

from streamjoin.errors import CoreError
from streamjoin.joins.executor import Batches, Clock, CoreReport, Deliver, Holdings, SlidingExecutor
from streamjoin.joins.messages import Gathered, Part, Problem, Span, Step, Work
from streamjoin.joins.outcomes.outcome import Alone
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.split import distribution, gathering
from streamjoin.joins.split.core import Core
from streamjoin.joins.split.gathering import Gatherer, Mixer
from streamjoin.joins.split.losses import describe_losses, raise_error
from streamjoin.joins.split.turns import Turn
from streamjoin.kernels.channels import Channel
from streamjoin.kernels.forks import refuse_elsewhere
from streamjoin.kernels.interrupts import lend
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.ordering import Ordering
from streamjoin.plans.prepared import Prepared

N = TypeVar("N", int, float)
FANOUT = 8  # of both trees
CHANNEL_DEPTH = 4  # steps on their way down, parts on their way up
MOST_TIMINGS = 1 << 14  # steps whose times are kept


@dataclass(frozen=True)
class Timing:
    """When a step went through the stages, by `time.perf_counter`."""

    step: int
    sent: float
    spans: tuple[Span, ...]  # of each core
    gathered: float


class SplitExecutor(SlidingExecutor):
    """Join cores with a part of the windows each; the module docstring gives the design."""

    def __init__(
        self,
        managers: Sequence[Manager],
        ordering: Ordering | None,
        schema: pa.Schema,
        fanout: int = FANOUT,
        depth: int = CHANNEL_DEPTH,
    ) -> None:
        self.ordering, self.schema, self.fanout, self.depth = ordering, schema, fanout, depth
        sizes = {side: chain.sizes for side, chain in managers[0].chains.items()}
        self.cores = [
            Core(number, manager, sizes, ordering) for number, manager in enumerate(managers)
        ]
        self.living = tuple(range(len(self.cores)))
        self.timings: deque[Timing] = deque(maxlen=MOST_TIMINGS)
        self._starting = Lock()
        self._sending = Lock()  # so that all cores get everything in the same order
        self._process: int | None = None  # the process in which the threads run
        self._steps = 0
        self._arrived = 0
        self._sent: dict[int, float] = {}
        self._probing: Step | None = None  # until its last match has been gathered
        self._losses: list[Problem] = []
        self._distributor: distribution.Distributor | None = None
        self._gatherer: Gatherer | None = None

    def _start(self) -> tuple[distribution.Distributor, Gatherer]:
        """Start the threads unless they run; either source or consumer may be the first to ask."""
        if self._process is not None:
            refuse_elsewhere(self._process)
        with self._starting:
            if self._distributor is None or self._gatherer is None:
                self._distributor, self._gatherer = self._build()
            return self._distributor, self._gatherer

    def _build(self) -> tuple[distribution.Distributor, Gatherer]:
        """Build the trees and start their threads."""
        self._process = os.getpid()
        inboxes = [Channel[Work](self.depth) for _ in self.cores]
        outboxes = [Channel[Part](self.depth) for _ in self.cores]
        root, downward, relays = distribution.grow(inboxes, self.fanout, self.depth)
        upward: list[Channel[Part]] = []
        if self.ordering is None:
            outboxes = [Channel[Part](self.depth * len(self.cores))] * len(self.cores)
            gatherer: Gatherer = Mixer(outboxes[0], len(self.cores))
        else:
            tree = gathering.grow(outboxes, self.ordering, self.schema, self.fanout, self.depth)
            gatherer, upward, mergers = tree
            relays += mergers
        for core, inbox, outbox in zip(self.cores, inboxes, outboxes, strict=True):
            name = f"streamjoin core {core.number}"
            Thread(target=core.run, args=(inbox, outbox), name=name, daemon=True).start()
        for relay in relays:
            Thread(target=relay, name="streamjoin tree", daemon=True).start()
        channels: list[Channel[Any]] = [*inboxes, *outboxes, *downward, *upward]
        self._stop = finalize(self, close_channels, channels)
        return root, gatherer

    def stop(self) -> None:
        """End the threads for good."""
        if self._distributor is not None:
            self._stop()

    # What an engine uses.

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase, all cores together."""
        return sum_by_name([core.manager.seconds for core in self.cores])

    @property
    def commands(self) -> dict[str, int]:
        """Commands that the cores have carried out, by kind."""
        return sum_by_name([core.manager.commands for core in self.cores])

    @property
    def streaming(self) -> "SplitExecutor":
        """The executor itself: cores need not wait for each other."""
        return self

    @property
    def chain_pairs(self) -> list[dict[Side, Chain]]:
        """The chains of every core, once all have done what they were sent."""
        self.wait()
        return [pair for core in self.cores for pair in core.manager.chain_pairs]

    def take_inserted(self) -> list[Prepared]:
        """Return what the cores have inserted by their last step, once."""
        self.wait()
        return [batch for core in self.cores for batch in core.manager.take_inserted()]

    def report_cores(self) -> list[CoreReport]:
        """Report what each core holds, and how long it has worked."""
        return [core.report() for core in self.cores]

    @property
    def turns(self) -> dict[Side, dict[str, int]]:
        """Whose turn it is to store; all cores agree on it."""
        self.wait()
        return {side: asdict(turn) for side, turn in self.cores[0].turns.items()}

    def restore_turns(self, saved: dict[Side, dict[str, int]]) -> None:
        """Continue with saved turns."""
        for core in self.cores:
            core.turns = {side: Turn(**turn) for side, turn in saved.items()}

    def wait(self) -> None:
        """Wait until all cores have done what they were sent."""
        if self._distributor is not None:
            self._drop_rest()
            self._drain(self._send({}, is_last=True))

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Have all cores look for matches, and yield them in order."""
        self._drop_rest()
        self._probing = step = self._send(batches, interleaved, deliver)
        for gathered in self.gathered():
            if gathered.step is step:
                if gathered.ends:
                    self._probing = None
                yield from gathered.found
                raise_error(gathered.problems)
                if gathered.ends:
                    return

    def insert(self, batches: Batches) -> None:
        """Have the cores whose turn it is store the rows that probed last."""
        distributor, _ = self._start()
        _, self._arrived = self._span(batches)
        with self._sending:
            distributor.send(Work(self.living, inserts=True))

    @property
    def holdings(self) -> Holdings:
        """What all cores hold."""
        self.wait()
        return Holdings.of([core.manager.chains for core in self.cores])

    @property
    def nbytes(self) -> int:
        """Bytes that all chains hold."""
        return self.holdings.nbytes

    def take_due(self, clock: Clock) -> Iterator[Alone]:
        """Settle what is due in all cores."""
        self.wait()
        for core in self.cores:  # restored ones too, which no step has reached so far
            yield from core.manager.take_due(clock)

    def take_early(self, bound: int) -> Iterator[Alone]:
        """Give what is not settled in any core."""
        self.wait()
        for core in self.cores:
            yield from core.manager.take_early(bound)

    def expire(self, clock: Clock) -> None:
        """Tell all cores how far the streams have progressed."""
        if self._distributor is not None:
            distributor, _ = self._start()
            self._drop_rest()
            with self._sending:
                distributor.send(Work(self.living, clock=clock))

    # Steps that do not wait for each other.

    def submit(self, batches: Batches, interleaved: bool, clock: Clock) -> None:
        """Send a step on its way, to probe, insert and then expire rows."""
        self._send(batches, interleaved, clock=clock)

    def submit_last(self) -> None:
        """Send an empty step: when it has been gathered, so have all before it."""
        self._send({}, is_last=True)

    def set_threads(self, threads: int) -> None:
        """Give each core another number of threads from now on."""
        for core in self.cores:
            core.manager.set_threads(threads)

    def release(self) -> None:
        """Keep the threads: cores own their part of the windows for good."""

    def gathered(self) -> Iterator[Gathered]:
        """Yield everything gathered, for ever."""
        _, gatherer = self._start()
        while True:
            gathered = gatherer.take()
            if gathered.ends:
                number = gathered.step.number
                sent = self._sent.pop(number)
                self.timings.append(Timing(number, sent, gathered.spans, perf_counter()))
                self._bury([each for each in gathered.problems if each.lost is not None])
            yield gathered

    def _drop_rest(self) -> None:
        """Drop the rest of an interrupted probe, so that cores do not wait for room for ever."""
        if self._probing is not None:
            self._drain(self._probing)
            self._probing = None

    def _drain(self, step: Step) -> None:
        """Wait for the end of a step, and drop what is gathered until then."""
        for gathered in self.gathered():
            if gathered.step is step and gathered.ends:
                return

    def _send(
        self,
        batches: Batches,
        interleaved: bool = False,
        deliver: Deliver | None = None,
        clock: Clock | None = None,
        is_last: bool = False,
    ) -> Step:
        """Send a step to all cores; with a clock, they also store its rows."""
        distributor, _ = self._start()
        self.sort_batches(batches)
        with self._sending:
            step = self.next_step(batches, interleaved, deliver, is_last)
            if clock is not None:
                self._arrived = step.last
                step = replace(step, clock=clock)
            self._sent[step.number] = perf_counter()
            distributor.send(Work(self.living, step, inserts=clock is not None, clock=clock))
        return step

    def next_step(
        self, batches: Batches, interleaved: bool, deliver: Deliver | None, is_last: bool
    ) -> Step:
        """Number a step, and note its arrivals."""
        self._steps += 1
        step = Step(self._steps, batches, interleaved, deliver=deliver, is_last=is_last)
        step = replace(step, holder=lend())
        if self.ordering is not None:
            first, last = self._span(batches)
            step = replace(step, first=first, last=last)
        return step

    def _span(self, batches: Batches) -> tuple[int, int]:
        """Return between which arrivals rows lie; without rows, where the streams stand."""
        numbered = [batch for batch in batches.values() if len(batch) and batch.arrival is not None]
        arrivals = [batch.arrivals for batch in numbered]
        first = min((int(each[0]) for each in arrivals), default=self._arrived)
        last = max((int(each[-1]) + 1 for each in arrivals), default=first)
        return first, last

    def sort_batches(self, batches: Batches) -> None:
        """Sort batches once for all cores, by their present layouts."""
        chains = self.cores[0].manager.chains
        if len(self.cores) > 1:
            for side, batch in batches.items():
                if len(batch):
                    batch.sort(chains[OTHER[side]].layout)
                    batch.sort(chains[side].layout)

    def _bury(self, dead: list[Problem]) -> None:
        """Distribute rows over the remaining cores from now on."""
        self._losses += dead
        numbers = {each.core for each in dead}
        self.living = tuple(each for each in self.living if each not in numbers)

    def report(self) -> None:
        """Raise if cores have died and it was not reported yet, or if none is left."""
        if self._losses:
            losses, self._losses = self._losses, []
            raise describe_losses(losses, len(self.living), len(self.cores)) from losses[0].error
        if not self.living:
            count = len(self.cores)
            raise CoreError(
                f"all {count} cores of this join have died, so it stores and finds nothing; "
                "restore a snapshot, or make a new join",
                tuple(range(count)),
            )


def sum_by_name(every: Sequence[Mapping[str, N]]) -> dict[str, N]:
    """Add up numbers by name."""
    names = sorted({name for each in every for name in each})
    return {name: sum((each.get(name, 0) for each in every), start=0) for name in names}


def close_channels(channels: list[Channel[Any]]) -> None:
    """Close channels, so that the threads between them end."""
    for channel in channels:
        channel.close()
