"""Aggregates over the matches of each left row, without writing the matches.

There are two ways to them, which give the same::

    pairs     pairs of rows, found and checked in blocks, are added to one state per left row
    ranges    where matches are ranges of the right rows in some order, each left row asks a
              structure over that order: prefix sums, or a tree

`aggregation` chooses; `ranges` finds the ranges; `sums`, `extremes` and `edges` have the states.
"""
