"""Which rows a join gives: pairs, some of them, rows that match nothing or something."""

from dataclasses import dataclass
from random import Random
from typing import Any

from .nested_loop import Window

HOWS = ["inner", "left", "right", "full", "left_semi", "right_semi", "left_anti", "right_anti"]
SPELLINGS = {
    "left": ["leftouter", "left_outer"], "right": ["rightouter"], "full": ["outer", "full_outer"],
    "left_semi": ["semi"], "left_anti": ["anti", "leftanti"],
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """The options that say so."""

    how: str = "inner"
    spelling: str = "inner"
    indicator: bool = False
    keeps_late: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether all that is given is pairs, as soon as they are found."""
        return self == PAIRS

    @property
    def sides(self) -> str:
        """The sides whose columns are in the result."""
        return self.how[0] if self.how.endswith(("semi", "anti")) else "lr"

    @property
    def options(self) -> dict[str, Any]:
        """What a user would give."""
        given = {"how": self.spelling, "indicator": self.indicator}
        given["late"] = "keep" if self.keeps_late else "drop"
        plain = {"how": "inner", "indicator": False, "late": "drop"}
        return {name: value for name, value in given.items() if value != plain[name]}


PAIRS = Kind()


def draw_kind(dice: Random, window: Window, streams: bool) -> Kind:
    """Draw one that the window allows."""
    if dice.random() < 0.25:
        return PAIRS
    how = dice.choice(HOWS)
    spelling = dice.choice([how] * 3 + SPELLINGS.get(how, []))
    gives_pairs = not how.endswith(("semi", "anti"))
    is_timed = window[0] not in ("none", "count")
    return Kind(
        how,
        spelling,
        indicator=gives_pairs and dice.random() < 0.3,
        keeps_late=streams and is_timed and dice.random() < 0.4,
    )
