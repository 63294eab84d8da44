"""Racks of two data centres: a match draws less power than its partner, and needs more cooling.

The example of SPO-Join (section 1, query Q1). Cooling follows power by the same rule in both
centres, so hardly any pair is out of order, except for two kinds of racks::

    cool
      |          x . '     x  a rack of the left centre with a clogged filter: it has matches
      |        . '            among the racks to its right that lie below it
      |    . '   o
      |. '                 o  a rack of the right centre with a new pump: likewise, mirrored
      +------------- power
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamjoin.cli.demo.scenario import Batches, Pace, Scenario

RACKS = 400  # in each centre
ODD = 2  # racks in each centre that need more or less cooling than the rule says
SHARE, ODD_BY = 0.4, 0.01  # cooling as a share of power, and by how much of it odd racks differ
COLUMNS = "reading_id bigint, rack string, power double, cool double, ts timestamp"


def generate(pace: Pace, seed: int) -> Batches:
    """Yield batch after batch of readings from both centres."""
    random = np.random.default_rng(seed)
    left, right = (_Centre(random, name, odd) for name, odd in (("R", ODD_BY), ("S", -ODD_BY)))
    number = 0
    while True:
        yield left.batch(random, pace, number), right.batch(random, pace, number)
        number += 1


class _Centre:
    """Racks with their usual load in watts, and the share of it that each needs for cooling."""

    def __init__(self, random: np.random.Generator, name: str, odd_by: float) -> None:
        self.names = pa.array([f"{name}{rack:03}" for rack in range(RACKS)])
        self.load: NDArray[np.float64] = random.uniform(2_000, 8_000, RACKS)
        self.share = np.full(RACKS, SHARE)
        self.share[random.choice(RACKS, ODD, replace=False)] *= 1 + odd_by

    def batch(self, random: np.random.Generator, pace: Pace, number: int) -> pa.Table:
        """Return readings of racks picked at random."""
        racks = random.integers(0, RACKS, pace.rows)
        power = self.load[racks] + random.normal(0, 150, pace.rows)
        cool = power * self.share[racks] + random.normal(0, 0.05, pace.rows)
        return pa.table(
            {
                "reading_id": pace.ids(number),
                "rack": self.names.take(pa.array(racks)),
                "power": np.round(power, 1),
                "cool": np.round(cool, 1),
                "ts": pace.times(random, number),
            }
        )


DATA_CENTRES = Scenario(
    title="data centres",
    sides=("racks of R", "racks of S"),
    columns=(COLUMNS, COLUMNS),
    on="l.power < r.power and l.cool > r.cool",
    window="10 seconds",
    generate=generate,
    shown={
        "rack": "R's rack",
        "rack_right": "S's rack",
        "power": "R's power",
        "power_right": "S's power",
        "cool": "R's cooling",
        "cool_right": "S's cooling",
    },
)
