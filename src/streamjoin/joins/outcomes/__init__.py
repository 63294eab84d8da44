"""What a join gives: pairs, rows that match something, rows that match nothing.

::

    outcome       from pairs, and from rows without one, to the rows of the result
    reduction     all pairs of a left row together: what `keep` and `aggregates` have in common
    keep          the k best pairs of each left row
    ranking       which pair is the better one
    neighbours    the same without a search, where the order of one key tells
    aggregates    one row for each left row
"""
