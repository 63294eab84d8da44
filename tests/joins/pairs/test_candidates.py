"""Candidates are checked in blocks: any block size gives the same matches."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.pairs import candidates
from streamjoin.joins.pairs.candidates import keep_inside, mark_inside
from streamjoin.plans.limits import Limits, use_limits

CONDITIONS = [
    "abs(l.a - r.a) <= 2",
    "l.k = r.k and abs(l.a - r.a) <= 2",
    "abs(l.a - r.a) <= 2 and l.k <> r.k",
    "l.a <= r.a and l.b > r.b",
    "l.k = r.k and l.a + r.b > 6",
    "l.k = r.k and length(l.s) = length(r.s)",
]


def make(size, seed):
    random = np.random.default_rng(seed)
    columns = {name: random.integers(0, 6, size) for name in ("k", "a", "b")}
    texts = random.choice(["", "a", "bb"], size).tolist()
    return pa.table({"id": np.arange(size), **columns, "s": texts})


def pairs(result):
    return Counter(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))


@pytest.mark.parametrize("on", CONDITIONS)
@pytest.mark.parametrize("block", [1, 7, 100])
def test_any_block_size_gives_the_same_pairs(on, block):
    left, right = make(60, 1), make(50, 2)
    expected = pairs(sj.join_tables(left, right, on=on))
    assert expected
    with use_limits(Limits(block_pairs=block)):
        assert pairs(sj.join_tables(left, right, on=on, threads=1)) == expected
        join = sj.StreamJoin(on, sj.CountWindow(1000), threads=1)
    assert pairs(join.push(left, right)) == expected


def test_blocks_are_never_larger_than_asked(monkeypatch):
    seen = []
    original = candidates.apply_residuals

    def watch(batch, subwindow, probes, rows):
        seen.append(probes.size)
        return original(batch, subwindow, probes, rows)

    monkeypatch.setattr(candidates, "apply_residuals", watch)
    left, right = make(100, 3), make(100, 4)
    on = "l.a >= 0 and r.a >= 0 and l.k <= r.k + 100 and l.a + r.a > 1"
    with use_limits(Limits(block_pairs=50)):
        sj.join_tables(left, right, on=on)
    assert sum(seen) == 100 * 100
    assert max(seen) <= 50


def test_one_probe_with_more_candidates_than_a_block():
    many = pa.table({"id": np.arange(1000), "a": np.zeros(1000, np.int64), "b": np.arange(1000)})
    one = pa.table({"id": [0], "a": [0], "b": [990]})
    with use_limits(Limits(block_pairs=16)):
        found = sj.join_tables(one, many, on="l.a = r.a and l.b <= r.b", threads=1)
    assert sorted(found["id_right"].to_pylist()) == list(range(990, 1000))


def test_kernels_keep_what_lies_inside():
    probes, rows = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32)
    stored, lower, upper = np.array([5, 9]), np.array([5, 6]), np.array([5, 9])
    keep = np.array([True, False, False, False])
    mark_inside(probes, rows, stored, lower, upper, keep)
    assert keep.tolist() == [True, False, False, True]
    kept = keep_inside(probes, rows, stored, lower, upper)
    pairs_kept = list(zip(probes[:kept].tolist(), rows[:kept].tolist(), strict=True))
    assert pairs_kept == [(0, 0), (1, 1)]
