"""How large the suite of intra-window joins is: as in the paper where time and memory permit.

Rates are tuples per ms and windows ms. Rates and numbers of rows are the paper's, and divided by
``SHRINK``, which `shrink_rate` and `shrink_rows` do.
"""

from benchmarks.harness.scale import Scale, Sized

SHRINK = Sized(full=1, quick=100)
ROUNDS = Sized(full=5, quick=1)  # where a target is asked for
RATES = Sized((1_600, 3_200, 6_400, 12_800, 25_600), quick=(1_600, 6_400, 25_600))
WINDOW = Sized(full=1_000, quick=200)
DUPES, DUPE_RATE = Sized(full=(1, 10, 50, 100), quick=(1, 50)), 6_400
SKEWS = Sized(full=(0.0, 0.4, 0.8, 1.2, 1.6), quick=(0.0, 0.8, 1.6))
ARRIVAL_SKEW_RATE, KEY_SKEW_RATE = 1_600, 12_800  # for Fig. 12 and 13
WINDOWS = Sized(full=(500, 1_000, 1_500, 2_500), quick=(100, 300))
WINDOWS_RATE = 6_400  # the paper: 12,800, for which the eager joins take minutes
YSB_RATE, DEBS_ROWS = 10_000, 1_000_000
KNOB_ROWS = 6_400_000  # for Fig. 15 and 16; the paper: 12.8 million and 128 million
SORTING_STEPS = Sized(full=(1, 5, 10, 20, 30, 40, 50), quick=(5, 20, 50))  # of a hundred rows
RADIX_ROWS = (12_800_000, 128_000_000)  # for Fig. 18
RADIX_BITS = Sized(full=(8, 10, 12, 14, 16, 18), quick=(8, 12))


def shrink_rate(scale: Scale, rate: int) -> float:
    """Return a rate of the paper, as it is here."""
    return rate / scale.pick(SHRINK)


def shrink_rows(scale: Scale, rows: int) -> int:
    """Return a number of rows of the paper, as it is here."""
    return rows // scale.pick(SHRINK)
