"""The in-process engine against DuckDB, Polars and a nested loop."""
