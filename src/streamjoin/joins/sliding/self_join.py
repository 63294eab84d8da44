"""A stream joined with itself: rows are stored once, and where it is the same, probed once.

Both roles of a row have the same keys if each part has the same expression on both sides, as in
``abs(l.x - r.x) <= 5`` or ``l.a < r.a``. Then one chain serves as the left and as the right
window. If the condition and the window are symmetric too, (a, b) matches whenever (b, a) does, so
the batch probes once and each match counts for both::

    symmetric     B -> chain, each match twice     B -> B     insert B
    otherwise     B as left -> chain     B as right -> chain     B -> B     insert B
"""

from collections.abc import Iterator, Mapping
from typing import Any

from streamjoin.joins.executor import Batches, Deliver
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager, Target
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import JoinPlan


class SelfJoin(Manager):
    """A manager whose two chains are one; ``symmetric`` tells that one probe finds both."""

    @property
    def is_self_join(self) -> bool:
        """Whether both sides are one stream, stored once; they are."""
        return True

    def __init__(
        self,
        plan: JoinPlan,
        chains: dict[Side, Chain],
        deliver: Deliver,
        threads: int,
        chooses: bool,
        symmetric: bool,
    ) -> None:
        super().__init__(
            plan, {"left": chains["left"], "right": chains["left"]}, deliver, threads, chooses
        )
        self.symmetric = symmetric

    def probe(
        self,
        batches: Batches,
        interleaved: bool = False,
        deliver: Deliver | None = None,
    ) -> Iterator[Any]:
        """Look for the matches of one batch, in both roles, among the rows so far and its own."""
        if not batches or not len(batches["left"]):
            return
        self.learn(batches)
        left, right = batches["left"], batches["right"]
        right.share_order(left)
        chain = self.chains["left"]
        self.sort_batches([left])
        yield from self.probe_targets([(left, chain)], deliver, mirrored=self.symmetric)
        targets: list[Target] = [] if self.symmetric else [(right, chain)]
        targets.append((right, [chain.standalone_subwindow(left)]))
        if interleaved:
            targets.append((left, [chain.standalone_subwindow(right)]))
        yield from self.probe_targets(targets, deliver)

    def insert(self, batches: Batches) -> None:
        """Insert the batch once."""
        if batches:
            super().insert({"left": batches["left"]})

    def expire_before(self, bounds: Mapping[Side, int]) -> None:
        """Drop what neither role needs."""
        if bounds:
            super().expire_before({"left": min(bounds.values())})
