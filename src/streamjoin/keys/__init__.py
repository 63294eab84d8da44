"""Turns values into int64 keys (sorted, hashed, combined), and conditions into ranges of keys.

`plans`, `indexes` and everything above them import it; it imports conditions, expressions and
kernels.
"""
