"""From ranges of candidates to pairs of rows, and from pairs to joined Arrow rows.

All kinds of joins use it; it knows the subwindows of `joins.sliding` and no executor.
"""
