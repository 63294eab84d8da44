"""Calibration: how long each structure takes per row, by batch size and by matches.

A subwindow is filled in batches of one size, then probed in batches of that size. A row costs one
insert and `SEARCHES` probes, with pairs written out, as in a join. These costs give the thresholds
of the choice: the batch size and the number of matches from which BI-Sort is never beaten.
`structure_costs` measures the constants of the cost model, and `window_costs` the costs of joining
windows by equality.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from time import perf_counter

import numpy as np
from rich.table import Table

from streamjoin.calibration.structure_costs import measure_costs
from streamjoin.calibration.window_costs import measure_windows
from streamjoin.choice.calibration_file import Calibration
from streamjoin.choice.structure_costs import Costs
from streamjoin.choice.window_costs import SIZES, WindowCosts
from streamjoin.indexes.catalogue import ALGORITHMS, SUBWINDOWS, kind_of
from streamjoin.indexes.protocol import Index
from streamjoin.kernels.compile import Keys

STRUCTURES = tuple(name for name in SUBWINDOWS if ALGORITHMS[name].in_auto)
SPAN = 1 << 40
SEARCHES = 2  # subwindows that a row probes
BATCHES = (16, 64, 256, 1024, 4096, 16_384, 65_536)
MATCHES = (1, 4, 16, 64, 256, 1024)
SMALL_BATCH = 64  # at which matches are varied
MARGIN = 0.95  # a structure beats another one by more than noise
CALLS, SECONDS = 400, 0.15  # at most, per measurement


@dataclass(frozen=True)
class Cost:
    """The cost of a structure, in nanoseconds per row."""

    structure: str
    batch: int
    matches: int
    insert: float
    probe: float

    def __str__(self) -> str:
        return f"{self.structure}, batches of {self.batch:,} rows, {self.matches:,} matches"

    @property
    def total(self) -> float:
        """One insert, and some probes."""
        return self.insert + SEARCHES * self.probe


def calibrate(
    rows: int = 1 << 20, seed: int = 1, note: Callable[[object], None] | None = None
) -> tuple[Calibration, list[Cost]]:
    """Measure the structures in a subwindow of ``rows`` rows, and derive the thresholds."""
    for name in STRUCTURES:  # compile what is going to be measured
        index, _ = fill(kind_of(name), np.arange(2 * BATCHES[0]), BATCHES[0])
        time_probes(index, np.random.default_rng(seed), BATCHES[0], 1, len(index))
    random = np.random.default_rng(seed)
    stored = random.integers(0, SPAN, rows)
    costs: list[Cost] = []
    for name in STRUCTURES:
        for batch in BATCHES:
            index, insert = fill(kind_of(name), stored, batch)
            every = MATCHES if batch == SMALL_BATCH else MATCHES[:1]
            for matches in every:
                probe = time_probes(index, random, batch, matches, rows)
                costs.append(Cost(name, batch, matches, insert, probe))
                if note is not None:
                    note(costs[-1])
    large_batch = threshold(costs, BATCHES, lambda cost: cost.batch, matches=1)
    many = threshold(costs, MATCHES, lambda cost: cost.matches, batch=SMALL_BATCH)
    if note is not None:
        note("the batches, now the constants of the cost model")
    constants = measure_costs(rows, seed)
    if note is not None:
        note("the constants, now windows that close")
    windows = measure_windows(seed=seed)
    return Calibration(large_batch, many, date.today().isoformat(), constants, windows), costs


def as_table(costs: list[Cost]) -> Table:
    """Return a table of what was measured."""
    table = Table("structure", caption="nanoseconds per row; in all: one insert and two probes")
    for heading in ("rows per batch", "matches", "insert", "probe", "in all"):
        table.add_column(heading, justify="right")
    for cost in costs:
        numbers = (cost.batch, cost.matches, cost.insert, cost.probe, cost.total)
        table.add_row(cost.structure, *(f"{number:,.0f}" for number in numbers))
    return table


def constants_table(costs: Costs) -> Table:
    """Return a table of the constants of the cost model."""
    table = Table("constant", caption="of the cost model: nanoseconds; the cache in bytes")
    table.add_column("value", justify="right")
    for name, value in asdict(costs).items():
        table.add_row(name, f"{value:,.1f}" if value < 100 else f"{value:,.0f}")
    return table


def windows_table(costs: WindowCosts) -> Table:
    """Return a table of the costs of joining windows by equality."""
    table = Table("windows", caption=f"nanoseconds, with {costs.threads} threads")
    for keys in SIZES:
        table.add_column(f"{keys:,} keys", justify="right")
    for name, spent in (("SHJ-JB", costs.eager), ("PRJ", costs.lazy), ("PMJ", costs.sorting)):
        for what, line in (("tuple", spent.tuples), ("match", spent.matches)):
            table.add_row(f"{name}, per {what}", *(f"{number:,.1f}" for number in line))
    for side, line in zip(("left", "right"), costs.matrix, strict=True):
        table.add_row(f"SHJ-JM, per {side} tuple", *(f"{number:,.1f}" for number in line))
    return table


def fill(kind: type[Index], stored: Keys, batch: int) -> tuple[Index, float]:
    """Fill an index, the first half at once; return it, and the time per row of the rest.

    Its predecessor has seen such keys, as in a stream that has run for a while.
    """
    half = stored.size // 2
    keys = np.sort(stored[:half])
    before = kind.from_sorted(keys, np.arange(half, dtype=np.int32))
    index = before.successor(stored.size)
    index.insert(keys, np.arange(half, dtype=np.int32))
    seconds, done = 0.0, 0
    for keys in cut(stored[half:], batch):
        row_ids = np.arange(half + done, half + done + keys.size, dtype=np.int32)
        begin = perf_counter()
        index.insert(keys, row_ids)
        seconds += perf_counter() - begin
        done += keys.size
        if done >= CALLS * batch and seconds > SECONDS:
            break
    return index, 1e9 * seconds / done


def time_probes(
    index: Index, random: np.random.Generator, batch: int, matches: int, rows: int
) -> float:
    """Return the time per row that finds ``matches`` others, with pairs written out."""
    reach = int(SPAN / rows * matches / 2)
    seconds, done = 0.0, 0
    probes = random.integers(0, SPAN, max(CALLS * batch // max(matches // 16, 1), 4 * batch))
    for keys in cut(probes[: 1 << 19], batch):
        begin = perf_counter()
        for found in index.probe(keys - reach, keys + reach):
            found.pairs()
        seconds += perf_counter() - begin
        done += keys.size
        if seconds > SECONDS:
            break
    return 1e9 * seconds / done


def cut(keys: Keys, batch: int) -> Iterator[Keys]:
    """Yield sorted batches."""
    for first in range(0, keys.size, batch):
        yield np.sort(keys[first : first + batch])


def threshold(
    costs: list[Cost], steps: tuple[int, ...], of: Callable[[Cost], int], **fixed: int
) -> float:
    """Return the first step from which BI-Sort is never beaten; infinity if it always is."""
    found = float("inf")
    for step in reversed(steps):
        here = {
            cost.structure: cost.total
            for cost in costs
            if of(cost) == step and all(getattr(cost, name) == at for name, at in fixed.items())
        }
        best = min(cost for name, cost in here.items() if name != "bi_sort")
        if best < MARGIN * here["bi_sort"]:
            break
        found = step
    return 1 if found == steps[0] else found
