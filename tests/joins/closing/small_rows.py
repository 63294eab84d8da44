"""Rows, windows and ways to join for tests of windows that close."""

from collections import Counter

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.indexes.catalogue import EAGER
from tests.oracle import Pairs

TUMBLING, SESSION = sj.TumblingWindow(10), sj.SessionWindow(10)
both_windows = pytest.mark.parametrize("window", [TUMBLING, SESSION], ids=["tumbling", "session"])
both_emits = pytest.mark.parametrize("emit", ["close", "eager"])
WAYS = [("auto", "close"), ("npj", "close"), ("auto", "eager"), *((name, None) for name in EAGER)]
every_way = pytest.mark.parametrize(("algorithm", "emit"), WAYS)


def rows(*values: tuple[int | None, ...], first: int = 0) -> pa.Table:
    """Rows of (k, t), or (k, t, x)."""
    filled = [value if len(value) == 3 else (*value, 1) for value in values]
    k, t, x = (pa.array([row[at] for row in filled], pa.int64()) for at in range(3))
    ids = pa.array(range(first, first + len(values)), pa.int64())
    return pa.table({"id": ids, "k": k, "t": t, "x": x})


def pairs(*results: pa.Table) -> Pairs:
    found: Pairs = Counter()
    for result in results:
        if "id_right" in result.schema.names:
            found.update(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))
    return found
