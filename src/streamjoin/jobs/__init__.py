"""Joins that are described in a file: reading it, and the join it describes.

`spark` and `cli` run jobs; this package imports options and below.
"""
