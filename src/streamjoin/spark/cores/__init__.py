"""What runs in a join core, one per partition: the join of its rows, with state."""
