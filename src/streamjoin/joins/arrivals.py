"""Arrival order, for count windows: which place a row has in its stream, and whom it meets.

Rows arrive by batch, within a step by the ``order`` columns if there are any, and left before
right. A row with ordinal p of its stream meets the last n rows of the other stream that arrived
before it::

    left     a0          a1  a2              CountWindow(left=2, right=2)
    right        b0  b1          b2  b3
    meets        a0  a0  b0  b0  a1  a1      a2 meets b0, b1; b2 and b3 meet a1, a2
                         b1  b1  a2  a2

Rows that cannot match, with a NULL key say, still count.
"""

import numpy as np

from streamjoin.joins.prepared import Prepared
from streamjoin.kernels import Keys
from streamjoin.keys.operands import OTHER, Side
from streamjoin.windows import CountWindow

Orders = dict[Side, Keys]  # the order keys of each batch's rows, ascending


def number_rows(batch: Prepared, arrived: int, met: Keys | int, size: int) -> None:
    """Give each row its ordinal, and the ordinals it meets: the ``size`` before ``met``."""
    if batch.positions is None:
        batch.ordinals = np.arange(arrived, arrived + len(batch))
    else:
        batch.ordinals = arrived + batch.positions
    if isinstance(met, int):
        batch.visible = (np.full(len(batch), met - size), np.full(len(batch), met - 1))
    else:
        met = met if batch.positions is None else met[batch.positions]
        batch.visible = (met - size, met - 1)


def number_step(
    window: CountWindow,
    batches: dict[Side, Prepared],
    counts: dict[Side, int],
    arrived: dict[Side, int],
    orders: Orders,
) -> None:
    """Number the rows of one step; ``counts`` are the batches' rows, matching or not."""
    sizes: dict[Side, int] = {"left": window.left, "right": window.right}
    for side, batch in batches.items():
        other = OTHER[side]
        met: Keys | int = arrived[other]
        if len(orders) == 2:
            # On equal order keys, left comes before right.
            met = arrived[other] + np.searchsorted(orders[other], orders[side], side=side)
        elif side == "right":
            met = arrived[other] + counts.get(other, 0)
        number_rows(batch, arrived[side], met, sizes[other])
