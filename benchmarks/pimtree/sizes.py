"""How large the benchmarks of indexes over whole windows are."""

from benchmarks.harness.scale import Sized


def list_powers(first: int, last: int, step: int = 1) -> list[int]:
    """Return powers of two, from 2^first to 2^last.

    >>> list_powers(3, 5)
    [8, 16, 32]
    """
    return [1 << shift for shift in range(first, last + 1, step)]


WINDOWS = Sized(full=list_powers(16, 23), quick=list_powers(14, 18, 2))
SOME_WINDOWS = Sized(full=list_powers(16, 20, 2), quick=[1 << 16])  # where not all are needed
MIDDLE_WINDOW = Sized(full=1 << 20, quick=1 << 16)  # where it is not what varies
DISSECTED_WINDOWS = Sized(full=[1 << 17, 1 << 23], quick=[1 << 16])  # step by step
NESTED_WINDOWS = Sized(full=list_powers(10, 20, 2), quick=list_powers(10, 14, 2))
MODELLED_WINDOWS = Sized(full=list_powers(16, 23), quick=list_powers(12, 15))
CHAIN_LENGTHS = Sized(full=[2, 3, 4, 6, 8], quick=[2, 4])
MERGE_RATIOS = Sized([2.0**shift for shift in range(-6, 1)], [2.0**-6, 2.0**-3, 1.0])
MATCH_RATES = Sized([2.0**shift for shift in range(-4, 11)], [2.0**-4, 2.0, 2.0**10])
POINT_SECONDS = Sized(full=1.0, quick=0.2)  # for one point of a figure
