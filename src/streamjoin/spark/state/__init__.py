"""State in Spark's state store: segments, the facts they belong to, seals, shared files."""
