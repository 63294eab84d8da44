"""``streamjoin demo``: live streams joined while they run, then checked by someone else.

A *scenario* (`data_centres`, `prices`) generates a pair of endless streams from a seed. Two ways
run them:

* `on_spark`: both as streaming queries, side by side, over files that appear while they run;
* `in_process`: prices alone, pushed into a `streamjoin.StreamJoin`, for machines without Spark.

Both are paced like a live feed, so a latency is what a user would see. Event times are slightly
out of order and the watermark follows well behind, so no row is late, and the answer is that of
the whole input: DuckDB computes it in one go, and both must give the same multiset of rows.

All data come from the seed and the length in seconds, so a run can be repeated.
"""
