"""Chooses the keys and the structure of the next subwindow, from a sample of rows.

PanJoin's rule for subwindows (V-A4): BI-Sort if batches are large or a probe has many matches;
otherwise RaP-Table, or WiB+-Tree if keys keep rising. What counts as large or many depends on the
machine, so the calibration defines it. Before that, predicted costs decide between one key and two,
and between subwindows and a whole window.

Nothing here has side effects: the caller gets a `Choice`, and carries it out.
"""

from dataclasses import dataclass, replace

import numpy as np

from streamjoin.choice.calibration_file import Calibration
from streamjoin.choice.structure_costs import describe_choice, prefer_index
from streamjoin.indexes.catalogue import TWO_KEYS
from streamjoin.kernels.compile import Flags
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import JoinPlan, KeyColumns, Layout

Samples = dict[Side, KeyColumns]


@dataclass(frozen=True)
class Choice:
    """What the next subwindow is sorted by, and in which structure."""

    layout: Layout
    structure: str
    greatest: int | None = None  # the greatest key of the sample behind the choice


@dataclass(frozen=True)
class Stored:
    """What is known about the window that a choice is for."""

    side: Side
    choice: Choice  # the last one
    rows: int  # that the window has, or will have
    subwindow_rows: int  # that the next subwindow will have, if it is like earlier ones
    whole_rows: int = 0  # of a window that may be kept whole; 0: this one may not


def choose(
    plan: JoinPlan, stored: Stored, samples: Samples, batch: int, calibration: Calibration
) -> Choice:
    """Choose the layout and the structure of the next subwindow, for batches of some size."""
    layout = choose_layout(plan, stored.side, samples)
    stored = replace(stored, choice=replace(stored.choice, layout=layout))
    return choose_again(plan, stored, samples, batch, calibration)


def choose_again(
    plan: JoinPlan, stored: Stored, samples: Samples, batch: int, calibration: Calibration
) -> Choice:
    """Choose the structure; the layout stays, unless an index by two parts costs less.

    The time window is not used as one of the two: most stored rows are inside it anyway.
    """
    crossing = choose_crossing(plan, stored.side, samples, timed=False)
    if crossing is not None and costs_less(plan, stored, samples, crossing, batch, calibration):
        return replace(stored.choice, layout=crossing, structure=TWO_KEYS[0])
    return choose_structure(plan, stored, samples, batch, calibration)


def choose_order(plan: JoinPlan, stored: Stored, samples: Samples) -> Choice:
    """Choose the layout of the next subwindow; the structure is given."""
    if stored.choice.structure in TWO_KEYS:
        layout = choose_crossing(plan, stored.side, samples) or stored.choice.layout
    else:
        layout = choose_layout(plan, stored.side, samples)
    return replace(stored.choice, layout=layout)


def choose_layout(plan: JoinPlan, stored: Side, samples: Samples) -> Layout:
    """Return the layout under which a sample of probes finds the fewest candidates."""
    layouts = plan.layouts()
    if len(layouts) == 1:
        return layouts[0]
    return min(layouts, key=lambda layout: count_candidates(plan, stored, samples, layout))


def choose_crossing(
    plan: JoinPlan, stored: Side, samples: Samples, timed: bool = True
) -> Layout | None:
    """Return the layout by two parts under which a sample of probes finds the fewest candidates.

    The part that lets fewer pairs pass by itself becomes the second, whose rows are marked or
    scanned. The time window is considered only if ``timed``.
    """
    crossings = [each for each in plan.crossings() if timed or plan.time_part not in each.parts]
    if not crossings:
        return None
    parts = set().union(*(each.parts for each in crossings))
    inside = {part: find_inside(plan, stored, samples, part) for part in parts}
    best = min(crossings, key=lambda each: pass_both_parts(inside, each).sum())
    second, first = sorted(sorted(best.parts), key=lambda part: inside[part].sum())
    return Layout(best.equalities, first, second)


def pass_both_parts(inside: dict[int, Flags], layout: Layout) -> Flags:
    """Return which pairs of a sample pass both parts of a layout."""
    flags: Flags = np.logical_and.reduce([inside[part] for part in layout.parts])
    return flags


def find_inside(plan: JoinPlan, stored: Side, samples: Samples, part: int) -> Flags:
    """Return which pairs of a sample pass a part, and the equalities if there are any."""
    probing = OTHER[stored]
    layout = Layout(bool(plan.equalities), part)
    keys = plan.index_keys(layout, samples[stored])
    probes = plan.index_keys(layout, samples[probing])
    ranges = plan.index_ranges(layout, probing, probes, samples[probing], None)
    flags: Flags = np.logical_or.reduce(
        [(keys >= lower[:, None]) & (keys <= upper[:, None]) for lower, upper in ranges]
    )
    return flags


def costs_less(
    plan: JoinPlan,
    stored: Stored,
    samples: Samples,
    crossing: Layout,
    batch: int,
    calibration: Calibration,
) -> bool:
    """Tell whether an index by two parts costs less than one by one part and a filter."""
    side, costs, rows = stored.side, calibration.two_keys, max(stored.rows, batch)
    pairs = max(samples[side].rows * samples[OTHER[side]].rows, 1)
    candidates = count_candidates(plan, side, samples, stored.choice.layout) / pairs * rows
    inside = {part: find_inside(plan, side, samples, part) for part in crossing.parts}
    assert crossing.crossed is not None
    looked_at = inside[crossing.crossed].sum() / pairs * rows
    matches = pass_both_parts(inside, crossing).sum() / pairs * rows
    by_two = costs.cost_row(batch, rows, looked_at, matches)
    return bool(by_two < costs.check_candidate_ns * candidates)


def count_candidates(plan: JoinPlan, stored: Side, samples: Samples, layout: Layout) -> int:
    """Count the candidates that one side's sample finds in the other's, under a layout."""
    probing = OTHER[stored]
    keys = np.sort(plan.index_keys(layout, samples[stored]))
    probes = plan.index_keys(layout, samples[probing])
    return sum(
        int(np.maximum(keys.searchsorted(upper, "right") - keys.searchsorted(lower), 0).sum())
        for lower, upper in plan.index_ranges(layout, probing, probes, samples[probing], None)
    )


def choose_structure(
    plan: JoinPlan, stored: Stored, samples: Samples, batch: int, calibration: Calibration
) -> Choice:
    """Choose by the sizes of batches and window, the matches, and whether keys rise."""
    layout, sample = stored.choice.layout, samples[stored.side]
    found = count_candidates(plan, stored.side, samples, layout)
    share = found / max(sample.rows * samples[OTHER[stored.side]].rows, 1)
    keys, greatest = plan.index_keys(layout, sample), stored.choice.greatest
    rising = greatest is not None and int(np.count_nonzero(keys > greatest)) > keys.size // 2
    if keys.size:
        greatest = int(keys.max())
    subwindow, index = max(stored.subwindow_rows, batch), None
    if stored.whole_rows:  # measured with rows that leave in order of arrival
        window, current = stored.whole_rows, stored.choice.structure
        index = prefer_index(calibration.costs, window, share * window, batch, current)
    structure = index or rule_subwindows(calibration, batch, share * subwindow, rising)
    return Choice(layout, structure, greatest)


def rule_subwindows(calibration: Calibration, batch: float, matches: float, rising: bool) -> str:
    """Return the structure for batches of ``batch`` rows, with ``matches`` matches per probe.

    >>> rule_subwindows(Calibration(large_batch=4096, many_matches=64), 100, 1, rising=True)
    'wib_tree'
    """
    if batch >= calibration.large_batch or matches >= calibration.many_matches:
        return "bi_sort"
    return "wib_tree" if rising else "rap_table"


def describe_subwindows(calibration: Calibration) -> str:
    """Put the rule for subwindows into words."""
    ends = [
        f"{number:,.0f} or more {what}"
        for number, what in (
            (calibration.large_batch, "rows"),
            (calibration.many_matches, "matches per probe"),
        )
        if number < float("inf")
    ]
    if calibration.large_batch <= 1:
        return "bi_sort, which is the fastest for batches of any size"
    few = "rap_table, or wib_tree if keys keep rising"
    if not ends:
        return few
    return f"bi_sort for batches with {', or '.join(ends)}; below that {few}"


def describe_windows(calibration: Calibration) -> str:
    """Put the rule for windows that may be kept whole into words, for two matches per row."""
    whole, subwindows = describe_choice(calibration.costs), describe_subwindows(calibration)
    return f"{whole}, reconsidered as rows arrive; otherwise {subwindows}" if whole else subwindows
