"""The gathering tree (SplitJoin 5): puts the matches of all join cores in order, by stars.

Every core sends its matches in order of arrival, with a *star* after those of each row, which says
that they are complete. A merger waits for each input's star, orders the matches before the earliest
of these stars, and passes them on with that star; a combiner merges the matches that left and right
rows have found::

    core 0     l0r1 * l0r2 l2r2 *
    core 1     *      l1r2      *             merged   l0r1 * l0r2 l1r2 l2r2 *

There is no star after every single row: a part of many rows carries one, the arrival up to which
its input is complete. Ordering the part (`arranging`) gives the same result as passing on each row
and each star. ``Punctuated.stars`` writes out all stars.

Without an order, nothing waits: all cores put their parts into one channel.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.joins.messages import Gathered, Part, Problem, Span, Step
from streamjoin.joins.ordering.arranging import (
    add_probing_columns,
    arrange,
    interleave,
    name_half,
    places_of,
)
from streamjoin.joins.ordering.punctuation import Stars
from streamjoin.joins.pairs.deliver import Delivery
from streamjoin.joins.split.distribution import group_evenly
from streamjoin.kernels.channels import Channel, ClosedError
from streamjoin.keys.operands import Side
from streamjoin.options.ordering import Ordering
from streamjoin.plans.plan import SIDES

Star = tuple[int, int]  # a step, and the arrival up to which it is complete
NOBODY = -1  # no core's problem


class Gatherer(Protocol):
    """The root of a gathering tree."""

    def take(self) -> Gathered:
        """Wait for the next results, and return them."""
        ...


class Mixer:
    """Results without order, as they come; a step ends with the last core's last part."""

    def __init__(self, inlet: Channel[Part], cores: int) -> None:
        self.inlet, self.cores = inlet, cores
        self.endings: dict[int, list[Part]] = {}  # of steps that some cores have ended

    def take(self) -> Gathered:
        """Return the next part."""
        part = self.inlet.get()
        step, found = part.step, [each for side in part.found.values() for each in side]
        if not part.ends:
            return Gathered(step, step.first, step.first, found, ends=False)
        endings = self.endings.setdefault(step.number, [])
        endings.append(part)
        if len(endings) < self.cores:
            return Gathered(step, step.first, step.first, found, ends=False)
        del self.endings[step.number]
        problems = tuple(problem for each in endings for problem in each.problems)
        spans = tuple(span for each in endings for span in each.spans)
        return Gathered(step, step.first, step.last, found, True, problems, spans)


class Merger:
    """A node of the tree: several inputs, each in order, become one."""

    def __init__(self, inlets: list[Channel[Part]], ordering: Ordering) -> None:
        self.inlets, self.ordering = inlets, ordering
        self.stars: list[Star] = [(0, 0)] * len(inlets)
        self.star: Star = (0, 0)  # the earliest one; everything before it has been passed on
        self.steps: dict[int, Step] = {}
        self.held: dict[Side, list[Any]] = {side: [] for side in SIDES}
        self.problems: list[Problem] = []
        self.spans: list[Span] = []

    def take(self) -> Part:
        """Wait for each input's star; return the matches before the earliest."""
        for number, inlet in enumerate(self.inlets):
            if self.stars[number] == self.star:
                part = inlet.get()
                self.stars[number] = (part.step.number, part.upto)
                self.steps[part.step.number] = part.step
                for side, found in part.found.items():
                    self.held[side] += found
                self.problems += part.problems
                self.spans += part.spans
        self.star = min(self.stars)
        number, upto = self.star
        step = self.steps[number]
        part = Part(step, upto, {side: self._release(step, side, upto) for side in SIDES})
        if upto < step.last:
            return part
        del self.steps[number]
        told = tuple(self.problems), tuple(self.spans)
        self.problems, self.spans = [], []
        return replace(part, ends=True, problems=told[0], spans=told[1])

    def _release(self, step: Step, side: Side, upto: int) -> list[Any]:
        """Return the matches before the star, in order, and keep the rest."""
        held, self.held[side] = self.held[side], []
        if not held or step.deliver is not None:
            return held  # nothing, or matches that nobody fetches yet
        try:
            half = arrange(held, self.ordering)
        except Exception as error:  # no memory, say; the thread that waits for this node must know
            self.problems.append(Problem(NOBODY, error))
            return []
        if upto == step.last:
            return [half]
        end = np.searchsorted(step.arrivals(side), upto)
        count = int(np.searchsorted(places_of(half, self.ordering), end))
        self.held[side] = [half.slice(count)] if count < half.num_rows else []
        return [half.slice(0, count)] if count else []

    def relay(self, outlet: Channel[Part]) -> None:
        """Pass on merged parts, until a channel is closed."""
        try:
            while True:
                outlet.put(self.take())
        except ClosedError:
            return


class Combiner:
    """The root: merges the matches of left and right rows, in order of arrival."""

    def __init__(self, merger: Merger, schema: pa.Schema) -> None:
        self.merger, self.schema = merger, schema
        self.star: Star = (0, 0)

    def take(self) -> Gathered:
        """Return the next results, both sides together."""
        part = self.merger.take()
        number, since = self.star
        if part.step.number > number:  # rows that were not stored before come again
            since = part.step.first
        self.star = part.step.number, part.upto
        if part.step.deliver is not None:
            found = [each for side in part.found.values() for each in side]
        else:
            found = [self._combine(part, since)]
        return Gathered(part.step, since, part.upto, found, part.ends, part.problems, part.spans)

    def _combine(self, part: Part, since: int) -> Delivery:
        """Complete both sides; concatenate them, or merge them if the order asks for it."""
        ordering, step = self.merger.ordering, part.step
        halves = [(side, half) for side, found in part.found.items() for half in found]
        batches = [
            add_probing_columns(half, step.batches[side], ordering, self.schema)
            for side, half in halves
        ]
        places = tuple((side, places_of(half, ordering)) for side, half in halves)
        if step.interleaved and len(batches) == 2:
            batches = [interleave(batches, [step.arrivals(*each) for each in places])]
        stars = Stars(step.batches, since, part.upto, places)
        named = (name_half(half, step.batches[side], ordering) for side, half in halves)
        pairs = tuple(each for every in named for each in every)
        return Delivery(sum(batch.num_rows for batch in batches), batches, stars, pairs)


def grow(
    outboxes: list[Channel[Part]],
    ordering: Ordering,
    schema: pa.Schema,
    fanout: int,
    depth: int,
) -> tuple[Combiner, list[Channel[Part]], list[Callable[[], None]]]:
    """Return the root over these outboxes, the channels of inner nodes, and their threads."""
    channels: list[Channel[Part]] = []
    threads: list[Callable[[], None]] = []
    level = outboxes
    while len(level) > fanout:
        below = []
        for group in group_evenly(level, fanout):
            node, outlet = Merger(group, ordering), Channel[Part](depth)
            threads.append(partial(node.relay, outlet))
            below.append(outlet)
        channels += below
        level = below
    return Combiner(Merger(level, ordering), schema), channels, threads
