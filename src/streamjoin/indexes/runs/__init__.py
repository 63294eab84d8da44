"""Structures of sorted runs: BI-Sort, and the nested loop that compares with all."""
