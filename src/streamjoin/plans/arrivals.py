"""Arrival order: which place a row has in its stream and among both, and whom it meets.

Rows arrive by batch, within a step by the ``order`` columns if there are any, and left before
right. A row with ordinal p of its stream meets the last n rows of the other stream that arrived
before it::

    left     a0          a1  a2              CountWindow(left=2, right=2)
    right        b0  b1          b2  b3
    meets        a0  a0  b0  b0  a1  a1      a2 meets b0, b1; b2 and b3 meet a1, a2
                         b1  b1  a2  a2

Rows that cannot match, with a NULL key say, still count.
"""

from collections.abc import Mapping

import numpy as np

from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.prepared import Arrival, Prepared

Batches = Mapping[Side, Prepared]
Counts = Mapping[Side, int]
Orders = dict[Side, Keys]  # the order keys of each batch's rows, ascending


def number_step(
    batches: Batches, counts: Counts, arrived: Counts, orders: Orders, window: Counts | None
) -> None:
    """Number the rows of one step; ``counts`` are the batches' rows, matching or not.

    Each row gets its place in its stream, its arrival among both, and the places of the other
    stream that it meets: those before it, in a count window the last of them.
    """
    first = sum(arrived.values())
    for side, batch in batches.items():
        other = OTHER[side]
        places = batch.places
        before = others_before(side, counts, orders)
        if not isinstance(before, int):
            before = before[places]
        batch.ordinals = arrived[side] + places
        met = arrived[other] + before + np.zeros_like(places)
        oldest = np.zeros_like(met) if window is None else met - window[other]
        batch.arrival = Arrival(first + places + before, (oldest, met - 1))


def others_before(side: Side, counts: Counts, orders: Orders) -> Keys | int:
    """Return how many rows of the other stream come before each of these, in the same step."""
    other = OTHER[side]
    if len(orders) == 2:
        # On equal order keys, left comes before right.
        return np.searchsorted(orders[other], orders[side], side=side)
    return counts.get(other, 0) if side == "right" else 0
