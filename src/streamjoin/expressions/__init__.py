"""SQL expressions over Arrow columns, with Spark's answers."""
