"""How large the SPO-Join benchmarks are."""

from benchmarks.harness.scale import Scale, Sized

WINDOWS = Sized([100_000, 200_000, 500_000, 1_000_000], quick=[10_000, 100_000], tiny=[2_000])
MATCH_RATES = Sized([1, 10, 100, 1_000, 10_000], quick=[1, 100], tiny=[10])  # in the largest window
SLOW_TUPLES = Sized(full=32, quick=16, tiny=4)  # of a rival's turn, in the largest window
ROUNDS = Sized(full=5, quick=2, tiny=1)
TABLE_ROWS = Sized(full=300_000, quick=30_000)
ROW_PAIRS, COUNTED_PAIRS = Sized(full=1e6, quick=1e5), Sized(full=1e8, quick=1e6)


def pick_largest(scale: Scale) -> int:
    """Return the largest window."""
    return scale.pick(WINDOWS)[-1]


def tuples_of(scale: Scale, window: int) -> int:
    """Return how many tuples a rival gets in a turn."""
    slow = scale.pick(SLOW_TUPLES)
    return min(slow * pick_largest(scale) // window, 16 * slow)


def share_of(window: int) -> int:
    """Return how many tuples of a window are in its mutable part, as most of the paper has it."""
    return max(window // 10, 1)
