"""A driver of its own with a small JVM: joins streams whose rows are a megabyte each.

``python -m tests.spark.drivers.large_rows FOLDER ROWS``; all rows come in one micro-batch. It
prints how many it has joined, and how many characters they hold.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from streamjoin import TimeWindow
from streamjoin import spark as sjs
from tests.spark.drivers.starting import read_sides, start_query, start_session, tell

MEGABYTE = 1 << 20
ON, WINDOW = "l.id = r.id", TimeWindow("1 second")


def write_rows(folder: Path, side: str, rows: int, width: int) -> None:
    """Write rows of text that does not compress, in files of 50."""
    rng = np.random.default_rng(len(side))
    (folder / side).mkdir(parents=True)
    for first in range(0, rows, 50):
        ids = np.arange(first, min(first + 50, rows))
        text = [rng.integers(65, 91, width, np.uint8).tobytes().decode() for _ in ids]
        times = pa.array(ids * 1000, pa.timestamp("us", "UTC"))
        table = pa.table({"id": ids, "t": times, "text": text})
        pq.write_table(table, folder / side / f"{first:05}.parquet", compression="none")


def main(name: str, rows: str) -> None:
    """Join the rows of one side with small ones of the other."""
    folder = Path(name)
    write_rows(folder, "left", int(rows), MEGABYTE)
    write_rows(folder, "right", int(rows), 1)
    builder = SparkSession.builder.master("local[2]")
    session = start_session(builder, name, **{"spark.driver.memory": "1g"})
    sjs.configure(session)
    left, right = read_sides(session, name, "1 second", files=None)
    joined = sjs.join(left, right, on=ON, window=WINDOW, time="t")
    start_query(joined.selectExpr("id", "length(text) as width"), name).awaitTermination()
    found = session.read.parquet(f"{folder}/sink").selectExpr("count(*)", "sum(width)").first()
    assert found is not None
    tell(*found)


if __name__ == "__main__":
    main(*sys.argv[1:])
