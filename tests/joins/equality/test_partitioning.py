"""Partitions: all words of some codes, in the order of their rows, with any number of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.joins.equality.lazy import partitioning
from streamjoin.joins.equality.lazy.partitioning import chunks, partition, split_evenly
from tests.joins.equality.small_windows import HALF, rows, windows, words_of


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(partitioning, "CHUNK_WORDS", 8)


@given(sides=windows(), bits=st.integers(0, 14), threads=st.integers(1, 4))
def test_a_partition_is_what_a_stable_sort_by_its_bits_gives(sides, bits, threads):
    words = words_of(sides[0])
    given = words.copy()
    parts = partition(words, bits, threads)
    part_of = (words >> np.uint64(64 - bits) if bits else np.zeros_like(words)).astype(np.int64)
    assert np.array_equal(parts.words, words[np.argsort(part_of, kind="stable")])
    assert np.array_equal(np.diff(parts.starts), np.bincount(part_of, minlength=1 << bits))
    for part in {0, (1 << bits) - 1, *part_of[:3].tolist()}:
        assert np.array_equal(parts[part], words[part_of == part])
    assert np.array_equal(words, given)


@given(sides=windows(), count=st.integers(1, 9), threads=st.integers(1, 4))
def test_parts_share_no_codes_and_are_the_same_ones_on_both_sides(sides, count, threads):
    left, right = (split_evenly(words_of(side), count, threads) for side in sides)
    assert len(left) == len(right) == count
    seen = {}
    for number, part in enumerate([*left, *right]):
        for code in (part >> HALF).tolist():
            assert seen.setdefault(code, number % count) == number % count
    for side, parts in zip(sides, (left, right), strict=True):
        assert all((np.diff(rows(part)) > 0).all() for part in parts)
        assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(words_of(side)))


@pytest.mark.parametrize("count", range(1, 17))
def test_parts_are_about_even(count):
    words = words_of(np.random.default_rng(count).integers(0, 2**32, 50_000))
    sizes = [part.size for part in split_evenly(words, count, 2)]
    assert max(sizes) < 1.1 * 50_000 / count


@pytest.mark.parametrize(("size", "threads"), [(0, 3), (1, 3), (7, 3), (8, 3), (17, 3), (1000, 7)])
def test_chunks_are_even_and_worth_a_thread(size, threads):
    words = np.arange(size, dtype=np.uint64)
    cut = chunks(words, threads)
    sizes = [chunk.size for chunk in cut]
    assert np.array_equal(np.concatenate(cut), words)
    assert len(cut) <= threads
    assert max(sizes) - min(sizes) <= 1
    assert len(cut) == 1 or min(sizes) >= partitioning.CHUNK_WORDS
