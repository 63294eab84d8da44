"""A simulation of SplitJoin and of the handshake join, for more cores than this machine has.

Messages are batches. Every node (source, distributor, core, merger, collector) is a server that
takes messages first in, first out; what a node does with a message is a generator that yields
seconds of work, and sends in between. From node to node a message takes ``hop`` seconds::

    def core(message):                      source --hop--> distributor --hop--> core 0
        yield costs.search                                              --hop--> core 1
        send the matches up
        yield costs.store                   core 0, core 1 --hop--> merger --hop--> combiner

Work needs a processor. With ``processors=None`` every node has its own; with a number, all nodes
that have work share so many evenly, as threads share them under a fair scheduler: when n of them
work on p < n processors each proceeds at the speed p / n. `Machine` keeps a clock of work done that
runs at that speed, so the order in which work ends never changes while others come and go.

In an idle system a message takes exactly what the paper's equations say (section 6): (5) and (6)
for SplitJoin, (1) and (2) for the handshake join, `processing_latency` and `visiting_latency`. One
departure: the equations have no hop where there is one core; here it is a hop away as well.

Channels have no bound here; in a closed loop only so many messages are on their way.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from streamjoin.joins.split.distribution import group_evenly

Action = Callable[[], None]
Serve = Callable[["Message"], Iterator[float]]


@dataclass(frozen=True)
class Costs:
    """Seconds that each thing takes; ``search`` is the paper's w times T_P."""

    hop: float  # T_CL: from node to node
    search: float  # a core's part of the other window
    extra: float = 0.0  # the core that stores the other stream now: it has old and new rows of it
    prepare: float = 0.0  # keys and order, at the source
    store: float = 0.0  # one batch, by the core whose turn it is
    tidy: float = 0.0  # after a batch, at each core: sealing and expiring
    collect: float = 0.0  # a merger, or the chain's collector, for each part that comes
    merge: float = 0.0  # a merger, for all matches of a batch; one with fewer takes its share
    finish: float = 0.0  # the last merger besides
    monitor: float = 0.0  # T_ML: a chained core, before it passes on what a neighbour sent
    crossing: float = 0.0  # comparing with one batch that was crossed in flight
    expire: float = 0.0  # an expiry message, at each core


@dataclass
class Message:
    """A batch, or an expiry message behind one, and when it was where."""

    number: int
    scheduled: float = 0.0
    spans: list[tuple[float, float]] = field(default_factory=list)  # searching, at each core
    gathered: float = 0.0
    parts: int = 0
    is_expiry: bool = False

    @property
    def is_left(self) -> bool:
        """Whether its batch is one of the left stream; they take turns."""
        return self.number % 2 == 0

    @property
    def slowest(self) -> tuple[float, float]:
        """The span of the core that ended last."""
        return max(self.spans, key=lambda span: span[1])

    @property
    def latency(self) -> float:
        """From its scheduled time until its matches are gathered."""
        return self.gathered - self.scheduled

    @property
    def visiting(self) -> float:
        """How long a row waits on average until another is compared with it."""
        middles = [(begun + ended) / 2 for begun, ended in self.spans]
        return sum(middles) / len(middles) - self.scheduled


class Machine:
    """The clock, what happens when, and the processors."""

    def __init__(self, processors: int | None = None) -> None:
        self.processors, self.now, self.worked = processors, 0.0, 0.0
        self._events: list[tuple[float, int, Action]] = []
        self._work: list[tuple[float, int, Action]] = []  # by how far ``worked`` must get
        self._ties = count()
        self.nodes: list[Node] = []

    def after(self, seconds: float, action: Action) -> None:
        """Have something happen later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._ties), action))

    def work(self, seconds: float, action: Action) -> None:
        """Have something happen after so much work."""
        heapq.heappush(self._work, (self.worked + seconds, next(self._ties), action))

    @property
    def speed(self) -> float:
        """How fast every node that works proceeds."""
        working = len(self._work)
        if self.processors is None or working <= self.processors:
            return 1.0
        return self.processors / working

    @property
    def least(self) -> float:
        """Seconds that the busiest node, or all of them on these processors, need at least."""
        works = [node.worked for node in self.nodes]
        return max(max(works), sum(works) / (self.processors or len(works)))

    def run(self) -> None:
        """Let everything happen."""
        while self._events or self._work:
            speed = self.speed
            ends = self.now + (self._work[0][0] - self.worked) / speed if self._work else None
            if ends is None or (self._events and self._events[0][0] <= ends):
                moment, _, action = heapq.heappop(self._events)
                self.worked += (moment - self.now) * speed
            else:
                moment = ends
                self.worked, _, action = heapq.heappop(self._work)
            self.now = moment
            action()


class Node:
    """A server: one message after the other, in the order they come."""

    def __init__(self, machine: Machine, serve: Serve) -> None:
        self.machine, self.serve = machine, serve
        self.waiting: deque[Message] = deque()
        self.is_busy = False
        self.served: list[Message] = []
        self.worked = 0.0  # seconds
        machine.nodes.append(self)

    def take(self, message: Message) -> None:
        """Let a message wait for its turn."""
        self.waiting.append(message)
        if not self.is_busy:
            self._begin()

    def _begin(self) -> None:
        message = self.waiting.popleft()
        self.is_busy = True
        self.served.append(message)
        self._go_on(self.serve(message))

    def _go_on(self, service: Iterator[float]) -> None:
        seconds = next(service, None)
        if seconds is not None:
            self.worked += seconds
            self.machine.work(seconds, lambda: self._go_on(service))
            return
        self.is_busy = False
        if self.waiting:
            self._begin()


class Flow:
    """What both flows have: a source, join cores, and a list of what came out."""

    def __init__(self, cores: int, costs: Costs, turn: float, machine: Machine) -> None:
        self.count, self.costs, self.turn, self.machine = cores, costs, turn, machine
        self.finished: list[Message] = []
        self.when_finished: Action = lambda: None
        self.source = Node(machine, self._prepare)

    def _prepare(self, message: Message) -> Iterator[float]:
        yield self.costs.prepare
        self.distribute(message)

    def distribute(self, message: Message) -> None:
        """Send a message towards the cores."""
        raise NotImplementedError

    def send(self, node: Node, message: Message) -> None:
        """Send a message to another node."""
        self.machine.after(self.costs.hop, lambda: node.take(message))

    def share(self, message: Message, core: int) -> float:
        """Return how much of a batch a core stores; a turn is ``turn`` batches long, or shorter."""
        ahead = 0 if message.is_left else self.count // 2
        place = message.number // 2
        if self.turn >= 1:
            return float((int(place / self.turn) + ahead) % self.count == core)
        first = int(place / self.turn) + ahead
        rounds, rest = divmod(round(1 / self.turn), self.count)
        return (rounds + ((core - first) % self.count < rest)) * self.turn

    def search(self, message: Message, core: int) -> Iterator[float]:
        """Search, and note when."""
        begun, other = self.machine.now, Message(message.number ^ 1)
        yield self.costs.search + self.costs.extra * self.share(other, core)
        message.spans.append((begun, self.machine.now))

    def finish(self, message: Message) -> None:
        """Note that a message has come out."""
        message.gathered = self.machine.now
        self.finished.append(message)
        self.when_finished()


def processing_latency(flow: str, cores: int, fanouts: tuple[int, int], costs: Costs) -> float:
    """Return the time of a batch in an idle system: equations (5) and (1)."""
    if flow == "handshake":
        chain = costs.hop + (cores - 1) * (costs.hop + costs.monitor)
        return chain + costs.search + costs.hop
    down, up = (depth(cores, fanout) for fanout in fanouts)
    return costs.hop * down + costs.search + costs.hop * up


def visiting_latency(flow: str, cores: int, fanouts: tuple[int, int], costs: Costs) -> float:
    """Return the mean time until two rows are compared: equations (6) and (2).

    The paper rounds the way to the middle of the chain down to whole hops; this is the mean itself.
    """
    if flow == "handshake":
        chain = costs.hop + (cores - 1) / 2 * (costs.hop + costs.monitor)
        return chain + costs.search / 2
    return costs.hop * depth(cores, fanouts[0]) + costs.search / 2


def depth(leaves: int, fanout: int) -> int:
    """Return the levels of a tree; one leaf is a hop away too.

    >>> [depth(leaves, 8) for leaves in (1, 2, 8, 9, 64, 1024)]
    [1, 1, 1, 2, 2, 4]
    """
    levels = 1
    while leaves > fanout:
        leaves, levels = len(group_evenly(list(range(leaves)), fanout)), levels + 1
    return levels
