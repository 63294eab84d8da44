"""What the Spark suite joins: streams as parquet files, one a side and micro-batch, and tables.

Event time moves evenly, a minute a batch. A window of n minutes, less two seconds, shows a row as
many rows of the other side as n batches have. The watermark stands one second before the end of the
batch before, so that exactly n batches of each side are live when the next one comes::

    batch        0      1      2      3      4      5
    minute    0 ---- 1 ---- 2 ---- 3 ---- 4 ---- 5 ---- 6
                      |<------- window 4 ------->|          watermark for batch 5: minute 5
                                                            batch 0 has gone, 1 to 4 are live

A count window of n batches shows a row just as many; such streams have no times.

Files are written once, and every competitor reads the same ones. Key columns are made such that a
row finds `MATCHES` of the rows that its window shows it, unless the shape says how many, so that
all joins of a size give about as many rows.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.workloads import SPAN
from streamjoin.windows import CountWindow, TimeWindow, Window

MATCHES = 2  # that a row finds on average, if nothing else is said
MINUTE = 60_000_000  # microseconds
SLACK = 2  # seconds by which a window is shorter than its batches
DELAY = "1 second"  # of the watermark
START = 1_704_067_200_000_000  # 2024-01-01, in microseconds
SYMBOLS = 1_000
CROWD, ROOM = 0.9, 0.01  # of the rows, and the part of the range that they crowd in
HOT = 0.5  # of the rows have one symbol

Columns: TypeAlias = dict[str, NDArray[Any]]
Draw: TypeAlias = Callable[[np.random.Generator, int], Columns]


@dataclass(frozen=True)
class Shape:
    """A kind of data, and the condition that gives ``matches`` of ``rows`` in the window."""

    draw: Draw
    on: Callable[[int], str]
    matches: int = MATCHES


@dataclass(frozen=True)
class Streams:
    """Two streams in files, and their join."""

    folder: Path
    on: str
    rows: int  # of a side in a batch
    window: int  # batches that are live
    matches: int = MATCHES  # of a row
    counts: bool = False  # whether the window counts rows

    @property
    def batch(self) -> int:
        """Rows of both sides in a batch."""
        return 2 * self.rows

    @property
    def time_window(self) -> TimeWindow:
        """How far a row looks back, and ahead."""
        return TimeWindow(f"{window_seconds(self.window)} seconds")

    @property
    def extent(self) -> Window:
        """The window: so long, or of so many rows."""
        return CountWindow(self.rows * self.window) if self.counts else self.time_window

    @property
    def time(self) -> str | None:
        """The column of event times, if the window asks for them."""
        return None if self.counts else "ts"

    def read(self, spark: SparkSession, side: str) -> DataFrame:
        """Return one side: a file in each micro-batch."""
        files = self.folder / side
        schema = spark.read.parquet(str(files)).schema
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = source.parquet(str(files))
        return rows if self.time is None else rows.withWatermark(self.time, DELAY)


def write_streams(
    folder: Path,
    shape: Shape,
    rows: int,
    batches: int,
    window: int,
    seed: int,
    counts: bool = False,
) -> Streams:
    """Write both sides; a file has two row groups, since two cores are to read it."""
    for number, side in enumerate(("left", "right")):
        rng = np.random.default_rng((seed, number))
        (folder / side).mkdir(parents=True)
        for batch in range(batches):
            path = folder / side / f"{batch:03}.parquet"
            since = (np.arange(rows) * 2 + number) * MINUTE // (2 * rows)  # sides take turns
            columns: dict[str, Any] = {
                "id": np.arange(batch * rows, (batch + 1) * rows),
                **shape.draw(rng, rows),
            }
            if not counts:
                times = START + batch * MINUTE + since
                columns["ts"] = pa.array(times, pa.timestamp("us", tz="UTC"))
            pq.write_table(pa.table(columns), path, row_group_size=-(-rows // 2))
            os.utime(path, (START // 1_000_000 + batch,) * 2)  # Spark takes the oldest first
    shown = rows * window if counts else rows * window_seconds(window) // 60
    return Streams(folder, shape.on(shown), rows, window, shape.matches, counts)


def window_seconds(batches: int) -> int:
    """Return the length of a window that keeps so many batches alive."""
    return 60 * batches - SLACK


def write_tables(folder: Path, rows: int, seed: int) -> None:
    """Write two tables with uniform keys."""
    for number, side in enumerate(("left", "right")):
        rng = np.random.default_rng((seed, number))
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.table({"id": np.arange(rows), **draw_keys(rng, rows)})
        pq.write_table(table, folder / f"{side}.parquet", row_group_size=-(-rows // 8))


def draw_keys(rng: np.random.Generator, rows: int) -> Columns:
    """Return uniform keys."""
    return {"key": rng.integers(0, SPAN, rows)}


def draw_crowded(rng: np.random.Generator, rows: int) -> Columns:
    """Return keys of which most crowd in a small part of the range."""
    keys = rng.integers(0, SPAN, rows)
    crowd = rng.random(rows) < CROWD
    keys[crowd] = SPAN // 3 + rng.integers(0, int(ROOM * SPAN), int(crowd.sum()))
    return {"key": keys}


def draw_symbols(rng: np.random.Generator, rows: int) -> Columns:
    """Return uniform symbols with uniform prices."""
    return {"symbol": rng.integers(0, SYMBOLS, rows), "price": rng.integers(0, SPAN, rows)}


def draw_hot(rng: np.random.Generator, rows: int) -> Columns:
    """Return symbols of which one has half of the rows."""
    columns = draw_symbols(rng, rows)
    columns["symbol"][rng.random(rows) < HOT] = SYMBOLS // 3
    return columns


def band(rows: int, chance: float = 1.0) -> int:
    """Return the half width of the band in which a row finds `MATCHES` of ``rows``.

    ``chance`` is how much likelier than with uniform keys a row of the other side is close.
    """
    return int(SPAN / rows * MATCHES / 2 / chance)


def band_on(rows: int) -> str:
    """Return the band over uniform keys."""
    return f"abs(l.key - r.key) <= {band(rows)}"


def crowded_on(rows: int) -> str:
    """Return the band over crowded keys."""
    crowded = CROWD**2 / ROOM + (1 - CROWD) * (1 + CROWD)  # crowd meets crowd, all else is uniform
    return f"abs(l.key - r.key) <= {band(rows, crowded)}"


def symbols_on(rows: int) -> str:
    """Return the condition over uniform symbols."""
    return f"l.symbol = r.symbol and abs(l.price - r.price) <= {band(rows, 1 / SYMBOLS)}"


def hot_on(rows: int) -> str:
    """Return the condition over symbols of which one is hot."""
    same = HOT**2 + (1 - HOT**2) / SYMBOLS
    return f"l.symbol = r.symbol and abs(l.price - r.price) <= {band(rows, same)}"


def equal_shape(window_rows: int) -> Shape:
    """Return keys of which each is `MATCHES` times in a window of that many rows."""
    distinct = max(window_rows // MATCHES, 1)
    return Shape(lambda rng, rows: {"key": rng.integers(0, distinct, rows)}, lambda _: EQUAL)


EQUAL = "l.key = r.key"
UNIFORM = Shape(draw_keys, band_on)
CROWDED = Shape(draw_crowded, crowded_on)
MANY_SYMBOLS = Shape(draw_symbols, symbols_on)
HOT_SYMBOL = Shape(draw_hot, hot_on)
