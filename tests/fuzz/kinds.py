"""Which rows a join gives: pairs, some of them, rows that match nothing or something."""

from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from .aggregates import Aggregate, draw_aggregates
from .conjuncts import Term
from .nested_loop import Window
from .rows import Column

HOWS = ["inner", "left", "right", "full", "left_semi", "right_semi", "left_anti", "right_anti"]
SPELLINGS = {
    "left": ["leftouter", "left_outer"], "right": ["rightouter"], "full": ["outer", "full_outer"],
    "left_semi": ["semi"], "left_anti": ["anti", "leftanti"],
}  # fmt: skip

MATCHING = ("inner", "left_semi", "right_semi")  # give only what has a match
ASK_RIGHT = ("right", "full", "right_semi", "right_anti")  # look whether right rows match


@dataclass(frozen=True)
class Kind:
    """The options that say so."""

    how: str = "inner"
    spelling: str = "inner"
    indicator: bool = False
    keeps_late: bool = False
    keep: str = "all"
    k: int = 1
    distance: Term | None = None  # of keep="nearest"; without one, the time decides
    is_written: bool = False  # whether the distance is given as nearest=
    has_time: bool = False  # whether tables without a window have time=
    aggregates: tuple[Aggregate, ...] = ()
    patience: int | None = None  # of unmatched="early", in nanoseconds

    @property
    def is_plain(self) -> bool:
        """Whether all that is given is pairs, as soon as they are found."""
        return self == PAIRS

    @property
    def sides(self) -> str:
        """The sides whose columns are in the result."""
        if self.aggregates:
            return "l"
        return self.how[0] if self.how.endswith(("semi", "anti")) else "lr"

    @property
    def reduces(self) -> bool:
        """Whether the matches of a left row count together."""
        return self.keep != "all" or bool(self.aggregates)

    @property
    def options(self) -> dict[str, Any]:
        """What a user would give."""
        given = {"how": self.spelling, "indicator": self.indicator}
        given |= {"late": "keep" if self.keeps_late else "drop", "keep": self.keep, "k": self.k}
        plain = {"how": "inner", "indicator": False, "late": "drop", "keep": "all", "k": 1}
        if self.patience is not None:
            given |= {
                "unmatched": "early",
                "patience": timedelta(microseconds=self.patience // 1000),
            }
        return {name: value for name, value in given.items() if value != plain.get(name)}


PAIRS = Kind()


def draw_kind(dice: Random, window: Window, streams: bool, tick: int) -> Kind:
    """Draw one that the window allows."""
    if dice.random() < 0.25:
        return PAIRS
    how = dice.choice(HOWS)
    spelling = dice.choice([how] * 3 + SPELLINGS.get(how, []))
    gives_pairs = not how.endswith(("semi", "anti"))
    is_timed = window[0] not in ("none", "count")
    is_early = how not in MATCHING and streams and is_timed and dice.random() < 0.4
    return Kind(
        how,
        spelling,
        indicator=gives_pairs and dice.random() < 0.3,
        keeps_late=streams and is_timed and dice.random() < 0.4,
        patience=draw_patience(dice, tick) if is_early else None,
    )


def draw_patience(dice: Random, tick: int) -> int:
    """A few ticks, or part of one, in whole microseconds."""
    patience = dice.choice([0, 1, 1, 2, 3, 5]) * tick + dice.choice([0, 0, 0, tick // 2])
    return patience // 1000 * 1000


def draw_aggregation(
    dice: Random, kind: Kind, window: Window, columns: dict[str, list[Column]]
) -> Kind:
    """Give aggregates of the matches of left rows."""
    how = dice.choice(["inner", "left"])
    has_time = window[0] == "none" and dice.random() < 0.5
    aggregates = draw_aggregates(dice, columns, window[0] != "none" or has_time)
    return replace(kind, how=how, spelling=how, indicator=False, patience=None, has_time=has_time,
                   aggregates=aggregates)  # fmt: skip


def draw_keep(
    dice: Random, kind: Kind, window: Window, written: list[Term], defaults: list[Term | None]
) -> Kind:
    """Let some matches of each left row count only.

    A distance is one of those ``written``, or what ``defaults`` say that the condition suggests:
    none, if there is no telling.
    """
    if window[0] == "count" and kind.how in ASK_RIGHT and dice.random() < 0.9:
        return kind  # is refused
    keep = dice.choice(["nearest", "nearest", "first", "last"])
    is_untimed = window[0] == "none"
    has_time = is_untimed and (keep != "nearest" or dice.random() < 0.6)
    chosen = replace(kind, patience=None, keep=keep, k=dice.choice([1, 1, 2, 3]), has_time=has_time)
    if keep != "nearest":
        return chosen
    if window[0] == "count" or (is_untimed and not has_time):
        defaults = [each for each in defaults if each is not None]
    if defaults and (not written or dice.random() < 0.7):
        return replace(chosen, distance=defaults[0])
    if written:
        return replace(chosen, distance=dice.choice(written), is_written=True)
    return kind
