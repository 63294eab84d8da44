"""Results in order: which of them may come already, and how they are put together.

`joins.split`, `joins.shared` and the cores on Spark use it.
"""
