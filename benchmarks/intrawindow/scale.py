"""How large the suite of intra-window joins is: as in the paper where time and memory permit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes; rates are tuples a ms, windows ms."""

    shrink: int  # what rates and rows are divided by
    repeats: int  # where a target is asked for
    rates: tuple[int, ...] = (1_600, 3_200, 6_400, 12_800, 25_600)
    window: int = 1_000
    dupes: tuple[int, ...] = (1, 10, 50, 100)
    dupe_rate: int = 6_400
    skews: tuple[float, ...] = (0.0, 0.4, 0.8, 1.2, 1.6)
    arrival_rate: int = 1_600  # for Fig. 12
    key_rate: int = 12_800  # for Fig. 13
    windows: tuple[int, ...] = (500, 1_000, 1_500, 2_500)
    window_rate: int = 6_400  # the paper: 12,800, for which the eager joins take minutes
    ysb_rate: int = 10_000
    debs_rows: int = 1_000_000
    knob_rows: int = 6_400_000  # for Fig. 15 and 16; the paper: 12.8 million and 128 million
    deltas: tuple[int, ...] = (1, 5, 10, 20, 30, 40, 50)  # of a hundred rows
    radix_rows: tuple[int, int] = (12_800_000, 128_000_000)  # for Fig. 18
    bits: tuple[int, ...] = (8, 10, 12, 14, 16, 18)

    def rate(self, rate: int) -> float:
        """Return a rate of the paper, as it is here."""
        return rate / self.shrink

    def rows(self, rows: int) -> int:
        """Return a number of rows of the paper, as it is here."""
        return rows // self.shrink


FULL = Scale(shrink=1, repeats=5)
QUICK = Scale(
    *(100, 1, (1_600, 6_400, 25_600), 200),
    dupes=(1, 50),
    skews=(0.0, 0.8, 1.6),
    windows=(100, 300),
    deltas=(5, 20, 50),
    bits=(8, 12),
)


def scale_of(quick: bool) -> Scale:
    """Return the sizes of a run."""
    return QUICK if quick else FULL
