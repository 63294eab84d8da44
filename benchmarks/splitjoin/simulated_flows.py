"""The two flows of the simulation: SplitJoin's trees, and the handshake join's chain.

The distribution and the gathering tree have the shape of the real ones (``group_evenly``). A merger
waits for the parts of all its inputs before it works on a batch; the collector of the chain takes
part after part.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from benchmarks.splitjoin.simulation import Costs, Flow, Machine, Message, Node, Serve
from streamjoin.joins.split.distribution import group_evenly
from streamjoin.plans.limits import DEFAULT_LIMITS
from streamjoin.plans.plan import SUBWINDOWS_PER_WINDOW


class SplitFlow(Flow):
    """Source, distribution tree, cores, gathering tree."""

    def __init__(
        self,
        cores: int,
        costs: Costs,
        turn: float = 1.0,
        fanouts: tuple[int, int] = (8, 8),
        machine: Machine | None = None,
    ) -> None:
        super().__init__(cores, costs, turn, machine or Machine())
        self.cores = [Node(self.machine, partial(self._join, number)) for number in range(cores)]
        level = self.cores
        while len(level) > fanouts[0]:
            level = [
                self._node(partial(self._relay, group)) for group in group_evenly(level, fanouts[0])
            ]
        self.roots = level
        self.above: dict[int, tuple[Gate, Node]] = {}  # by node, the one its results go to
        level = self.cores
        while len(level) > fanouts[1]:
            level = [
                self._merger(group, 1 / len(level)) for group in group_evenly(level, fanouts[1])
            ]
        self._merger(level, None)

    def _node(self, serve: Serve) -> Node:
        return Node(self.machine, serve)

    def _merger(self, inputs: list[Node], part: float | None) -> Node:
        """Put a merger over nodes; ``part`` is the part of the matches each has, None the root."""
        node = self._node(lambda message: self._merge(node, len(inputs), part, message))
        gate = Gate(len(inputs))
        for each in inputs:
            self.above[id(each)] = gate, node
        return node

    def distribute(self, message: Message) -> None:
        """Send a message to the root's outlets."""
        for node in self.roots:
            self.send(node, message)

    def _relay(self, outlets: list[Node], message: Message) -> Iterator[float]:
        yield 0.0
        for node in outlets:
            self.send(node, message)

    def _join(self, number: int, message: Message) -> Iterator[float]:
        yield from self.search(message, number)
        self._send_up(self.cores[number], message)
        yield self.costs.tidy + self.costs.store * self.share(message, number)

    def _merge(
        self, node: Node, inputs: int, part: float | None, message: Message
    ) -> Iterator[float]:
        yield self.costs.collect * inputs
        if part is None:
            yield self.costs.merge + self.costs.finish
            self.finish(message)
        else:
            yield self.costs.merge * part * inputs
            self._send_up(node, message)

    def _send_up(self, node: Node, message: Message) -> None:
        gate, above = self.above[id(node)]
        self.machine.after(self.costs.hop, lambda: gate.let_through(message, above))


class Gate:
    """Lets a message through when it has come from all inputs."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.come: Counter[int] = Counter()  # inputs, by message

    def let_through(self, message: Message, node: Node) -> None:
        """Note that a message has come from one more input; if it is the last, send it on."""
        self.come[message.number] += 1
        if self.come[message.number] == self.inputs:
            del self.come[message.number]
            node.take(message)


class HandshakeFlow(Flow):
    """Coordinator, chain, and one collector for all cores."""

    def __init__(
        self, cores: int, costs: Costs, turn: float = 1.0, machine: Machine | None = None
    ) -> None:
        super().__init__(cores, costs, turn, machine or Machine())
        self.cores = [Node(self.machine, partial(self._visit, number)) for number in range(cores)]
        self.collector = Node(self.machine, self._collect)
        # The last batch of either stream that each core has seen.
        self.seen = [{True: -1, False: -1} for _ in range(cores)]

    def distribute(self, message: Message) -> None:
        """Send a batch into the chain, and its expiry message from the other end."""
        first, last = self.cores[0], self.cores[-1]
        expiry = Message(message.number, is_expiry=True)
        self.send(first if message.is_left else last, message)
        self.send(last if message.is_left else first, expiry)

    def _visit(self, number: int, message: Message) -> Iterator[float]:
        step = 1 if message.is_left != message.is_expiry else -1  # which goes the other way
        if not message.is_expiry and 0 <= number - step < self.count:
            yield self.costs.monitor  # of what a neighbour sends, as in equation (1)
        if 0 <= number + step < self.count:
            self.send(self.cores[number + step], message)
        if message.is_expiry:
            yield self.costs.expire
            return
        yield from self.search(message, number)
        self.send(self.collector, message)
        share = self.share(message, number)
        seen = self.seen[number]
        crossed = max(seen[not message.is_left] - message.number + 1, 0) // 2
        yield self.costs.tidy + share * (self.costs.store + crossed * self.costs.crossing)
        seen[message.is_left] = message.number

    def _collect(self, message: Message) -> Iterator[float]:
        yield self.costs.collect
        message.parts += 1
        if message.parts == self.count:
            self.finish(message)


def turn_length(window: int, batch: int, cores: int) -> float:
    """Return how many batches a turn lasts: until a subwindow of a count window is full."""
    share = window / max(cores, SUBWINDOWS_PER_WINDOW)
    return max(share, DEFAULT_LIMITS.least_counted_rows) / batch


def run_closed_loop(flow: Flow, messages: int, at_once: int) -> float:
    """Keep ``at_once`` messages on their way; return how many come out in a second.

    In a run that is short beside a long chain, one stream is through before the other has come
    everywhere, and more seems to come out than the cores can do for long; so it is no more than the
    busiest node can do.
    """
    sent = 0

    def send() -> None:
        nonlocal sent
        if sent < messages:
            flow.source.take(Message(sent, flow.machine.now))
            sent += 1

    flow.when_finished = send
    for _ in range(min(at_once, messages)):
        send()
    flow.machine.run()
    times = sorted(message.gathered for message in flow.finished)
    warm = len(times) // 4
    steady = (len(times) - 1 - warm) / (times[-1] - times[warm])
    return min(steady, len(times) / flow.machine.least)


def run_open_loop(flow: Flow, messages: int, rate: float) -> list[Message]:
    """Let messages come at a steady rate; return them with their times, after the first quarter."""
    for number in range(messages):
        message = Message(number, number / rate)
        flow.machine.after(message.scheduled, partial(flow.source.take, message))
    flow.machine.run()
    return sorted(flow.finished, key=lambda message: message.number)[messages // 4 :]
