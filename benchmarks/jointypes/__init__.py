"""Join types: what as-of joins, and rows without a match, cost."""
