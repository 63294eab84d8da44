"""Which pair of a left row is the better one: ranks, and what decides where they are level."""
