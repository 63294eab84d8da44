"""Synthetic streams for the benchmarks, and an engine that runs over a full window of them."""

from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np
import pyarrow as pa

from streamjoin.indexes.protocol import Index
from streamjoin.joins.build import make_engine
from streamjoin.joins.candidates import Found, checked
from streamjoin.joins.deliver import Delivery
from streamjoin.joins.engine import Engine
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.arrivals import number_step
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import prepare
from streamjoin.windows import CountWindow

SPAN = 1 << 40  # keys are uniform in [0, SPAN)
SCHEMA = pa.schema({"x": pa.int64(), "id": pa.int64()})
FILL = 1 << 18  # rows a batch while a window is filled


def uniform_batch(rng: np.random.Generator, rows: int, span: int = SPAN) -> pa.RecordBatch:
    """Return rows with a uniform key ``x`` and a payload ``id``."""
    return pa.record_batch({"x": rng.integers(0, span, rows), "id": np.arange(rows)}, schema=SCHEMA)


def band_for(rows: int, matches: float) -> str:
    """Return the band under which a row meets ``matches`` of ``rows`` uniform rows."""
    return f"abs(l.x - r.x) <= {max(int(SPAN / rows * matches / 2), 0)}"


def pair_ids(found: Found, schema: pa.Schema) -> Iterator[Delivery]:
    """Write every match out as a pair of row ids, and fetch no columns."""
    yield Delivery(sum(probes.size for probes, _ in checked(found)))


class FullWindow:
    """A join over two full count windows, by a band if ``on`` says nothing else.

    Each step pushes a batch of either stream.
    """

    def __init__(
        self,
        window: int,
        batch: int,
        matches: float,
        algorithm: str,
        deliver: Callable[[Found, pa.Schema], Iterator[Delivery]],
        seed: int,
        threads: int = 2,
        make_index: Callable[[int], Index] | None = None,
        on: str | None = None,
        span: int = SPAN,
    ) -> None:
        self.window, self.batch = CountWindow(window), batch
        on = on or band_for(window, matches)
        config = JoinOptions.check(on, self.window, algorithm=algorithm, threads=threads)
        self.engine: Engine = make_engine(config, dict.fromkeys(SIDES, SCHEMA), deliver=deliver)
        if make_index is not None:
            for chain in self.engine.chains.values():
                chain.make_index = lambda _, capacity: make_index(capacity)
        rng = np.random.default_rng(seed)
        for first in range(0, window, FILL):
            self._fill(uniform_batch(rng, min(FILL, window - first), span))
        steps = [{side: uniform_batch(rng, batch, span) for side in SIDES} for _ in range(8)]
        self.steps: Iterator[dict[Side, pa.RecordBatch]] = cycle(steps)

    def _fill(self, batch: pa.RecordBatch) -> None:
        """Insert a batch into both chains without probing, which a nested loop cannot afford."""
        engine, arrived = self.engine, self.engine.counters.rows
        prepared = {side: prepare(engine.plan, side, batch) for side in SIDES}
        counts = dict.fromkeys(SIDES, batch.num_rows)
        number_step(prepared, counts, arrived, {}, engine.plan.counted)
        engine.manager.insert(list(prepared.values()))
        for side in SIDES:
            arrived[side] += batch.num_rows

    def run(self, steps: int) -> None:
        """Push ``steps`` batches of each stream."""
        for _ in range(steps):
            self.engine.push(next(self.steps))

    def raw_bytes(self) -> int:
        """Bytes of the window's keys and row ids and of its columns, and nothing else."""
        row = 8 + 4 + sum(field.type.bit_width // 8 for field in SCHEMA)
        return row * (self.window.left + self.window.right)

    def live_bytes(self) -> int:
        """Bytes that the engine holds."""
        return sum(chain.nbytes for chain in self.engine.chains.values())
