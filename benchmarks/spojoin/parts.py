"""The parts of SPO-Join, each against trees with hash sets and with bit arrays.

The immutable part, a permutation, against immutable trees; the mutable one, bit arrays over sorted
runs, against itself with hash sets, and both over B+-trees as in the paper; by query and window
(figures 7 to 9), by match rate (14, 15), and by the share of the window that is mutable (21).

A permutation is made for batches, which share its bit array: the claims are for 4,096 tuples a
call. Their notes have one tuple a call too, which is a call from Python for each, and none for the
rivals' compiled loops; what a call costs that finds nothing is measured beside it. The mutable
parts are half full: a twentieth of the window as in the paper, which is more than ours gets.
"""

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.harness.series import Series
from benchmarks.spojoin.ours import BATCH, FreshPart, PermutedPart
from benchmarks.spojoin.races import BITS, CHECKED, HASH, RATE, WINDOW, Entrant, race_parts
from benchmarks.spojoin.sizes import MATCH_RATES, ROUNDS, WINDOWS, pick_largest, share_of, tuples_of
from benchmarks.spojoin.sorted_runs import SortedRuns
from benchmarks.spojoin.tree_parts import ImmutableTrees, MutableTrees
from benchmarks.spojoin.workloads import QUERIES, SEED, Query, Rows, describe_data

ALONE, BATCHED, COUNTED = "permutation", "permutation, batches", "permutation, batches, counted"
RUNS, RUNS_HASHED = f"sorted runs, {BITS}", f"sorted runs, {HASH}"  # ours, however large
FRESH, FRESH_BATCHED = "SPO-Join", "SPO-Join, batches"
CALL = "an empty call"
IMMUTABLE, MUTABLE = 10, 3  # times a hash set
PIECES = (1, 10)  # of the rivals' immutable parts; the faster way counts
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
FIGURES = {"Q3": "spo7", "Q2": "spo8", "Q1": "spo9"}

SeriesByName = dict[str, Series]


def race_immutable_parts(query: Query, stored: Rows, scale: Scale) -> SeriesByName:
    """Measure the immutable part and its rivals over the same tuples."""
    few = tuples_of(scale, stored.first.size)
    entrants = {
        f"{name}, {pieces}": Entrant(ImmutableTrees(stored, name == HASH, pieces), few)
        for name in (HASH, BITS)
        for pieces in PIECES
    }
    entrants |= {
        ALONE: Entrant(PermutedPart(stored, batch=1), few),
        BATCHED: Entrant(PermutedPart(stored), BATCH),
        COUNTED: Entrant(PermutedPart(stored, writes=False), BATCH),
    }
    measured = race_parts(query, entrants, scale.pick(ROUNDS), SEED)
    for name in (HASH, BITS):
        both = [measured.pop(f"{name}, {pieces}") for pieces in PIECES]
        measured[name] = min(both, key=lambda series: series.median)
    return measured


def race_mutable_parts(query: Query, stored: Rows, scale: Scale) -> SeriesByName:
    """Measure the mutable part, half full, and its rivals over the same tuples."""
    few = tuples_of(scale, stored.first.size)
    room = max(few, CHECKED)
    entrants = {
        HASH: Entrant(MutableTrees(stored, room, hashed=True), few),
        BITS: Entrant(MutableTrees(stored, room, hashed=False), few),
        FRESH: Entrant(FreshPart(stored), few),
        FRESH_BATCHED: Entrant(FreshPart(stored, BATCH), BATCH),
    }
    measured = race_parts(query, entrants, scale.pick(ROUNDS), SEED)
    # Nothing is inserted here, so matches are fewer than those above.
    runs = {
        RUNS: Entrant(SortedRuns(stored, hashed=False), 8 * few),
        RUNS_HASHED: Entrant(SortedRuns(stored, hashed=True), 8 * few),
    }
    return measured | race_parts(query, runs, scale.pick(ROUNDS), SEED)


def measure_call(query: Query, rounds: int) -> Series:
    """Measure a call for one tuple where there is nothing to find."""
    part = PermutedPart(query.rows(np.random.default_rng(SEED), 1), batch=1)
    return race_parts(query, {CALL: Entrant(part, 1 << 10)}, rounds, SEED)[CALL]


def measure_windows(report: Report, scale: Scale, queries: dict[str, Query]) -> None:
    """Figures 7 to 9: both parts, by query and window."""
    for name in (query.name for query in QUERIES):
        query = queries[name]
        figures = {
            kind: Figure(
                f"{FIGURES[name]}{kind[0]}", f"{name}: {kind} part, 1 thread", WINDOW, RATE
            )
            for kind in ("immutable", "mutable")
        }
        fixed: dict[int, SeriesByName] = {}
        fresh: dict[int, SeriesByName] = {}
        for window in scale.pick(WINDOWS):
            with report.step(f"figure {FIGURES[name][3:]}: {name}, windows of {window:,}"):
                stored = query.rows(np.random.default_rng(SEED), window)
                fixed[window] = race_immutable_parts(query, stored, scale)
                half = stored.part(0, share_of(window) // 2)
                fresh[window] = race_mutable_parts(query, half, scale)
            for kind, measured in (("immutable", fixed), ("mutable", fresh)):
                for rival, series in measured[window].items():
                    figures[kind].add(rival, window, 1e6 / series.median)
                    report.add(series.add_place(f"{name}, {kind}, window of {window:,}"))
        report.figures += figures.values()
        report.detail(f"{name}: data", describe_data(query, stored, pick_largest(scale)))
        claim_immutable(report, name, fixed, measure_call(query, scale.pick(ROUNDS)))
        claim_mutable(report, name, fresh)


def claim_immutable(
    report: Report, name: str, fixed: dict[int, SeriesByName], call: Series
) -> None:
    """Claim what the immutable part has to reach for one query, in the worst of the windows."""
    alone, batched, counted = (
        {window: compare_medians(each, ours) for window, each in fixed.items()}
        for ours in (ALONE, BATCHED, COUNTED)
    )
    worst = min(batched, key=lambda window: batched[window])
    report.add(call.add_place(name))
    place = f"{name}, immutable, window of {worst:,}"
    one, other = (fixed[worst][each].add_place(place) for each in (BATCHED, HASH))
    report.speedup(
        f"{name}: immutable part vs trees and {HASH}",
        one,
        other,
        IMMUTABLE,
        f"{BATCH:,} tuples a call, by window: {list_ratios(batched)}; "
        f"only counted: {list_ratios(counted)}; one tuple a call: {list_ratios(alone)}, "
        f"where a call that finds nothing takes {call.median:.0f} us",
    )


def claim_mutable(report: Report, name: str, fresh: dict[int, SeriesByName]) -> None:
    """Claim what the mutable part has to reach for one query, in the worst of the windows."""
    runs = {window: compare_medians(each, RUNS, RUNS_HASHED) for window, each in fresh.items()}
    bits, ours = (
        {window: compare_medians(each, rival) for window, each in fresh.items()}
        for rival in (BITS, FRESH_BATCHED)
    )
    worst = min(runs, key=lambda window: runs[window])
    place = f"{name}, mutable, window of {worst:,}"
    one, other = (fresh[worst][each].add_place(place) for each in (RUNS, RUNS_HASHED))
    report.speedup(
        f"{name}: mutable part, {BITS} vs {HASH}",
        one,
        other,
        MUTABLE,
        f"over the same sorted runs, by window: {list_ratios(runs)}; over the same B+-trees, with "
        f"inserts: {list_ratios(bits)}; SPO-Join in batches vs B+-trees and {HASH}: "
        f"{list_ratios(ours)}",
    )


def compare_medians(measured: SeriesByName, ours: str, theirs: str = HASH) -> float:
    """Return how many times faster one is than another, by medians."""
    return measured[theirs].median / measured[ours].median


def list_ratios(ratios: dict[int, float]) -> str:
    """Return ratios as a note has them."""
    return ", ".join(f"{ratio:.1f}" for ratio in ratios.values())


def measure_match_rates(report: Report, scale: Scale, query: Query) -> None:
    """Figures 14 and 15: from few matches to many; the paper's synthetic data, Q3."""
    sizes = {"spo14": share_of(pick_largest(scale)) // 2, "spo15": pick_largest(scale)}
    figures = {
        name: Figure(
            name,
            f"{query.name}: {'mutable' if name == 'spo14' else 'immutable'} part of {size:,}",
            f"matches of a tuple in {pick_largest(scale):,}",
            RATE,
        )
        for name, size in sizes.items()
    }
    for matches in scale.pick(MATCH_RATES):
        tuned = query.with_matches(matches, pick_largest(scale))
        with report.step(f"figures 14, 15: {matches:,} matches a tuple"):
            stored = tuned.rows(np.random.default_rng(SEED), pick_largest(scale))
            measured = {
                "spo14": race_mutable_parts(tuned, stored.part(0, sizes["spo14"]), scale),
                "spo15": race_immutable_parts(tuned, stored, scale),
            }
        for name, each in measured.items():
            for rival, series in each.items():
                figures[name].add(rival, matches, 1e6 / series.median)
    report.figures += figures.values()


def measure_shares(report: Report, scale: Scale, query: Query) -> None:
    """Figure 21: how much of the largest window is mutable."""
    figure = Figure(
        "spo21",
        f"{query.name}: shares of a window of {pick_largest(scale):,}",
        "share of the mutable part",
        RATE,
        ("linear", "log"),
    )
    stored = query.rows(np.random.default_rng(SEED), pick_largest(scale))
    for share in SHARES:
        cut = int(share * pick_largest(scale))
        with report.step(f"figure 21: {share:.0%} of {pick_largest(scale):,} in the mutable part"):
            fresh = race_mutable_parts(query, stored.part(0, cut), scale)
            fixed = race_immutable_parts(query, stored.part(cut, pick_largest(scale)), scale)
        for name in (BITS, RUNS, FRESH, FRESH_BATCHED):
            figure.add(f"mutable: {name}", share, 1e6 / fresh[name].median)
        for name in (ALONE, BATCHED):
            figure.add(f"immutable: {name}", share, 1e6 / fixed[name].median)
    report.figures.append(figure)
