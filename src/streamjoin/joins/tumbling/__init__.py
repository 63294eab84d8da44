"""Tumbling windows: rows that wait, windows that close, and those joined as rows come."""
