"""``streamjoin demo``: live streams joined while they run, then checked by DuckDB.

A *scenario* (`data_centres`, `prices`) generates a pair of endless streams from a seed. They run in
two ways:

* `on_spark`: both as streaming queries, side by side, over files that appear while they run;
* `in_process`: prices alone, pushed into a `streamjoin.StreamJoin`, for machines without Spark.

Both are paced like a live feed, so latencies are what a user would see. Event times are slightly
out of order and the watermark stays well behind them, so no row is late, and the answer is that of
the whole input: DuckDB computes it in one go, and both must have the same multiset of rows.

All data follow from the seed and the length in seconds, so a run can be repeated.
"""
