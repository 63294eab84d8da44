"""Stock and Rovio: the real inputs of the intra-window study, or streams that are like them.

The files are read from the folder that ``STREAMJOIN_STUDY_DATA`` names. Where they are not at hand,
a seeded generator draws streams with their statistics: tuples, distinct keys, how often the most
frequent key, the second one, ... occurs, distinct times, how many tuples the largest spike has, the
second, ..., and matches::

    count                            knots of a curve (rank, count), between which
    1163 *                           log count is linear in log rank
         *  *                        left and right: the same key has about the same rank; how
               *     *     * 1       nearly so (``noise``) makes the number of matches
         1  2  10   100  894  rank

Rovio joins a stream with itself by the user. (The pack has the same number of values, 160, and a
user always buys the same pack, so that the pack, or both together, give the same 36,002,768 pairs;
with the price it would be 94,898.)
"""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from benchmarks.intrawindow.workloads import SEED, Workload, count_matches
from streamjoin.kernels.compile import Keys

VARIABLE = "STREAMJOIN_STUDY_DATA"
KEYS = 100_000_000  # keys are below this
ROVIO_ROWS, ROVIO_USERS, ROVIO_SPIKE, ROVIO_GAP = 58_300, 160, 100, 10.28
ROVIO_SPAN = 0.2  # ms that a spike lasts, so that some are in two milliseconds
ROVIO_CURVE = (900, 824, 738, 601, 437, 297, 176, 99, 51, 25, 8)  # a user in 16, by frequency

Counts = NDArray[np.int64]
Pair = tuple[Keys, Keys]
Curve = dict[int, int]  # of some ranks, the greatest first


@dataclass(frozen=True)
class Side:
    """What a stream of Stock is like."""

    rows: int
    keys: Curve
    spikes: Curve
    burst: int  # tuples of a key that come one after the other


@dataclass(frozen=True)
class Likeness:
    """What both are like; the left keys, and times, are among the right ones."""

    seconds: int
    left: Side
    right: Side
    noise: float
    early: tuple[int, float]  # by that time, ms, the largest spikes are over, with so many tuples


SECOND = Likeness(
    1,
    Side(
        60_527,
        {1: 1163, 5: 650, 19: 400, 46: 250, 80: 160, 160: 100, 284: 60, 460: 35, 601: 22, 720: 14}
        | {780: 9, 838: 4, 877: 2, 894: 1},
        {1: 3358, 2: 2391, 4: 1824, 9: 1482, 18: 1286, 36: 848, 46: 650, 53: 160, 63: 35, 74: 1},
        8,
    ),
    Side(
        77_227,
        {1: 1213, 7: 650, 20: 400, 62: 250, 119: 160, 217: 100, 374: 60, 585: 35, 745: 22, 821: 14}
        | {860: 9, 899: 4, 933: 2, 984: 1},
        {1: 4442, 2: 3072, 4: 2315, 9: 1893, 19: 1592, 40: 1114, 46: 650, 56: 160, 67: 35, 84: 1},
        8,
    ),
    0.3,
    (1_000, 1.0),
)
MINUTE = Likeness(
    60,
    Side(
        194_341,
        {1: 427, 6: 250, 15: 160, 29: 100, 67: 60, 179: 35, 444: 22, 1_025: 14, 2_243: 9, 4_753: 6}
        | {9_932: 4, 16_294: 3, 31_728: 2, 93_601: 1},
        {1: 3358, 11: 1482, 62: 650, 117: 250, 209: 100, 531: 35, 1_630: 14, 4_761: 6, 8_432: 3}
        | {10_386: 2, 12_923: 1},
        4,
    ),
    Side(
        240_148,
        {1: 204, 7: 160, 14: 100, 18: 35, 26: 22, 90: 14, 287: 9, 1_013: 6, 4_321: 4, 11_802: 3}
        | {39_170: 2, 177_461: 1},
        {1: 4442, 11: 1893, 77: 650, 131: 250, 257: 100, 517: 35, 1_297: 14, 5_757: 6, 11_076: 3}
        | {13_032: 2, 14_943: 1},
        1,
    ),
    2.0,
    (6_000, 0.65),
)


def make_stock(seconds: int = 1, files: bool = True) -> Workload:
    """Return trades and quotes of 1 or 60 seconds; without ``files``, what is like them."""
    likeness = {1: SECOND, 60: MINUTE}[seconds]
    folder = find_data() if files else None
    if folder is None:
        return draw_stock(likeness)
    length = "1000ms" if seconds == 1 else "60s"
    columns = [
        read_file(folder / f"stock_{side}_{length}_1t.txt.gz", (0, 1)) for side in ("cj", "sb")
    ]
    (left, left_times), (right, right_times) = columns
    keys, times = (left, right), (left_times, right_times)
    return make_workload(f"Stock {seconds} s", keys, times, seconds, "files")


def make_rovio(files: bool = True) -> Workload:
    """Return Rovio's six seconds, joined with themselves; without ``files``, what is like them."""
    folder = find_data() if files else None
    keys, times = (
        draw_rovio() if folder is None else read_file(folder / "rovio_6s_1t.txt.gz", (0, 3))
    )
    source = "generated" if folder is None else "files"
    return make_workload("Rovio 6 s", (keys, keys), (times, times), 6, source)


def make_workload(name: str, keys: Pair, times: Pair, seconds: int, source: str) -> Workload:
    """Return a workload of keys and of times in whole ms, left and right."""
    lefts, rights = (each.astype(np.float64) for each in times)
    matches = count_matches(*keys)
    return Workload(name, *keys, lefts, rights, seconds * 1_000, matches, source)


def find_data() -> Path | None:
    """Return where the study's files are, or None."""
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_dir():
        raise FileNotFoundError(2, f"{VARIABLE} names a folder that does not exist", named)
    return Path(named) if named and (Path(named) / "rovio_6s_1t.txt.gz").is_file() else None


def read_file(path: Path, columns: tuple[int, int]) -> Pair:
    """Read keys and times from a file."""
    with gzip.open(path) as file:
        options = pa.csv.ReadOptions(autogenerate_column_names=True)
        table = pa.csv.read_csv(file, options, pa.csv.ParseOptions(delimiter="|"))
    keys, times = (table.column(each).to_numpy().astype(np.int64) for each in columns)
    return keys, times


def spread_counts(curve: Curve, total: int) -> Counts:
    """Return a count for each rank, at least 1, which follow the curve and add up to ``total``."""
    ranks = np.arange(1, max(curve) + 1)
    knots = np.log(list(curve)), np.log(list(curve.values()))
    counts = np.exp(np.interp(np.log(ranks), *knots) + 1e-9).astype(np.int64)
    while missing := total - int(counts.sum()):  # spread what rounding, and the curve, leave
        inner = np.flatnonzero(counts[1:] > (missing < 0)) + 1  # the greatest stays as it is
        weights = counts[inner] / counts[inner].sum()
        change = np.trunc(missing * weights).astype(np.int64)
        if not change.any():
            change[: abs(missing)] = np.sign(missing)
        counts[inner] = np.maximum(counts[inner] + change, 1)
    return counts


def draw_stock(likeness: Likeness, seed: int = SEED) -> Workload:
    """Draw trades and quotes."""
    rng = np.random.default_rng(seed)
    left, right = (spread_counts(side.keys, side.rows) for side in (likeness.left, likeness.right))
    names = rng.choice(KEYS, right.size, replace=False)
    ranks = np.log(np.arange(1, right.size + 1)) + rng.normal(0, likeness.noise, right.size)
    right_counts = np.empty_like(right)
    right_counts[np.argsort(ranks)] = right
    keys = (
        shuffle_bursts(rng, names[: left.size], left, likeness.left.burst),
        shuffle_bursts(rng, names, right_counts, likeness.right.burst),
    )
    times = draw_spikes(rng, likeness)
    return make_workload(f"Stock {likeness.seconds} s", keys, times, likeness.seconds, "generated")


def shuffle_bursts(rng: np.random.Generator, names: Keys, counts: Counts, burst: int) -> Keys:
    """Return each key as often as it occurs, ``burst`` of them together, in random order."""
    bursts = -(-counts // burst)
    keys = np.repeat(names, bursts)
    last = np.cumsum(bursts) - 1
    sizes = np.full(keys.size, burst)
    sizes[last] = counts - (bursts - 1) * burst
    order = rng.permutation(keys.size)
    return np.repeat(keys[order], sizes[order])


def draw_spikes(rng: np.random.Generator, likeness: Likeness) -> Pair:
    """Return the times of both streams: the largest spikes of both are at the same times."""
    left, right = (
        spread_counts(side.spikes, side.rows) for side in (likeness.left, likeness.right)
    )
    end, share = likeness.early
    early = int(np.searchsorted(np.cumsum(right), share * right.sum())) + 1
    first = rng.permutation(end)[:early]
    later = rng.permutation(np.arange(end, likeness.seconds * 1_000))[: right.size - early]
    at = np.concatenate([first, later])
    drawn = [np.sort(np.repeat(at[: sizes.size], sizes)) for sizes in (left, right)]
    return drawn[0], drawn[1]


def draw_rovio(seed: int = SEED) -> Pair:
    """Draw users, whose frequencies fall exponentially, and times: a hundred tuples every 10 ms."""
    rng = np.random.default_rng(seed)
    curve = np.interp(np.arange(ROVIO_USERS), np.linspace(0, ROVIO_USERS - 1, 11), ROVIO_CURVE)
    users = rng.choice(KEYS, ROVIO_USERS, replace=False)
    drawn = np.repeat(np.arange(ROVIO_USERS), np.rint(curve).astype(np.int64))
    drawn = np.resize(rng.permutation(drawn), ROVIO_ROWS)
    spikes, places = np.divmod(np.arange(ROVIO_ROWS), ROVIO_SPIKE)
    times = (spikes * ROVIO_GAP + places / ROVIO_SPIKE * ROVIO_SPAN).astype(np.int64)
    return users[rng.permutation(drawn)], times
