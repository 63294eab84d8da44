"""Peers are asked for the same join as we are: the same rows, under the same names."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from benchmarks.harness.peers import Comparison, DuckDB, Polars, compare_band

PEERS = {"DuckDB": DuckDB, "DuckDB, in no order": lambda *sides: DuckDB(*sides, keeps_order=False)}
PEERS |= {"Polars": Polars}
CONDITIONS = {
    "band": compare_band("x", 5),
    "equality": [Comparison("x", "=", "x")],
    "inequalities": [Comparison("x", "<", "x"), Comparison("id", ">", "id", 1)],
    "equality and band": [Comparison("x", "=", "x"), *compare_band("id", 20)],
}


def table(seed):
    return pa.table({"x": np.random.default_rng(seed).integers(0, 100, 80), "id": np.arange(80)})


def rows(joined):
    return Counter(zip(*(column.to_pylist() for column in joined.columns), strict=True))


@pytest.mark.parametrize("on", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
def test_a_peer_gives_what_we_give(make, on):
    left, right = table(1), table(2)
    ours, peer = sj.join_tables(left, right, on=" and ".join(map(str, on))), make(left, right)
    theirs = peer.prepare_rows(on)()
    assert theirs.column_names == ours.column_names
    assert rows(theirs) == rows(ours)
    assert peer.prepare_count(on)() == ours.num_rows > 0


@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
def test_a_peer_gives_only_the_columns_asked_for(make):
    left, right = table(1).rename_columns(["x", "i"]), table(2).rename_columns(["x", "j"])
    on = [Comparison("x", "=", "x")]
    ours = sj.join_tables(left, right, on="l.x = r.x").select(["i", "j"])
    assert rows(make(left, right).prepare_rows(on, ("i", "j"))()) == rows(ours)
