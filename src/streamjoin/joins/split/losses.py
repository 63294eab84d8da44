"""The errors raised when a core has not found all matches: bad data, or a dead core."""

from collections.abc import Sequence

from streamjoin.errors import CoreError
from streamjoin.joins.messages import Problem


def raise_error(problems: Sequence[Problem]) -> None:
    """Raise the error of the data, if a core reports one."""
    for each in problems:
        if each.lost is None:
            raise each.error


def describe_losses(losses: list[Problem], left: int, of: int) -> CoreError:
    """Say which cores have died, why, and what is lost."""
    what = "; ".join(
        f"core {each.core} of {of} died and took its part of the window along, "
        f"{each.lost:,} row{'' if each.lost == 1 else 's'}: "
        f"{type(each.error).__name__}: {each.error}"
        for each in losses
    )
    way_out = (
        f"the join goes on with {left} of them; what they found is in this error's `results`, and "
        "`restore` of a snapshot brings the lost rows back"
        if left
        else "no core is left; restore a snapshot, or make a new join"
    )
    return CoreError(f"{what}; {way_out}", tuple(each.core for each in losses))
