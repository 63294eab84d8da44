"""What users call in process: `StreamJoin`, `join_tables`, `find_matches` and `explain`.

It sits above the engine and handles what comes from outside: batches of any library, options,
threads, interrupts, snapshots. Jobs, Spark, calibration and the command line import it.
"""
