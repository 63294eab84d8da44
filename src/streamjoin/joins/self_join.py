"""A stream joined with itself: rows are stored once, and where it is the same, probed once.

Both roles of a row have the same keys if each part has the same expression on both sides, as in
``abs(l.x - r.x) <= 5`` or ``l.a < r.a``. Then one chain serves as the left and as the right
window. If the condition and the window are symmetric too, (a, b) matches whenever (b, a) does, so
the batch probes once and each match counts for both::

    symmetric     B -> chain, each match twice     B -> B     insert B
    otherwise     B as left -> chain     B as right -> chain     B -> B     insert B
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from streamjoin.joins.candidates import Found
from streamjoin.joins.chain import Chain
from streamjoin.joins.plan import JoinPlan
from streamjoin.joins.prepared import Prepared
from streamjoin.joins.sliding import Probe, SlidingJoin
from streamjoin.kernels import Flags
from streamjoin.keys.operands import Side

T = TypeVar("T")


class SelfJoin(SlidingJoin[T]):
    """A sliding join whose two chains are one; ``symmetric`` tells that one probe finds both."""

    def __init__(
        self,
        plan: JoinPlan,
        chains: dict[Side, Chain],
        deliver: Callable[[Found], Iterator[T]],
        threads: int,
        symmetric: bool,
    ) -> None:
        super().__init__(plan, chains, deliver, threads)
        self.symmetric = symmetric

    def step(
        self,
        batches: Mapping[Side, Prepared],
        interleaved: bool = False,
        stored: Mapping[Side, Flags] | None = None,
    ) -> Iterator[T]:
        """Join one batch, given in both roles, with the rows so far and with itself."""
        assert stored is None  # a distributed join stores each role by itself
        if not batches or not len(batches["left"]):
            return
        left, right = batches["left"], batches["right"]
        right.share_order(left)
        chain = self.chains["left"]
        self.sort([left])
        probes = [Probe(left, chain, mirrored=self.symmetric)]
        if not self.symmetric:
            probes.append(Probe(right, chain))
        probes.append(Probe(right, [chain.alone(left)]))
        if interleaved:
            probes.append(Probe(left, [chain.alone(right)]))
        yield from self.probe(probes)
        self.insert([left])
