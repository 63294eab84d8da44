"""Values as int64 keys: ordered, hashed, combined; and the ranges that a condition allows.

`plans`, `indexes` and everything above them import it; it imports conditions, expressions and
kernels.
"""
