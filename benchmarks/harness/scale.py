"""How large a run is.

A suite names its sizes once for every scale, and picks from them where it measures::

    WINDOWS = Sized(full=[1 << 16, 1 << 20], quick=[1 << 14])

    for window in scale.pick(WINDOWS): ...
"""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

Size = TypeVar("Size")


@dataclass(frozen=True)
class Sized(Generic[Size]):
    """A size at every scale; the tiny one is the quick one if nothing else is said."""

    full: Size
    quick: Size
    tiny: Size | None = None


class Scale(Enum):
    """The sizes of a run, all together."""

    FULL = "full"  # those that the targets are for
    QUICK = "quick"  # small ones, which show that everything runs
    TINY = "tiny"  # enough to compile what is then measured

    def pick(self, sized: Sized[Size]) -> Size:
        """Return a size at this scale.

        >>> Scale.QUICK.pick(Sized(full=1_000_000, quick=1_000))
        1000
        """
        if self is Scale.FULL:
            return sized.full
        return sized.quick if self is Scale.QUICK or sized.tiny is None else sized.tiny
