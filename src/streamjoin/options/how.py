"""What a join gives: pairs, rows that match nothing, or rows that match something.

::

                pairs   rows without a match   rows with one
    inner         x
    left          x           left
    right         x           right
    full          x           both
    left_semi                                      left
    left_anti                 left
    right_semi                                     right
    right_anti                right

Spark's spellings are understood as well, with and without underscores: ``leftouter``, ``semi`` ...
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamjoin.errors import StreamJoinError

if TYPE_CHECKING:  # what is imported here is imported for ``--help``, and that must be quick
    from streamjoin.keys.operands import Side


@dataclass(frozen=True)
class How:
    """One line of the table above."""

    name: str
    gives_pairs: bool = False
    alone: "frozenset[Side]" = frozenset()  # sides whose rows are given if they match nothing
    met: "Side | None" = None  # the side whose rows are given, once, if they match something

    @property
    def follows(self) -> "frozenset[Side]":
        """The sides for whose rows it counts whether they have a match."""
        return self.alone | {self.met} if self.met is not None else self.alone

    @property
    def sides(self) -> "tuple[Side, ...]":
        """The sides whose columns are in the result."""
        if self.gives_pairs:
            return ("left", "right")
        return tuple(self.follows)

    @property
    def one_side(self) -> "Side | None":
        """The side whose columns are the result, if the other has none in it."""
        return None if self.gives_pairs else self.sides[0]

    @property
    def dropped(self) -> "Side | None":
        """The side whose columns are not in the result."""
        if self.gives_pairs:
            return None
        return "right" if self.sides[0] == "left" else "left"


LEFT: "frozenset[Side]" = frozenset(["left"])
RIGHT: "frozenset[Side]" = frozenset(["right"])
INNER = How("inner", gives_pairs=True)
EVERY_HOW = (
    INNER,
    How("left", gives_pairs=True, alone=LEFT),
    How("right", gives_pairs=True, alone=RIGHT),
    How("full", gives_pairs=True, alone=LEFT | RIGHT),
    How("left_semi", met="left"),
    How("left_anti", alone=LEFT),
    How("right_semi", met="right"),
    How("right_anti", alone=RIGHT),
)
SPELLINGS = {
    "leftouter": "left",
    "rightouter": "right",
    "outer": "full",
    "fullouter": "full",
    "semi": "left_semi",
    "leftsemi": "left_semi",
    "anti": "left_anti",
    "leftanti": "left_anti",
    "rightsemi": "right_semi",
    "rightanti": "right_anti",
}
BY_NAME = {each.name: each for each in EVERY_HOW}


def read_how(name: str, value: object) -> How:
    """Read what a join gives, in any of its spellings.

    >>> read_how("how", "left_outer").name, read_how("how", "leftsemi").name
    ('left', 'left_semi')
    """
    if isinstance(value, How):
        return value
    text = str(value).lower()
    known = BY_NAME.get(text) or BY_NAME.get(SPELLINGS.get(text.replace("_", ""), ""))
    if not isinstance(value, str) or known is None:
        names = ", ".join(map(repr, BY_NAME))
        raise StreamJoinError(
            f"{name}={value!r} is no kind of join; choose {names}, or a spelling of Spark's such "
            "as 'left_outer', 'semi' or 'anti'"
        )
    return known
