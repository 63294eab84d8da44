"""The PIM-Tree paper: structures, tuples one at a time, threads, drift, latency."""
