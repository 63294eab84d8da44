"""Chooses the structure or algorithm that serves a join best, from costs, rules and samples.

Pure: it looks at numbers and returns a choice. It knows plans and keys, not the joins that use it.
"""
