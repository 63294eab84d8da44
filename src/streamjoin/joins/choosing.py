"""What the next subwindow is sorted by, and in which structure: a few rows decide."""

import numpy as np

from streamjoin.joins.chain import Chain
from streamjoin.joins.plan import JoinPlan, KeyColumns, Layout
from streamjoin.keys.operands import OTHER, Side
from streamjoin.thresholds import load_thresholds

Samples = dict[Side, KeyColumns]


def choose_layout(plan: JoinPlan, stored: Side, samples: Samples) -> Layout:
    """Return the layout under which a sample of probes finds the fewest candidates."""
    layouts = plan.layouts()
    if len(layouts) == 1:
        return layouts[0]
    return min(layouts, key=lambda layout: count_candidates(plan, stored, samples, layout))


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
