"""Joins described in a file: what such a file may say, and how it is read.

`spark` and `cli` run jobs; this package imports options and below.
"""
