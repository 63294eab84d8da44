"""The demo without Spark: trades and quotes pushed into a `streamjoin.StreamJoin`.

::

    trades   symbol  price  qty  ts      -+
                                          +->  push  ->  matches, checksum, latency
    quotes   symbol  price  qty  ts      -+

Every 50 ms a small batch of each arrives, and the display shows how busy the join is. Matches are
not kept, only their `Digest`: a count and a sum of row hashes, in which order does not matter. The
judge is DuckDB or, if it is not installed, our own table join.
"""

import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console

import streamjoin as sj
from streamjoin.cli.demo.display import (
    Board,
    format_percentiles,
    show_board,
    show_samples,
    show_scenarios,
    show_verdict,
)
from streamjoin.cli.demo.prices import PRICES, SYMBOLS
from streamjoin.cli.demo.scenario import Pace
from streamjoin.jobs.patience import patience

SECONDS = 6.0
DELAY = "1 second"
PACE = Pace(seconds=0.05, rows=5_000)  # per side: 200,000 rows per second in all
NOTE = "push: a batch's rows in, its matches out"
SAMPLES = 5


@dataclass
class Digest:
    """A count and an order-independent checksum of rows: equal for equal multisets."""

    rows: int = 0
    checksum: int = 0

    def add(self, table: pa.Table) -> None:
        """Add the rows of ``table``: every column counts, by position."""
        hashes = np.zeros(table.num_rows, np.uint64)
        for column in table.itercolumns():
            hashes = _mix(hashes ^ _bits(column))
        self.rows += table.num_rows
        self.checksum = (self.checksum + int(hashes.sum(dtype=np.uint64))) % 2**64


def _bits(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.index_in(column, value_set=SYMBOLS.cast(column.type)).cast(pa.int64())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    bits: NDArray[np.uint64] = column.to_numpy().view(np.uint64)
    return bits


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # The finaliser of SplitMix64: every input bit affects every output bit.
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


@dataclass
class PushProgress:
    """What the display shows; latencies are the seconds of each push."""

    batches: int
    started: float = field(default_factory=time.perf_counter)
    rows: int = 0
    live_rows: int = 0
    latencies: list[float] = field(default_factory=list)
    digest: Digest = field(default_factory=Digest)
    samples: pa.Table | None = None

    @property
    def title(self) -> str:
        return PRICES.title

    @property
    def done(self) -> float:
        """The share of the batches that is joined."""
        return len(self.latencies) / self.batches

    def figures(self) -> dict[str, str]:
        elapsed = max(time.perf_counter() - self.started, 1e-9)
        return {
            "rows in": f"{self.rows:,} ({self.rows / elapsed:,.0f} per second)",
            "matches": f"{self.digest.rows:,}",
            "push p50, p95": format_percentiles(self.latencies),
            "live rows": f"{self.live_rows:,}",
            "busy": f"{100 * sum(self.latencies) / elapsed:.0f} % of the time",
        }


def run(console: Console, seconds: float = SECONDS, seed: int = 7) -> bool:
    """Run the demo; return whether the result was checked and is right."""
    show_scenarios(console, [PRICES])
    with patience(console, "compiling kernels, first run only"):
        _warm_up()
    batches = list(islice(PRICES.generate(PACE, seed), PACE.batches(seconds)))
    progress = _join_live(console, batches)
    if progress.samples is not None:
        show_samples(console, PRICES, progress.samples)
    judge = "DuckDB" if find_spec("duckdb") else "join_tables"
    with patience(console, f"{judge} computes the same join over the whole input"):
        expected = _recompute(*(pa.concat_tables(side) for side in zip(*batches, strict=True)))
    found, same = progress.digest, progress.digest == expected
    show_verdict(console, PRICES.title, judge, found.rows, expected.rows, same, seed)
    return same


def _new_join() -> "sj.StreamJoin":
    return sj.StreamJoin(
        on=PRICES.on, window=sj.TimeWindow(PRICES.window), time=("ts", "ts"), delay=DELAY
    )


def _warm_up() -> None:
    join = _new_join()
    # Long enough for rows to expire.
    for left, right in islice(PRICES.generate(PACE, 0), PACE.batches(3.0)):
        Digest().add(join.push(left=left.slice(0, 100), right=right.slice(0, 100)))


def _join_live(console: Console, batches: list[tuple[pa.Table, pa.Table]]) -> PushProgress:
    join = _new_join()
    progress = PushProgress(len(batches))
    with show_board(console, Board([progress], NOTE)) as show:
        for number, (left, right) in enumerate(batches):
            time.sleep(max(0.0, progress.started + number * PACE.seconds - time.perf_counter()))
            start = time.perf_counter()
            matches = join.push(left=left, right=right)
            progress.latencies.append(time.perf_counter() - start)
            progress.rows += left.num_rows + right.num_rows
            progress.live_rows = join.stats.live_left + join.stats.live_right
            progress.digest.add(matches)
            if matches.num_rows:
                progress.samples = matches.slice(0, SAMPLES)
            show()
    return progress


def _recompute(trades: pa.Table, quotes: pa.Table) -> Digest:
    digest = Digest()
    if not find_spec("duckdb"):
        window = sj.TimeWindow(PRICES.window)
        digest.add(sj.join_tables(trades, quotes, on=PRICES.on, window=window, time="ts"))
        return digest
    import duckdb

    result = duckdb.connect().sql(PRICES.sql("trades", "quotes"))
    for batch in pa.RecordBatchReader.from_stream(result):
        digest.add(pa.Table.from_batches([batch]))
    return digest
