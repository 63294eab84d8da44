"""Random micro-batches of two streams, what a watermark leaves of them, and which rows match."""

from random import Random
from typing import Any

import pyarrow as pa

from streamjoin import TimeWindow
from tests.oracle import Row, Steps

SECOND = 1_000_000
SCHEMA = pa.schema(
    {"id": pa.int64(), "t": pa.timestamp("us", "UTC"), "k": pa.int32(), "s": pa.string(),
     "x": pa.float64(), "o": pa.int64()}
)  # fmt: skip
WINDOW = TimeWindow(before="4 seconds", after="2 seconds")
DELAY = 2 * SECOND


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def make_batches(seed: int, count: int = 4, size: int = 40, latest: int = 8) -> Steps:
    """Return (left, right) rows of each micro-batch: out of order, some late, some without a key.

    Times are whole seconds, so that many are equal, and some lie exactly on the watermark.
    """
    dice, number = Random(seed), 0
    batches: Steps = []
    for batch in range(count):
        sides = []
        for _ in range(2):
            rows = []
            for _ in range(0 if dice.random() < 0.2 and batch else dice.randint(size // 2, size)):
                late = dice.choice([0, 0, 0, 1, 2, 3, latest])
                rows.append(
                    {
                        "id": number,
                        "t": (1000 + 5 * batch + dice.randint(0, 5) - late) * SECOND,
                        "k": dice.choice([None, 0, 1, 2, 3, 4, 4, 4]),
                        "s": dice.choice(["a", "b", "ab", ""]),
                        "x": dice.choice([None, *(number / 50 for number in range(50))]),
                        "o": number + dice.randint(-5, 5),
                    }
                )
                number += 1
            sides.append(rows)
        batches.append((sides[0], sides[1]))
    return batches


def watermarks(batches: Steps) -> list[int]:
    """Return the watermark of each batch, and the one that they leave behind: Spark's rule."""
    found = [0]
    newest: dict[int, int] = {}
    for batch in batches:
        for side, rows in enumerate(batch):
            if rows:
                latest = max(row["t"] for row in rows) - DELAY
                newest[side] = max(latest, newest.get(side, latest))
        found.append(max(found[-1], min(newest.values()) if len(newest) == 2 else 0))
    return found


def on_time(batches: Steps) -> Steps:
    """Leave late rows out: those at or before the watermark of the batch before theirs."""
    return [
        (
            [row for row in left if row["t"] > watermark],
            [row for row in right if row["t"] > watermark],
        )
        for (left, right), watermark in zip(batches, [0, *watermarks(batches)], strict=False)
    ]


def flat(batches: Steps) -> list[list[Row]]:
    """Return all left rows and all right rows."""
    return [[row for batch in batches for row in batch[side]] for side in (0, 1)]


def known(*values: Any) -> bool:
    return all(value is not None for value in values)


def same(one: Row, two: Row) -> bool:
    return known(one["k"], two["k"]) and bool(one["k"] == two["k"])


def near(one: Row, two: Row) -> bool:
    return known(one["x"], two["x"]) and bool(abs(one["x"] - two["x"]) <= 0.02)
