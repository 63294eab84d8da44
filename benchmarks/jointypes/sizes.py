"""How large the runs of this suite are."""

from benchmarks.harness.scale import Sized

TABLE_ROWS = Sized(full=1_000_000, quick=20_000)
OUTER_ROWS = Sized(full=1_000_000, quick=20_000)
PUSHES = Sized(full=64, quick=4)
PUSH_ROWS = Sized(full=1 << 14, quick=1 << 10)
ROUNDS = Sized(full=9, quick=2)
SPARK_ROWS = Sized(full=20_000, quick=1_000)
SPARK_BATCH_ROWS = Sized(full=200_000, quick=5_000)
SYMBOLS = 1_000
AGGREGATED_LEFT = Sized(full=20_000, quick=200)
AGGREGATED_RIGHT = Sized(full=1_000_000, quick=20_000)
MATCHES = Sized(full=1_000, quick=100)
