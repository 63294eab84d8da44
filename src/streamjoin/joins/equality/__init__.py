"""Joins of one window by equality: lazy and eager algorithms over plain arrays."""
