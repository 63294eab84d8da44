"""What the user asked for: every option of a join, listed once and checked once.

`api`, `jobs`, `cli` and `spark` import it; it imports plans and below.
"""
