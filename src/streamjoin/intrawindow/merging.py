"""Merging sorted runs of words: two at a time in passes, or all at once by a tree of losers.

The tree compares the heads of all runs (Knuth, volume 3, 5.4.1). Its leaves are runs, each inner
node remembers who lost there, and the winner of all is written out; then only the path from its run
to the root is played again::

    runs  0: 3 8    1: 5    2: 4 9    3: 6        winner 0
                                                 0 beat 2, who had beaten 3; 0 beat 1
    write 3, run 0 shows 8: 1 beats 0, 2 beats 1 -> winner 2
"""

import numpy as np

from streamjoin.intrawindow.words import Words
from streamjoin.kernels import Int, Positions, kernel

OVER = np.uint64(2**64 - 1)  # a run that is through; no tuple's row number is so large


@kernel
def merge_two(words: Words, first: Int, middle: Int, last: Int, merged: Words) -> None:
    """Merge two neighbouring runs into the same places of another array."""
    one = words[first:middle]
    two = words[middle:last]
    into = merged[first:last]
    i, j, slot = 0, 0, 0
    while i < one.size and j < two.size:
        a, b = one[i], two[j]
        later = b < a
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


@kernel
def merge_passes(words: Words, starts: Positions, spare: Words) -> bool:
    """Merge all runs, neighbours first, pass by pass; tell whether the result is in ``spare``."""
    cuts = starts.copy()
    runs, swapped = cuts.size - 1, False
    while runs > 1:
        for pair in range(runs // 2):
            merge_two(words, cuts[2 * pair], cuts[2 * pair + 1], cuts[2 * pair + 2], spare)
        if runs % 2:
            first, last = cuts[runs - 1], cuts[runs]
            spare[first:last] = words[first:last]
        end = cuts[runs]
        left = (runs + 1) // 2
        for run in range(left):
            cuts[run] = cuts[2 * run]
        cuts[left] = end
        runs = left
        words, spare = spare, words
        swapped = not swapped
    return swapped


@kernel
def merge_all(words: Words, starts: Positions, merged: Words) -> None:
    """Merge all runs at once, by a tree of losers."""
    runs = starts.size - 1
    leaves = 1
    while leaves < runs:
        leaves *= 2
    at, ends = np.zeros(leaves, np.int64), np.zeros(leaves, np.int64)
    at[:runs] = starts[:runs]
    ends[:runs] = starts[1:]
    heads = np.empty(leaves, np.uint64)
    for run in range(leaves):
        heads[run] = words[at[run]] if at[run] < ends[run] else OVER
    losers, winners = np.zeros(leaves, np.int64), np.empty(2 * leaves, np.int64)
    for run in range(leaves):
        winners[leaves + run] = run
    for node in range(leaves - 1, 0, -1):
        a, b = winners[2 * node], winners[2 * node + 1]
        winners[node], losers[node] = (b, a) if heads[b] < heads[a] else (a, b)
    winner = winners[1]
    for slot in range(starts[0], starts[runs]):
        head = heads[winner]
        merged[slot] = head
        place = at[winner] + 1
        at[winner] = place
        head = words[place] if place < ends[winner] else OVER
        heads[winner] = head
        node = (leaves + winner) >> 1
        while node > 0:  # without branches: who wins is a guess
            loser = losers[node]
            other = heads[loser]
            beaten = other < head
            losers[node] = winner if beaten else loser
            winner = loser if beaten else winner
            head = other if beaten else head
            node >>= 1
