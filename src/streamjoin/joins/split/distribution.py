"""The distribution tree (SplitJoin 4.3): everything goes to all join cores, in order of arrival.

The source's own thread is the root. If there are no more cores than its fanout, it puts work
straight into their inboxes; with more cores, inner nodes pass it on, each in its own thread::

                     source                       fanout 2, 4 cores
                   node   node                    the fanout grows before the depth does
              core 0  1   2  core 3

Nothing is copied: what is passed on is a reference.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TypeVar

from streamjoin.joins.messages import Work
from streamjoin.kernels.channels import Channel, ClosedError

T = TypeVar("T")


class Distributor:
    """A node of the tree, or its root."""

    def __init__(self, outlets: list[Channel[Work]]) -> None:
        self.outlets = outlets

    def send(self, work: Work) -> None:
        """Pass work on, after waiting for room."""
        for outlet in self.outlets:
            outlet.put(work)

    def relay(self, inlet: Channel[Work]) -> None:
        """Pass on everything received, until the channel is closed."""
        try:
            while True:
                self.send(inlet.get())
        except ClosedError:
            return


def grow(
    inboxes: list[Channel[Work]], fanout: int, depth: int
) -> tuple[Distributor, list[Channel[Work]], list[Callable[[], None]]]:
    """Return the root over these inboxes, the channels of inner nodes, and their threads."""
    channels: list[Channel[Work]] = []
    threads: list[Callable[[], None]] = []
    level = inboxes
    while len(level) > fanout:
        above = []
        for group in group_evenly(level, fanout):
            node, inlet = Distributor(group), Channel[Work](depth)
            threads.append(partial(node.relay, inlet))
            above.append(inlet)
        channels += above
        level = above
    return Distributor(level), channels, threads


def group_evenly(items: list[T], fanout: int) -> list[list[T]]:
    """Divide items into as few groups of at most ``fanout`` as possible, of nearly equal size.

    >>> group_evenly([1, 2, 3, 4, 5], 4)
    [[1, 2], [3, 4, 5]]
    """
    count = -(-len(items) // fanout)
    ends = [len(items) * number // count for number in range(count + 1)]
    return [items[first:last] for first, last in pairwise(ends)]
