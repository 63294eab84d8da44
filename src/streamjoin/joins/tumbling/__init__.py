"""Tumbling windows: rows that wait, windows that close, and windows joined as rows arrive."""
