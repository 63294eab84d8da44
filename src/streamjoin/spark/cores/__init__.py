"""Join cores, one per partition: each joins its rows in a micro-batch, with state."""
