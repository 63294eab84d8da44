"""Scan: hits are handed over in blocks, and a probe goes on where it stopped."""

from collections import Counter

import numpy as np
import pytest

from streamjoin.indexes.runs import scan
from streamjoin.indexes.runs.scan import HITS, TILE, Scan


def make(keys):
    return Scan.from_sorted(np.array(keys, np.int64), np.arange(len(keys), dtype=np.int32))


def pairs_of(blocks):
    pairs = Counter()
    for matches in blocks:
        pairs.update(zip(*(part.tolist() for part in matches.pairs()), strict=True))
    return pairs


def test_hits_are_handed_over_a_bounded_number_at_a_time():
    size, probes = 3 * TILE + 5, 800
    index = make(np.zeros(size))
    zeros = np.zeros(probes, np.int64)
    counts = [len(matches) for matches in index.probe(zeros, zeros)]
    assert sum(counts) == size * probes
    assert len(counts) > 1
    assert max(counts) <= HITS
    assert min(counts[:-1]) > HITS - TILE


@pytest.mark.parametrize("hits", [TILE, TILE + 1, 2 * TILE, 5000])
def test_a_probe_goes_on_in_the_middle_of_a_tile(monkeypatch, hits):
    monkeypatch.setattr(scan, "HITS", hits)
    keys = np.arange(2 * TILE + 100) % 7
    index = make(keys)
    lower = np.array([0, 5, 3, 9, 2, 6])
    upper = np.array([6, 4, 5, 9, 2, 6])
    blocks = list(index.probe(lower, upper))
    assert all(len(matches) <= hits for matches in blocks)
    assert pairs_of(blocks) == Counter(
        (probe, row)
        for probe in range(lower.size)
        for row in np.flatnonzero((keys >= lower[probe]) & (keys <= upper[probe])).tolist()
    )


def test_stopping_early_leaves_the_index_as_it_was(monkeypatch):
    monkeypatch.setattr(scan, "HITS", TILE)
    index = make(np.zeros(3 * TILE))
    probe = np.zeros(2, np.int64)
    next(iter(index.probe(probe, probe)))
    assert sum(map(len, index.probe(probe, probe))) == 2 * 3 * TILE


def test_tuples_stay_in_the_order_of_insertion():
    index = Scan(1)
    for row, key in enumerate([5, 3, 9, 3]):
        index.insert(np.array([key]), np.array([row], np.int32))
        index.check()
    assert index.to_arrow()["keys"].to_pylist() == [5, 3, 9, 3]


def test_no_hits_yield_nothing():
    index = make(range(5000))
    assert list(index.probe(np.array([6000, 3]), np.array([7000, 2]))) == []
