"""Everything is there at once: the eight joins against the study's own C++ code.

``STUDY`` is what that code does with the same inputs, compiled on a machine like the one the
targets are for: two cores and two threads, matches counted, million input tuples a second. Like it,
our joins are given words, 8 bytes with key and row number, and count; the targets are for this.
Besides, it is measured what the words take to make from 64-bit keys, and what the pairs take to be
written out: all of them kept in arrays where they are few or where the workload is named in
``KEPT``, and otherwise in blocks. Eager joins get the rows in ``STEPS`` pushes or more, so that
they find matches on the way.

The C++ code goes through the matches one by one to count them, and writes nothing. Ours finds runs
of tuples with equal keys: to count is less work than theirs where keys have many duplicates, and to
write the pairs is more. So both are reported beside the C++ figure; with unique keys they are close
to each other, and with d100, Stock 1 s and Rovio the truth is between them.

The joins take turns, so that a second in which the machine is slow is one run of each and not all
runs of one. Memory that a join has left is kept for the next one (`machine.keep_memory`).
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.series import Series
from benchmarks.harness.turns import repeat, take_turns, time_call
from benchmarks.intrawindow.algorithms import LABELS, THREADS, make_eager_for
from benchmarks.intrawindow.inputs import make_rovio, make_stock
from benchmarks.intrawindow.simulator import BLOCK, SHARED, STEP, EncodedWorkload, encode_workload
from benchmarks.intrawindow.sizes import ROUNDS, SHRINK
from benchmarks.intrawindow.workloads import Workload, make_static_micro
from streamjoin.indexes.catalogue import LAZY
from streamjoin.joins.equality.algorithms import make_lazy
from streamjoin.joins.equality.pieces import Piece
from streamjoin.kernels.compile import RowIds
from streamjoin.kernels.threads import share

UNIT = "M tuples/s"
SIZES = ((6_400_000, 1), (6_400_000, 10), (1_280_000, 100), (12_800_000, 1))  # rows a side, dupe
STUDY = {  # NPJ, PRJ, MWay, MPass, SHJ-JM, SHJ-JB, PMJ-JM, PMJ-JB
    "Micro d1, 6.4M x 6.4M": (30.8, 103.6, 40.1, 32.7, 4.9, 2.2, 5.6, 3.5),
    "Micro d10, 6.4M x 6.4M": (6.9, 55.3, 33.8, 28.1, 2.5, 1.4, 6.9, 4.0),
    "Micro d100, 1.28M x 1.28M": (0.58, 11.8, 14.9, 13.8, 0.44, 0.36, 4.9, 3.4),
    "Micro d1, 12.8M x 12.8M": (32.7, 111.4, 47.6, 37.6, 4.3, 1.9, 6.3, 3.4),
    "Stock 1 s": (5.6, 7.7, 10.6, 8.6, 2.8, 1.5, 3.3, 2.0),
    "Stock 60 s": (39.2, 69.5, 19.2, 23.3, 6.6, 2.6, 6.0, 3.4),
    "Rovio 6 s": (0.96, 2.9, 4.0, 7.2, 0.77, 0.31, 1.4, 1.1),
}
TARGETS = dict.fromkeys(LABELS, 1.0) | {"prj": 0.8, "mway": 0.8}  # of the study's figure
KEPT = ("Micro d1, ", "Micro d10, ")
FEW = 20_000_000  # matches of which all are kept
SMALL, SHORT = 1_000_000, 3  # inputs below which so many times as many runs are made
STEPS = 10

Block = tuple[RowIds, RowIds]


@dataclass(frozen=True)
class Run:
    """Seconds of one run."""

    counted: float
    written: float  # counted, and written out


def race_study(report: Report, scale: Scale) -> None:
    """Measure all workloads that the study's code was measured with."""
    sources = {}
    for name, make in make_workloads(scale).items():
        workload = make().resting()
        sources[workload.name] = workload.source
        with report.step(f"{workload.name}: eight joins, all there at once"):
            measure_workload(report, workload, STUDY[name], scale.pick(ROUNDS))
    report.detail("inputs at rest: source", sources)


def make_workloads(scale: Scale) -> dict[str, Callable[[], Workload]]:
    """Return what makes each of them: no two are held at once."""
    made: list[Callable[[], Workload]] = [
        partial(make_static_micro, rows // scale.pick(SHRINK), dupe) for rows, dupe in SIZES
    ]
    made += [partial(make_stock, 1), partial(make_stock, 60), make_rovio]
    return dict(zip(STUDY, made, strict=True))


def measure_workload(
    report: Report, workload: Workload, study: tuple[float, ...], repeats: int
) -> None:
    """Measure the joins on one workload, in turns, and claim."""
    repeats *= SHORT if workload.inputs < SMALL else 1
    words = make_speed_series(
        f"{workload.name}: words", workload, repeat(partial(time_encoding, workload), repeats)
    )
    report.add(words)
    arrivals = encode_workload(workload)
    rivals = {name: partial(run_once, name, arrivals) for name in LABELS}
    runs = take_turns(rivals, repeats, warmup=1)
    rows = {}
    for (name, label), figure in zip(LABELS.items(), study, strict=True):
        title = f"{workload.name}: {label}"
        ours = make_speed_series(title, workload, [run.counted for run in runs[name]])
        written = make_speed_series(
            f"{title}, pairs", workload, [run.written for run in runs[name]]
        )
        report.add(written)
        rows[label] = {
            "counted": round(ours.median, 3),
            "C++, counted": figure,
            "counted, times the C++": round(ours.median / figure, 3),
            "pairs written, times the C++": round(written.median / figure, 3),
            "counted, words made": round(combine_rates(ours, words), 3),
            "pairs written": round(written.median, 3),
            "pairs written, words made": round(combine_rates(written, words), 3),
        }
        note = f"{written.median / figure:.3g} with pairs written, which the C++ does not do; "
        note += f"{combine_rates(ours, words) / figure:.3g} with words made"
        theirs = Series(f"{title}, C++", (figure,), UNIT)
        report.rate_ratio(f"{title}, counted", ours, theirs, TARGETS[name], note)
    report.detail(f"{workload.name}, at rest: {UNIT}", rows)


def make_speed_series(name: str, workload: Workload, seconds: list[float]) -> Series:
    """Return million input tuples a second."""
    return Series(name, tuple(workload.inputs / each / 1e6 for each in seconds), UNIT)


def combine_rates(one: Series, other: Series) -> float:
    """Return how fast two things are, one after the other."""
    return 1 / (1 / one.median + 1 / other.median)


def time_encoding(workload: Workload) -> float:
    """Return the seconds that the words of a workload take."""
    gc.collect()
    return time_call(encode_workload, workload)


def run_once(name: str, arrivals: EncodedWorkload) -> Run:
    """Run a join once; it has to count, and to write, the matches that there are."""
    gc.collect()
    expected = arrivals.workload.matches
    keep = expected <= FEW or arrivals.workload.name.startswith(KEPT)
    matches, pairs, counted, written = 0, 0, 0.0, 0.0
    kept: list[Block] = []
    for find in list_steps(name, arrivals):
        begin = perf_counter()
        pieces = find()
        matches += sum(len(piece) for piece in pieces)
        found = perf_counter()
        pairs += write_pairs(pieces, kept if keep else None)
        counted += found - begin
        written += perf_counter() - begin
    assert matches == expected, f"{name} counts {matches} matches, not {expected}"
    assert pairs == expected, f"{name} writes {pairs} pairs, not {expected}"
    return Run(counted, written)


def list_steps(name: str, arrivals: EncodedWorkload) -> Iterator[Callable[[], list[Piece]]]:
    """Return what a join does, step by step; a lazy one has a single step."""
    left, right = arrivals.left, arrivals.right
    if name in LAZY:
        yield partial(make_lazy(name, THREADS).join, left, right)
        return
    join = make_eager_for(name, arrivals.workload.inputs)
    steps = max(STEPS, -(-max(left.size, right.size) // STEP))
    cuts = [np.linspace(0, side.size, steps + 1).astype(np.int64) for side in (left, right)]
    for (a, b), (c, d) in zip(pairwise(cuts[0]), pairwise(cuts[1]), strict=True):
        yield partial(join.push, left[a:b], right[c:d])
    yield join.close


def write_pairs(pieces: list[Piece], kept: list[Block] | None) -> int:
    """Write out the pairs of some pieces, and keep them, or drop each block; return how many."""

    def write_piece(piece: Piece) -> int:
        if kept is None:
            return sum(left.size for left, _ in piece.pairs(BLOCK))
        blocks = list(piece.pairs(max(len(piece), 1)))
        kept.extend(blocks)
        return sum(left.size for left, _ in blocks)

    many = sum(len(piece) for piece in pieces) >= SHARED
    return sum(share(write_piece, pieces, THREADS if many else 1))
