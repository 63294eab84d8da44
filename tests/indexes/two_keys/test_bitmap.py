"""Bitmaps with levels: sizes around the edges of every level, and marks far apart."""

import numpy as np
import pytest

from streamjoin.indexes.two_keys.bitmap import (
    Bitmap,
    count_below,
    count_ones,
    first_one,
    flip_counted,
    level_sizes,
    make_bitmap,
    make_counts,
    mark,
    next_word,
    unmark,
)
from streamjoin.indexes.two_keys.marking import mark_all
from streamjoin.kernels.compile import bare

EDGES = (64, 64**2, 64**3)
SIZES = [1, *(edge + off for edge in EDGES for off in (-1, 0, 1)), 2 * 64**3 + 1]
every_size = pytest.mark.parametrize("size", SIZES)


@bare
def mark_each(bitmap, positions):
    for position in positions:
        mark(bitmap.words, bitmap.middle, bitmap.top, position)


@bare
def unmark_each(bitmap, positions):
    for position in positions:
        unmark(bitmap.words, bitmap.middle, bitmap.top, position)


@bare
def mark_first(bitmap, size):
    mark_all(bitmap.words, bitmap.middle, bitmap.top, size)


@bare
def flip_each(counts, positions, change):
    for position in positions:
        flip_counted(counts.words, counts.middle, counts.top, position, change)


@bare
def next_words(bitmap, firsts, lasts, found):
    for i in range(firsts.size):
        found[i] = next_word(bitmap.words, bitmap.middle, bitmap.top, firsts[i], lasts[i])


@bare
def count_ranges(counts, firsts, lasts, found):
    for i in range(firsts.size):
        found[i] = count_below(counts.words, counts.middle, counts.top, firsts[i], lasts[i])


@bare
def look_at(words, ones, firsts):
    for i in range(words.size):
        ones[i], firsts[i] = count_ones(words[i]), first_one(words[i])


def bits(words):
    return np.unpackbits(words.view(np.uint8), bitorder="little")


def check(bitmap: Bitmap, marked):
    """The invariants, and which positions are marked."""
    assert np.array_equal(np.flatnonzero(bits(bitmap.words)), np.unique(marked))
    assert np.array_equal(np.flatnonzero(bits(bitmap.middle)), np.flatnonzero(bitmap.words))
    assert np.array_equal(np.flatnonzero(bits(bitmap.top)), np.flatnonzero(bitmap.middle))


def positions(size):
    """None, the ends, a few far apart, many, all; in no order, and some twice."""
    random = np.random.default_rng(size)
    yield np.empty(0, np.int64)
    yield np.array([size - 1])
    yield np.array([0, size - 1, 0])
    yield random.integers(0, size, 5)
    yield random.integers(0, size, min(size // 3, 5000))
    if size < 10_000:
        yield random.permutation(size)


def test_levels():
    assert [level_sizes(size) for size in (0, 1, 64, 65, 4096, 4097, 262_144, 262_145)] == [
        (1, 1, 1), (1, 1, 1), (1, 1, 1), (2, 1, 1),
        (64, 1, 1), (65, 2, 1), (4096, 64, 1), (4097, 65, 2),
    ]  # fmt: skip


def test_words():
    words = np.array([0, 1, 2**63, 2**64 - 1, 0b1010_0000], np.uint64)
    ones, firsts = np.empty(5, np.int64), np.empty(5, np.int64)
    look_at(words, ones, firsts)
    assert ones.tolist() == [0, 1, 1, 64, 2]
    assert firsts.tolist() == [64, 0, 63, 0, 5]


@every_size
def test_marks_come_and_go(size):
    for marked in positions(size):
        bitmap = make_bitmap(size)
        mark_each(bitmap, marked)
        check(bitmap, marked)
        gone = marked[::2]
        unmark_each(bitmap, gone)
        check(bitmap, np.setdiff1d(marked, gone))
        unmark_each(bitmap, marked)
        assert not any(level.any() for level in bitmap)


@every_size
def test_all_are_marked(size):
    bitmap = make_bitmap(size)
    mark_first(bitmap, size)
    check(bitmap, np.arange(size))
    unmark_each(bitmap, np.arange(size - 1))
    check(bitmap, np.array([size - 1]))


@every_size
def test_the_next_word_with_marks(size):
    last_word = (size - 1) >> 6
    random = np.random.default_rng(size)
    for marked in positions(size):
        bitmap = make_bitmap(size)
        mark_each(bitmap, marked)
        held = np.flatnonzero(bitmap.words)
        firsts = np.arange(last_word + 2)
        for lasts in (
            np.full_like(firsts, last_word),
            random.integers(0, last_word + 1, firsts.size),
        ):
            found = np.empty_like(firsts)
            next_words(bitmap, firsts, lasts, found)
            following = np.append(held, size)[np.searchsorted(held, firsts)]
            assert np.array_equal(found, np.minimum(following, lasts + 1))


@every_size
def test_ranges_are_counted(size):
    random = np.random.default_rng(size)
    edges = np.array([0, 1, 63, 64, 65, 4095, 4096, 4097, 8192, size // 2, size - 1, size])
    edges = np.concatenate((np.minimum(edges, size), random.integers(0, size + 1, 30)))
    firsts, lasts = (each.ravel().copy() for each in np.meshgrid(edges, edges))
    for marked in positions(size):
        marked = np.unique(marked)
        counts, found = make_counts(size), np.empty_like(firsts)
        flip_each(counts, marked, 1)
        totals = np.concatenate(([0], np.cumsum(bits(counts.words)[:size], dtype=np.int64)))
        assert totals[-1] == marked.size == counts.middle.sum() == counts.top.sum()
        count_ranges(counts, firsts, lasts, found)
        assert np.array_equal(found, np.maximum(totals[lasts] - totals[firsts], 0))
        flip_each(counts, marked, -1)
        assert not any(level.any() for level in counts)
