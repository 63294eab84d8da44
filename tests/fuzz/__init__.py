"""A differential fuzzer: random joins, judged by DuckDB and Spark. Run it by ``make fuzz``.

::

    block (100 cases)           two tables of all types, some thirty conjuncts over their columns
      rows.py, conjuncts.py
      truths.py                 each conjunct over all pairs of rows: DuckDB's or Spark's own answer
    case                        1 to 4 of the conjuncts, some of the rows, window, options, cuts
      cases.py
      kinds.py, aggregates.py   what the join gives: how, keep, aggregate, late and early rows
      nested_loop.py            the pairs that the window leaves, as docs/guide/windows.md says
      outcomes.py               what comes of them: DuckDB's outer, semi and anti joins, ranks, sums
      running.py                the rows that streamjoin gives
      deadlines.py              when they must be out
    different?
      shrinking.py, programs.py fewer conjuncts, rows, pushes, options; then a program to run

A condition is a conjunction and each conjunct is judged alone, so nothing has to be asked again
when conjuncts or rows are dropped, and one question to Spark serves a hundred cases. A number
decides everything about a case, and ``python -m tests.fuzz --case NUMBER`` runs it again. Nothing
of streamjoin is used to find out what is right.
"""
