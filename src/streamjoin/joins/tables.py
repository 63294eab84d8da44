"""Two finite tables: one is sorted into an index, the other probes it, both with all threads.

The same plan, kernels and candidate checks as for streams, in one step and with nothing to expire.
The two sorts, which take most of the time, run side by side.
"""

from typing import Any

import pyarrow as pa

from streamjoin.joins.choosing import choose, choose_order
from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import Deliver
from streamjoin.joins.prepared import prepare
from streamjoin.keys.operands import OTHER, Side


def join_batches(
    engine: Engine, batches: dict[Side, pa.RecordBatch], deliver: Deliver | None = None
) -> list[Any]:
    """Join two batches without a window, or within a time window; see `Manager.probe`."""
    plan = engine.plan
    sides: list[Side] = ["left", "right"]
    prepared = {side: prepare(plan, side, batches[side]) for side in sides}
    stored: Side = min(sides, key=lambda side: len(prepared[side]))
    probing = OTHER[stored]
    if not len(prepared[stored]):
        return []
    chain = engine.chains[stored]
    samples = {side: batch.keys.sample() for side, batch in prepared.items()}
    if engine.manager.chooses:
        choose(chain, stored, samples, len(prepared[probing]), len(prepared[stored]))
    else:
        choose_order(chain, stored, samples)
    engine.chains[probing].layout = chain.layout
    engine.manager.sort(list(prepared.values()))
    asks = [(prepared[probing], [chain.alone(prepared[stored])])]
    return list(engine.manager.probe(asks, deliver))
