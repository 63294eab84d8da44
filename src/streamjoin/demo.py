"""``streamjoin demo``: two live streams joined while they run, then checked by someone else.

Trades and quotes arrive together, every 50 ms a small batch of each. A match is a quote for the
same symbol, at a price within five cents, at most a second before or after the trade::

    trades   symbol  price  qty  ts      -+
                                          +->  push  ->  matches, checksum, latency
    quotes   symbol  price  qty  ts      -+

The feed is paced like a live one, so the latency is what a user would see, and the display tells
how busy the join was. Event times are up to 0.2 s out of order and the watermark follows by one
second, so no row is late and the answer is that of the whole input: DuckDB (or, without it, our own
table join) computes it in one go, and both must give the same multiset of rows. Matches are not
kept; a `Digest`, a count and a sum of row hashes, does not depend on their order.

All data come from the seed and the length in seconds, so a run can be repeated.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console
from rich.live import Live
from rich.table import Table

import streamjoin as sj

CONDITION = "l.symbol = r.symbol and abs(l.price - r.price) <= 0.05"
WINDOW = "1 second"
DELAY = "1 second"

BATCH_SECONDS = 0.05
BATCH_ROWS = 5_000  # of each side: 200,000 rows a second in all
DISORDER_US = 200_000  # less than the delay, or rows would be late
START_US = 1_767_605_400_000_000  # a Monday morning
SYMBOLS = pa.array([f"{a}{b}{c}" for a in "ABCDEFGHIJ" for b in "KLMNOPQRST" for c in "ABCDEUVXYZ"])
SAMPLES = 5


@dataclass(frozen=True)
class Feed:
    """The two streams, cut into batches; each row has an id that is unique on its side."""

    seed: int
    batches: int

    def __iter__(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        random = np.random.default_rng(self.seed)
        middle = random.uniform(20, 200, len(SYMBOLS))
        for number in range(self.batches):
            middle += random.normal(0, 0.02, len(SYMBOLS))
            yield (
                self._batch(random, middle, number, "trade_id"),
                self._batch(random, middle, number, "quote_id"),
            )

    def _batch(
        self, random: np.random.Generator, middle: NDArray[np.float64], number: int, id_: str
    ) -> pa.Table:
        symbols = random.integers(0, len(SYMBOLS), BATCH_ROWS)
        arrival = START_US + (number + random.random(BATCH_ROWS)) * BATCH_SECONDS * 1e6
        times = (arrival - random.integers(0, DISORDER_US, BATCH_ROWS)).astype(np.int64)
        return pa.table(
            {
                id_: np.arange(number * BATCH_ROWS, (number + 1) * BATCH_ROWS),
                "symbol": SYMBOLS.take(pa.array(symbols)),
                "price": np.round(middle[symbols] + random.normal(0, 1.5, BATCH_ROWS), 2),
                "qty": random.integers(1, 500, BATCH_ROWS),
                "ts": pa.array(times, pa.timestamp("us")),
            }
        )


@dataclass
class Digest:
    """A count and an order-independent checksum of rows: equal for equal multisets."""

    rows: int = 0
    checksum: int = 0

    def add(self, table: pa.Table) -> None:
        """Add the rows of ``table``: every column takes part, by position."""
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
    # The finaliser of SplitMix64: each input bit reaches every output bit.
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


@dataclass
class Progress:
    """What the display shows; latencies are the seconds of each push."""

    batches: int
    started: float = field(default_factory=time.perf_counter)
    rows: int = 0
    live_rows: int = 0
    latencies: list[float] = field(default_factory=list)
    digest: Digest = field(default_factory=Digest)
    samples: pa.Table | None = None

    def figures(self) -> dict[str, str]:
        """Label and value of each figure."""
        elapsed = time.perf_counter() - self.started
        milliseconds = 1000 * np.array(self.latencies or [0.0])
        p50, p95 = np.percentile(milliseconds, (50, 95))
        return {
            "rows pushed": f"{self.rows:,}",
            "matches": f"{self.digest.rows:,}",
            "live rows": f"{self.live_rows:,}",
            "rows a second": f"{self.rows / max(elapsed, 1e-9):,.0f}",
            "push latency": f"{p50:.1f} ms (p50), {p95:.1f} ms (p95)",
            "busy": f"{100 * sum(self.latencies) / max(elapsed, 1e-9):.0f} % of the time",
        }

    def __rich__(self) -> Table:
        done = len(self.latencies) / self.batches
        table = Table.grid(padding=(0, 2))
        bar = "━" * round(40 * done)
        table.add_row("progress", f"[green]{bar}[/][dim]{'━' * (40 - len(bar))}[/] {done:.0%}")
        for label, value in self.figures().items():
            table.add_row(label, f"[bold]{value}[/]")
        return table

    def __str__(self) -> str:
        return ", ".join(f"{label} {value}" for label, value in self.figures().items())


def run(console: Console, seconds: float = 6.0, seed: int = 7) -> bool:
    """Run the demo; True if the result was checked and is right."""
    batches = max(1, round(seconds / BATCH_SECONDS))
    console.print(
        f"[bold]trades[/] join [bold]quotes[/] on {CONDITION}, within {WINDOW}", soft_wrap=True
    )
    with _patience(console, "compiling kernels, first run only"):
        _warm_up()
    trades, quotes = zip(*Feed(seed, batches), strict=True)
    progress = _join_live(console, list(zip(trades, quotes, strict=True)))
    if progress.samples is not None:
        console.print(_table_of(progress.samples))
    name = "DuckDB" if find_spec("duckdb") else "join_tables"
    with _patience(console, f"{name} computes the same join over the whole input"):
        expected = _recompute(pa.concat_tables(trades), pa.concat_tables(quotes))
    if progress.digest == expected:
        console.print(f"[green]checked against {name}: {expected.rows:,} matches, identical[/]")
        return True
    console.print(
        f"[red]checked against {name}: DIFFERENT, {progress.digest.rows:,} matches here and "
        f"{expected.rows:,} there. This is a bug; please report it with seed {seed}.[/]"
    )
    return False


def _new_join() -> "sj.StreamJoin":
    return sj.StreamJoin(on=CONDITION, window=sj.TimeWindow(WINDOW), time=("ts", "ts"), delay=DELAY)


def _warm_up() -> None:
    join = _new_join()
    batches = 3 * round(1 / BATCH_SECONDS)  # long enough for rows to expire
    for left, right in Feed(seed=0, batches=batches):
        Digest().add(join.push(left=left.slice(0, 100), right=right.slice(0, 100)))


def _join_live(console: Console, batches: list[tuple[pa.Table, pa.Table]]) -> Progress:
    join = _new_join()
    progress = Progress(len(batches))
    with _display(console, progress) as show:
        for number, (left, right) in enumerate(batches):
            time.sleep(max(0.0, progress.started + number * BATCH_SECONDS - time.perf_counter()))
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


@contextmanager
def _display(console: Console, progress: Progress) -> Iterator[Any]:
    """Give a function that shows the progress: live on a terminal, else a line every 2 seconds."""
    if console.is_terminal:
        with Live(progress, console=console, refresh_per_second=10):
            yield lambda: None
        return
    shown = time.perf_counter()

    def show() -> None:
        nonlocal shown
        if time.perf_counter() - shown > 2:
            shown = time.perf_counter()
            console.print(str(progress), highlight=False, soft_wrap=True)

    yield show
    console.print(str(progress), highlight=False, soft_wrap=True)


@contextmanager
def _patience(console: Console, text: str) -> Iterator[None]:
    """Say what is going on, but only if it lasts longer than two seconds."""
    status = console.status(f"{text} ...")
    show = status.start if console.is_terminal else lambda: console.print(f"{text} ...")
    timer = threading.Timer(2.0, show)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def _recompute(trades: pa.Table, quotes: pa.Table) -> Digest:
    digest = Digest()
    if not find_spec("duckdb"):
        digest.add(
            sj.join_tables(
                trades, quotes, on=CONDITION, window=sj.TimeWindow(WINDOW), time=("ts", "ts")
            )
        )
        return digest
    import duckdb

    result = duckdb.connect().sql(
        f"select l.*, r.* from trades l join quotes r on {CONDITION} "
        f"and r.ts between l.ts - interval '{WINDOW}' and l.ts + interval '{WINDOW}'"
    )
    for batch in pa.RecordBatchReader.from_stream(result):
        digest.add(pa.Table.from_batches([batch]))
    return digest


def _table_of(samples: pa.Table) -> Table:
    table = Table(title="some of the last matches", title_justify="left")
    for heading in ("symbol", "trade price", "quote price", "trade time", "quote time"):
        table.add_column(heading, justify="right")
    for row in samples.to_pylist():
        times = (f"{row[name]:%H:%M:%S.%f}"[:-3] for name in ("ts", "ts_right"))
        prices = (f"{row[name]:.2f}" for name in ("price", "price_right"))
        table.add_row(row["symbol"], *prices, *times)
    return table
