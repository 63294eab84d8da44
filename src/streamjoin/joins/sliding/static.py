"""Two finite tables: one is sorted into an index, the other probes it, both with all threads.

The same plan, kernels and candidate checks as for streams, in one step and with nothing to expire.
The two sorts, which take most of the time, run side by side.
"""

from collections.abc import Iterator
from typing import Any

from streamjoin.joins.executor import Deliver
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.manager import Manager
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared


def choose_chain(manager: Manager, stored: Prepared, probing: Prepared) -> Chain:
    """Return the chain of the stored side, set up for all of its rows and probes of this size."""
    chain = manager.chains[stored.side]
    samples = {batch.side: batch.keys.sample() for batch in (stored, probing)}
    if manager.chooses:
        chain.choose(stored.side, samples, len(probing), len(stored))
    else:
        chain.choose_order(stored.side, samples)
    manager.chains[probing.side].layout = chain.layout
    return chain


def join_prepared(
    manager: Manager,
    batches: dict[Side, Prepared],
    deliver: Deliver | None = None,
    held: Side | None = None,
) -> Iterator[Any]:
    """Join two batches, neither of them stored before; see `Manager.probe_targets`.

    The smaller one is, unless it matters which side probes.
    """
    stored = min(SIDES, key=lambda side: len(batches[side])) if held is None else held
    probing = OTHER[stored]
    if not len(batches[stored]):
        return
    chain = choose_chain(manager, batches[stored], batches[probing])
    manager.sort_batches(list(batches.values()))
    own = chain.standalone_subwindow(batches[stored])
    yield from manager.probe_targets([(batches[probing], [own])], deliver)
