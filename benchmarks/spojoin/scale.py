"""How large the SPO-Join benchmarks are, and which figures of the paper they draw."""

from dataclasses import dataclass

RATE, WINDOW = "tuples/s", "tuples in a window"
HASH, BITS = "hash sets", "bit arrays"
SEED = 11


@dataclass(frozen=True)
class Scale:
    """Sizes, and how often things are measured."""

    windows: list[int]
    matches: list[float]  # rows of a window of the largest size that a row meets
    slow: int  # tuples that a rival gets in a turn, for windows of the largest size
    rounds: int
    table_rows: int
    table_pairs: tuple[float, float]  # results to materialise, and to count

    @property
    def largest(self) -> int:
        """The largest window."""
        return self.windows[-1]

    @property
    def smallest(self) -> int:
        """The smallest window."""
        return self.windows[0]

    def tuples(self, window: int) -> int:
        """Return how many tuples a rival gets in a turn."""
        return min(self.slow * self.largest // window, 16 * self.slow)


def scale_of(quick: bool) -> Scale:
    """Return the sizes; ``quick`` has windows and tables that are ten times smaller."""
    if quick:
        return Scale([10_000, 100_000], [1, 100], 16, 2, 30_000, (1e5, 1e6))
    return Scale(
        [100_000, 200_000, 500_000, 1_000_000],
        [1, 10, 100, 1_000, 10_000],
        32,
        5,
        300_000,
        (1e6, 1e8),
    )


def share_of(window: int) -> int:
    """Return how many tuples of a window are in its mutable part, as most of the paper has it."""
    return max(window // 10, 1)
