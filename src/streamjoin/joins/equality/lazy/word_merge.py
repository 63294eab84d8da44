"""Merges sorted runs of words: in passes over all of them, or a stretch at a time in the cache.

A pass merges runs two by two, so n runs need log n passes, each of which reads and writes all
words. To merge all at once, the runs are cut at the same words into stretches; the passes over one
stretch stay in the cache, and each word is read from and written to memory only once::

    run 0    3  8  |  11 17        stretch 0    3 5 8
    run 1    5     |  12           stretch 1    11 12 17

The cuts are samples of all runs, so that no run has many words between two of them.
"""

import numpy as np

from streamjoin.joins.equality.words import Words
from streamjoin.kernels.compile import Int, Positions, inlined, kernel

STRETCH_WORDS = 1 << 14  # between two cuts: the most of one run, and about the number of all runs


@kernel
def merge_plainly(one: Words, two: Words, into: Words) -> None:
    """Merge two runs, word by word."""
    i, j, slot = np.int64(0), np.int64(0), 0
    while i < one.size and j < two.size:
        a, b = one[i], two[j]
        later = b < a  # unpredictable, so there is no branch on it
        into[slot] = b if later else a
        i += 1 - np.int64(later)
        j += np.int64(later)
        slot += 1
    while i < one.size:
        into[slot] = one[i]
        i += 1
        slot += 1
    while j < two.size:
        into[slot] = two[j]
        j += 1
        slot += 1


@inlined
def share_of(one: Words, two: Words, count: Int) -> Int:
    """Return how many of the ``count`` least words of two runs are in the first one."""
    low, high = max(0, count - two.size), min(count, one.size)
    while low < high:
        middle = (low + high) >> 1
        if one[middle] < two[count - middle - 1]:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def merge_two(one: Words, two: Words, into: Words) -> None:
    """Merge two runs, the lower and the upper half at the same time.

    The next word is known only once the last one is, so a processor that could do more has to wait.
    Two independent merges take little more time than one.
    """
    half = into.size // 2
    a = share_of(one, two, half)
    b = half - a
    i, j, slot = np.int64(0), np.int64(0), np.int64(0)
    k, m, upper = np.int64(a), np.int64(b), np.int64(half)
    while i < a and j < b and k < one.size and m < two.size:
        word, other = one[i], two[j]
        later = other < word
        into[slot] = other if later else word
        i += 1 - np.int64(later)
        j += np.int64(later)
        slot += 1
        word, other = one[k], two[m]
        later = other < word
        into[upper] = other if later else word
        k += 1 - np.int64(later)
        m += np.int64(later)
        upper += 1
    merge_plainly(one[i:a], two[j:b], into[slot:half])
    merge_plainly(one[k:], two[m:], into[upper:])


@kernel
def merge_pass(words: Words, cuts: Positions, runs: Int, merged: Words) -> int:
    """Merge neighbouring runs into the same places of another array; return how many are left.

    Updates ``cuts`` to where these begin.
    """
    for run in range(0, runs - 1, 2):
        first, middle, last = cuts[run], cuts[run + 1], cuts[run + 2]
        merge_two(words[first:middle], words[middle:last], merged[first:last])
    if runs % 2:
        first, last = cuts[runs - 1], cuts[runs]
        merged[first:last] = words[first:last]
    return halve(cuts, runs)


@inlined
def halve(cuts: Positions, runs: Int) -> Int:
    """Remove every second cut; return how many runs are left."""
    end, left = cuts[runs], (runs + 1) // 2
    for run in range(left):
        cuts[run] = cuts[2 * run]
    cuts[left] = end
    return left


@kernel
def merge_passes(words: Words, starts: Positions, spare: Words) -> bool:
    """Merge all runs, neighbours first, pass by pass; tell whether the result is in ``spare``."""
    cuts = starts.copy()
    runs, swapped = cuts.size - 1, False
    while runs > 1:
        runs = merge_pass(words, cuts, runs, spare)
        words, spare = spare, words
        swapped = not swapped
    return swapped


@kernel
def sample(words: Words, starts: Positions, step: Int) -> Words:
    """Return every ``step``-th word of each run, all sorted together."""
    count = 0
    for run in range(starts.size - 1):
        count += (starts[run + 1] - starts[run]) // step
    samples, slot = np.empty(count, np.uint64), 0
    for run in range(starts.size - 1):
        for place in range(starts[run] + step, starts[run + 1] + 1, step):
            samples[slot] = words[place - 1]
            slot += 1
    samples.sort()
    return samples


def merge_runs(words: Words, starts: Positions) -> Words:
    """Return the words of sorted runs, sorted: all merged at once."""
    if starts.size == 2:
        return words
    merged = np.empty_like(words)
    merge_all(words, starts, merged)
    return merged


@kernel
def merge_all(words: Words, starts: Positions, merged: Words, step: Int = STRETCH_WORDS) -> None:
    """Merge all runs at once, stretch by stretch."""
    count = starts.size - 1
    samples = sample(words, starts, step)
    at, ends, cuts = starts[:-1].copy(), starts[1:].copy(), np.zeros(count + 1, np.int64)
    one = np.empty(min(count * step, words.size), np.uint64)
    two = np.empty_like(one)
    done = starts[0]
    for stretch in range(samples.size + 1):
        for run in range(count):
            ends[run] = min(at[run] + step, starts[run + 1])
            if stretch < samples.size:
                limit = samples[stretch]
                ends[run] = at[run] + np.searchsorted(words[at[run] : ends[run]], limit, "right")
            cuts[run + 1] = cuts[run] + ends[run] - at[run]
        into = merged[done : done + cuts[count]]
        done += cuts[count]
        # The first pass reads from ``words``, the last one writes to ``merged``.
        source = into if count <= 2 else one
        for run in range(0, count, 2):
            given = source[cuts[run] : cuts[min(run + 2, count)]]
            if run + 1 < count:
                others = words[at[run + 1] : ends[run + 1]]
                merge_two(words[at[run] : ends[run]], others, given)
            else:
                given[:] = words[at[run] : ends[run]]
        at[:] = ends
        runs, other = halve(cuts, count), two
        while runs > 1:
            target = into if runs == 2 else other
            runs = merge_pass(source, cuts, runs, target)
            source, other = target, source
