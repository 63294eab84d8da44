"""What users call in process: `StreamJoin`, `join_tables`, `find_matches` and `explain`.

It stands above the engine and deals with what users may pass: batches of any library, options,
threads, interrupts, snapshots. Jobs, Spark, calibration and the command line import it.
"""
