"""Joins two data streams, or two tables, by any condition, inside a sliding window."""
