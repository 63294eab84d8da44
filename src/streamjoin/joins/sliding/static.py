"""Two finite tables: one is sorted into an index, the other probes it, both with all threads.

The same plan, kernels and candidate checks as for streams, in one step and with nothing to expire.
The two sorts, which take most of the time, run side by side.
"""

from collections.abc import Iterator
from typing import Any

from streamjoin.joins.executor import Deliver
from streamjoin.joins.sliding.manager import Manager
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared


def join_prepared(
    manager: Manager, batches: dict[Side, Prepared], deliver: Deliver | None = None
) -> Iterator[Any]:
    """Join two batches, neither of them stored; see `Manager.probe`."""
    stored: Side = min(SIDES, key=lambda side: len(batches[side]))
    probing = OTHER[stored]
    if not len(batches[stored]):
        return
    chain = manager.chains[stored]
    samples = {side: batch.keys.sample() for side, batch in batches.items()}
    if manager.chooses:
        chain.choose(stored, samples, len(batches[probing]), len(batches[stored]))
    else:
        chain.choose_order(stored, samples)
    manager.chains[probing].layout = chain.layout
    manager.sort(list(batches.values()))
    yield from manager.probe([(batches[probing], [chain.alone(batches[stored])])], deliver)
