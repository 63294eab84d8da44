"""The join on Spark against Spark's own."""
