"""On the driver: from DataFrames and a condition to a `JoinSpec`, which is sent to the workers."""
