"""Joins that are described in a file."""
