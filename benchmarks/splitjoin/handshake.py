"""The low-latency handshake join, SplitJoin's rival, as a baseline: the same cores in a chain.

(Roy, Teubner, Gemulla: Low-latency handshake join, VLDB 2014; SplitJoin figure 10 and 6.1.)

::

    left  ->  core 0  ->  core 1  ->  core 2        batches visit all cores, one after the other
              core 0  <-  core 1  <-  core 2  <-  right

    at a core    pass the batch on first (fast-forwarding)
                 probe this core's part of the other window
                 store the batch, if this is its home

The coordinator, the source's thread, numbers all batches, gives each a home in turns, and behind
each sends an explicit expiry message: what left the window of a stream may be dropped when the
batches of the *other* stream that were sent before have passed, so the message travels with those.

Batches cross in flight, so a core may see the later one first. A pair of batches is compared at the
home of the earlier one, E, and there exactly once, whichever of the two comes first::

    E, then X    X probes the window, and E is stored in it
    X, then E    X waits in a short buffer of passed batches; E, come home, is compared with it

Nowhere else: E is stored at its home only, and E itself never finds X, wherever X is stored, since
a row sees only rows that arrived before it (``Arrival.visible``). X may leave the buffer when all
messages that go E's way and were sent before X have passed: either X's own expiry message, which
goes that way, or a later batch. Looking after this buffer is the paper's T_ML.

Channels in both directions would block each other when both are full. So the coordinator has a
number of credits, takes one for each batch, and gets it back when all cores are through with it;
every inbox has room for all that can be on its way, and only the source ever waits.

Simplifications: a batch is stored whole by one core, the one whose turn its first row falls into
(the turns are SplitJoin's); rows of one step are not interleaved by order columns; a core that
fails is an error.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Semaphore, Thread
from time import perf_counter
from typing import Any
from weakref import finalize

import numpy as np

from streamjoin.joins.executor import Batches, Clock, Holdings, SlidingExecutor
from streamjoin.joins.messages import Gathered, Part, Problem, Span, Step
from streamjoin.joins.outcomes.outcome import Alone
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.split.executor import (
    CHANNEL_DEPTH,
    MOST_TIMINGS,
    Timing,
    close_channels,
    sum_by_name,
)
from streamjoin.joins.split.gathering import Mixer
from streamjoin.joins.split.losses import raise_error
from streamjoin.joins.split.turns import Turn, assign_turns
from streamjoin.kernels.channels import Channel, ClosedError
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared


@dataclass(frozen=True)
class Visit:
    """A batch on its way along the chain."""

    number: int  # among the batches of both streams
    step: Step
    batch: Prepared
    home: int

    @property
    def way(self) -> Side:
        """The stream whose direction it travels in."""
        return self.batch.side


@dataclass(frozen=True)
class Expiry:
    """Rows of one side before this ordinal, or time, are needed no more."""

    number: int  # of the batch that it follows
    side: Side
    before: int | None  # None: nothing is known yet

    @property
    def way(self) -> Side:
        """It travels with the stream that would look for these rows."""
        return OTHER[self.side]


Message = Visit | Expiry


class ChainedCore:
    """One core of the chain; it knows nothing of its neighbours."""

    def __init__(self, number: int, manager: Manager) -> None:
        self.number, self.manager = number, manager
        self.passed: dict[Side, deque[Visit]] = {side: deque() for side in SIDES}
        self.seen = dict.fromkeys(SIDES, 0)  # the last number that came each way
        self.crossings = 0  # batches that were compared after crossing in flight

    def run(
        self, inbox: Channel[Message], onward: dict[Side, Channel[Message]], outbox: Channel[Part]
    ) -> None:
        """Pass on and take what comes, until the channels are closed."""
        try:
            while True:
                message = inbox.get()
                if message.way in onward:
                    onward[message.way].put(message)
                for part in self.take(message):
                    outbox.put(part)
        except ClosedError:
            return

    def take(self, message: Message) -> Iterator[Part]:
        """Do what a message asks for."""
        self.seen[message.way] = message.number
        waiting = self.passed[OTHER[message.way]]
        while waiting and waiting[0].number <= message.number:
            waiting.popleft()
        if isinstance(message, Visit):
            yield from self._visit(message, list(waiting))
        elif message.before is not None:
            self.manager.expire_before({message.side: message.before})

    def _visit(self, visit: Visit, crossed: list[Visit]) -> Iterator[Part]:
        begun, problems = perf_counter(), []
        try:
            for found in self._search(visit, crossed):
                yield Part(visit.step, 0, {visit.way: [found]})
        except Exception as error:
            problems.append(Problem(self.number, error))
        span = Span(self.number, begun, perf_counter())
        yield Part(visit.step, 1, ends=True, problems=tuple(problems), spans=(span,))
        if visit.home == self.number:
            self.manager.insert({visit.way: visit.batch})
        elif newest := self.manager.chains[visit.way].subwindows[-1:]:
            newest[0].seal()  # its turn is over, as with SplitJoin's cores
        if self.seen[OTHER[visit.way]] < visit.number:
            self.passed[visit.way].append(visit)

    def _search(self, visit: Visit, crossed: list[Visit]) -> Iterator[Any]:
        is_home = visit.home == self.number
        none = np.broadcast_to(np.False_, len(visit.batch))
        batch = visit.batch.with_stored(None if is_home else none)
        yield from self.manager.probe({visit.way: batch})
        if is_home and crossed and len(batch):
            self.crossings += len(crossed)
            alone = self.manager.chains[visit.way].standalone_subwindow(batch)
            later = [(each.batch, [alone]) for each in crossed if len(each.batch)]
            yield from self.manager.probe_targets(later)


class Handshake(SlidingExecutor):
    """The chain, its coordinator and its collector, as an executor of the engine."""

    def __init__(self, managers: Sequence[Manager], depth: int = CHANNEL_DEPTH) -> None:
        self.cores = [ChainedCore(number, each) for number, each in enumerate(managers)]
        self.credits = credits_of(len(self.cores), depth)
        self.timings: deque[Timing] = deque(maxlen=MOST_TIMINGS)
        self._free = Semaphore(self.credits)
        self._turns = {side: Turn() for side in SIDES}
        self._number = 0
        self._sent: dict[int, float] = {}
        # A batch is two messages.
        self._inboxes = [Channel[Message](2 * self.credits) for _ in self.cores]
        self._outbox = Channel[Part](depth * len(self.cores))
        self._collector = Mixer(self._outbox, len(self.cores))
        self._is_running = False

    def _start(self) -> None:
        """Start the threads, unless they run already."""
        if self._is_running:
            return
        self._is_running = True
        for core, inbox in zip(self.cores, self._inboxes, strict=True):
            onward: dict[Side, Channel[Message]] = {}
            if core.number + 1 < len(self.cores):
                onward["left"] = self._inboxes[core.number + 1]
            if core.number > 0:
                onward["right"] = self._inboxes[core.number - 1]
            args = (inbox, onward, self._outbox)
            Thread(target=core.run, args=args, name="handshake core", daemon=True).start()
        channels: list[Channel[Any]] = [*self._inboxes, self._outbox]
        self._stop = finalize(self, close_channels, channels)

    def stop(self) -> None:
        """End the threads; there is no way back."""
        if self._is_running:
            self._stop()

    def fill(self, batches: Batches) -> None:
        """Store batches at their homes without looking for matches, before anything is sent."""
        for side, batch in batches.items():
            self.cores[self._home(side, batch)].manager.insert_batches([batch])

    def messages(self, batches: Batches, clock: Clock) -> Iterator[Message]:
        """Number batches, give each a home, and put its expiry message behind it."""
        for side in SIDES:
            batch = batches.get(side)
            if batch is None:
                continue
            self._number += 1
            step = Step(self._number, {side: batch})
            yield Visit(self._number, step, batch, self._home(side, batch))
            yield Expiry(self._number, side, self._needed_from(side, clock))

    def _home(self, side: Side, batch: Prepared) -> int:
        sizes = self.cores[0].manager.chains[side].sizes
        turns, self._turns[side] = assign_turns(self._turns[side], sizes, batch)
        first = int(turns[0]) if turns.size else self._turns[side].number
        return whose_turn(first, side, len(self.cores))

    def _needed_from(self, side: Side, clock: Clock) -> int | None:
        plan = self.cores[0].manager.plan
        if plan.counted is not None:
            return clock.arrived[side] - plan.counted[side]
        if clock.watermark is None:
            return None
        return plan.needed_from(clock.watermark)[side]

    def submit(self, batches: Batches, interleaved: bool, clock: Clock) -> None:
        """Send batches and their expiry messages into the chain, after waiting for credits."""
        assert not interleaved
        self._start()
        chains = self.cores[0].manager.chains
        for batch in batches.values():
            for side in SIDES if len(batch) and len(self.cores) > 1 else ():
                batch.sorted_rows(chains[side].layout)  # sorted once for all cores
        for message in self.messages(batches, clock):
            if isinstance(message, Visit):
                self._free.acquire()
                self._sent[message.number] = perf_counter()
            self._inboxes[0 if message.way == "left" else -1].put(message)

    def submit_last(self) -> None:
        """Wait until all that was sent is through, and put an empty step behind it."""
        self._start()
        for _ in range(self.credits):
            self._free.acquire()
        self._number += 1
        self._sent[self._number] = perf_counter()
        last = Part(Step(self._number, {}, is_last=True), 1, ends=True)
        for core in self.cores:
            self._outbox.put(replace(last, spans=(Span(core.number, perf_counter(), 0.0),)))
        self._free.release(self.credits - 1)  # the last one comes back when this is gathered

    def gathered(self) -> Iterator[Gathered]:
        """Yield whatever comes, for ever."""
        self._start()
        while True:
            gathered = self._collector.take()
            if gathered.ends:
                number = gathered.step.number
                sent = self._sent.pop(number)
                self.timings.append(Timing(number, sent, gathered.spans, perf_counter()))
                self._free.release()
                raise_error(gathered.problems)
            yield gathered

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase, all cores together."""
        return sum_by_name([core.manager.seconds for core in self.cores])

    @property
    def commands(self) -> dict[str, int]:
        """Commands that the cores have carried out, by kind."""
        return sum_by_name([core.manager.commands for core in self.cores])

    @property
    def streaming(self) -> Any:
        """The chain itself: batches are always in flight here."""
        return self

    @property
    def chain_pairs(self) -> list[dict[Side, Chain]]:
        """The chains of every core."""
        return [core.manager.chains for core in self.cores]

    def probe(self, *_: Any) -> Iterator[Any]:
        """Refuse: batches are always in flight here."""
        raise NotImplementedError("the handshake join only takes what is submitted")

    insert: Any = probe

    def would_expire(self, clock: Clock) -> bool:
        """Whether `expire` changes anything; it never does."""
        return False

    @property
    def holdings(self) -> Holdings:
        """What all cores hold."""
        return Holdings.of(self.chain_pairs)

    @property
    def nbytes(self) -> int:
        """Bytes that all chains hold."""
        return self.holdings.nbytes

    def take_due(self, clock: Clock) -> Iterator[Alone]:
        """Give nothing: only inner joins are compared."""
        return iter(())

    def take_early(self, bound: int) -> Iterator[Alone]:
        """Give nothing."""
        return iter(())

    def expire(self, clock: Clock) -> None:
        """Nothing: the next batch's expiry message tells how far the streams have come."""

    def set_threads(self, threads: int) -> None:
        """Every node is a thread of its own, whatever is asked for."""

    def take_inserted(self) -> list[Prepared]:
        """Return nothing: what cores insert is not written down."""
        return []


def whose_turn(turn: int, side: Side, cores: int) -> int:
    """Return the core that stores in a turn; the right stream's are half a round ahead."""
    return (turn + SIDES.index(side) * (cores // 2)) % cores


def credits_of(cores: int, depth: int) -> int:
    """Return how many may be in flight: as with SplitJoin, and a few for the chain's length."""
    return 2 * (depth + 1) + cores // 4
