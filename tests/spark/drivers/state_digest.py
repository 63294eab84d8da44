"""A process of its own: runs a few streams in process, and prints a digest of the state they leave.

``python -m tests.spark.drivers.state_digest``: the bytes of the state must not depend on what
memory holds that was never written to, such as the values under NULLs.
"""

import os
import tempfile
from hashlib import sha256
from typing import Any

import pyarrow as pa

import streamjoin as sj
from tests.spark.in_process import Cluster, make_join

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {"id": pa.int64(), "t": TIME, "k": pa.int32(), "x": pa.float64(), "flag": pa.bool_(),
     "s": pa.string(), "d": pa.decimal128(20, 2), "many": pa.list_(pa.int16()),
     "both": pa.struct({"a": pa.int8(), "b": pa.string()})}
)  # fmt: skip


def rows(first: int, count: int) -> pa.Table:
    """Rows with NULLs in every column that may have them."""
    return pa.Table.from_pylist(
        [
            {
                "id": n,
                "t": 1000 * (n + 1),
                "k": n % 5 if n % 7 else None,
                "x": n / 3 if n % 3 else None,
                "flag": n % 2 == 0 if n % 5 else None,
                "s": "text" * (n % 4) if n % 6 else None,
                "d": None if n % 4 else "1.25",
                "many": None if n % 8 == 0 else [n % 100, None][: n % 3],
                "both": None if n % 9 == 0 else {"a": None, "b": "b" * (n % 3)},
            }
            for n in range(first, first + count)
        ],
        SCHEMA.set(6, pa.field("d", pa.string())),
    ).cast(SCHEMA)


def main() -> None:
    digest = sha256()
    joins: list[dict[str, Any]] = [
        {"on": "l.k < r.k", "window": sj.TimeWindow("50 ms"), "time": "t"},
        {"on": "l.k = r.k", "window": sj.TimeWindow("50 ms"), "time": "t"},
        {"on": "l.k = r.k", "window": sj.CountWindow(30)},
        {"on": "l.k = r.k", "window": sj.TumblingWindow("20 ms"), "time": "t", "emit": "eager"},
        {"on": "l.k = r.k", "window": sj.SessionWindow("5 ms"), "time": "t"},
    ]
    for options in joins:
        cluster = Cluster(make_join(options.pop("on"), SCHEMA, 2, **options), seed=1)
        for number in range(5):
            cluster.batch(rows(17 * number, 17), rows(17 * number, 13))
        for store in cluster.stores.values():
            digest.update(store.saved or b"")
            for id_, data in sorted(store.segments.items()):
                digest.update(id_.encode() + data)
    print(digest.hexdigest())  # noqa: T201


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPARK_LOCAL_DIRS"] = folder
        main()
