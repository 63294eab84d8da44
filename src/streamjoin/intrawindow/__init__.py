"""Joins of one closed window by equality: lazy and eager algorithms over plain arrays."""
