"""What the next subwindow is sorted by, and in which structure: a few rows decide."""

import numpy as np

from streamjoin.choice.calibration_file import load_thresholds
from streamjoin.indexes.catalogue import TWO_KEYS
from streamjoin.joins.sliding.chain import Chain
from streamjoin.kernels.compile import Flags
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import JoinPlan, KeyColumns, Layout

Samples = dict[Side, KeyColumns]

# Nanoseconds, about. With an index by one part: to write out and check a candidate. By two: what
# a batch costs more, in Python, and a row, to sort, insert and search twice; to write out a match;
# to mark a row, once a batch; to look at one.
CANDIDATE, CALLS, TWICE, MATCH, MARK, LOOK = 3.0, 1e5, 400.0, 2.0, 1.5, 0.2


def choose(chain: Chain, stored: Side, samples: Samples, batch: int, rows: int = 0) -> None:
    """Choose the layout and the structure of a chain's next subwindow, for batches of some size.

    ``rows`` are those of the window, where that is not what the chain knows.
    """
    chain.layout = choose_layout(chain.plan, stored, samples)
    choose_again(chain, stored, samples, batch, rows)


def choose_again(chain: Chain, stored: Side, samples: Samples, batch: int, rows: int = 0) -> None:
    """Choose the structure; the layout stays, unless an index by two parts costs less.

    The time window is not one of these: most that is stored is inside it, and needs no check.
    """
    crossing = choose_crossing(chain.plan, stored, samples, timed=False)
    held = max(rows, chain.sizes.rows, len(chain), batch)
    if crossing is not None and costs_less(
        chain.plan, stored, samples, chain.layout, crossing, batch, held
    ):
        chain.layout, chain.structure = crossing, TWO_KEYS[0]
    else:
        chain.structure = choose_structure(chain, stored, samples, batch)


def choose_order(chain: Chain, stored: Side, samples: Samples) -> None:
    """Choose the layout of a chain's next subwindow for the structure that it has."""
    if chain.structure in TWO_KEYS:
        chain.layout = choose_crossing(chain.plan, stored, samples) or chain.layout
    else:
        chain.layout = choose_layout(chain.plan, stored, samples)


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

    The part that holds fewer by itself is the second, whose rows are marked or looked at. The time
    window counts only if ``timed``.
    """
    crossings = [each for each in plan.crossings() if timed or plan.time_part not in each.parts]
    if not crossings:
        return None
    parts = set().union(*(each.parts for each in crossings))
    inside = {part: find_inside(plan, stored, samples, part) for part in parts}
    best = min(crossings, key=lambda each: both(inside, each).sum())
    second, first = sorted(sorted(best.parts), key=lambda part: inside[part].sum())
    return Layout(best.equalities, first, second)


def both(inside: dict[int, Flags], layout: Layout) -> Flags:
    """Return which pairs of a sample pass both parts of a layout."""
    flags: Flags = np.logical_and.reduce([inside[part] for part in layout.parts])
    return flags


def find_inside(plan: JoinPlan, stored: Side, samples: Samples, part: int) -> Flags:
    """Return which pairs of a sample pass a part, and the equalities too if there are any."""
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
    stored: Side,
    samples: Samples,
    layout: Layout,
    crossing: Layout,
    batch: int,
    rows: int,
) -> bool:
    """Tell whether an index by two parts costs less than one by one part and a filter."""
    pairs = max(samples[stored].rows * samples[OTHER[stored]].rows, 1)
    alone = count_candidates(plan, stored, samples, layout) / pairs * rows
    inside = {part: find_inside(plan, stored, samples, part) for part in crossing.parts}
    assert crossing.crossed is not None
    second = inside[crossing.crossed].sum() / pairs * rows
    matches = both(inside, crossing).sum() / pairs * rows
    finding = min(MARK * rows / batch, LOOK * second)
    return bool(CALLS / batch + TWICE + finding + MATCH * matches < CANDIDATE * alone)


def count_candidates(plan: JoinPlan, stored: Side, samples: Samples, layout: Layout) -> int:
    """Count the candidates that one side's sample finds in the other's, under a layout."""
    probing = OTHER[stored]
    keys = np.sort(plan.index_keys(layout, samples[stored]))
    probes = plan.index_keys(layout, samples[probing])
    return sum(
        int(np.maximum(keys.searchsorted(upper, "right") - keys.searchsorted(lower), 0).sum())
        for lower, upper in plan.index_ranges(layout, probing, probes, samples[probing], None)
    )


def choose_structure(chain: Chain, stored: Side, samples: Samples, batch: int) -> str:
    """Choose by how large batches and window are, what probes find, and whether keys rise."""
    plan, layout, sample = chain.plan, chain.layout, samples[stored]
    found = count_candidates(plan, stored, samples, layout)
    share = found / max(sample.rows * samples[OTHER[stored]].rows, 1)
    keys, seen = plan.index_keys(layout, sample), chain.greatest
    rising = seen is not None and int(np.count_nonzero(keys > seen)) > keys.size // 2
    if keys.size:
        chain.greatest = int(keys.max())
    subwindow, thresholds = max(chain.expected, batch), load_thresholds()
    if not chain.sizes.rows:  # whole windows are measured where rows leave in the order they came
        return thresholds.choose(batch, share * subwindow, rising)
    rows = (chain.sizes.rows, subwindow)
    return thresholds.choose_any(batch, share, rows, rising, chain.structure)
