"""Merges a shared index: in two phases while others work on, or all at once (section 4.2).

::

    quiet   phase 1: merge T_S and T_I into a new T_S        quiet   phase 2: catch up     time ->
      |     others go on, without updating this index          |     others update it again
      freeze                                                   swap

In phase 1 the edge stands still, so searches compare more and more rows one by one; that is the
cost to the others. In phase 2 this worker inserts the rows of phase 1 into the new index, while the
others already insert theirs.
"""

from typing import TYPE_CHECKING

from streamjoin.indexes.trees import immutable_tree
from streamjoin.indexes.trees.immutable_tree import Immutable
from streamjoin.indexes.trees.pim_tree import TREES
from streamjoin.joins.shared import shared_window
from streamjoin.joins.shared.shared_window import FROZEN
from streamjoin.joins.shared.work_queue import NEVER

if TYPE_CHECKING:
    from streamjoin.joins.shared.shared_join import SharedJoin


def merge_index(join: "SharedJoin", number: int) -> None:
    """Merge one window's index; if the join is ``blocking``, the others wait meanwhile."""
    with join.quiet():
        edge = freeze(join, number)
        if join.blocking:
            swap(join, number, merge(join, number), edge)
            return
    fixed = merge(join, number)
    with join.quiet():
        swap(join, number, fixed, edge)
        processed = join.processed(number)
    shared_window.catch_up(join.windows[number], edge, processed)


def freeze(join: "SharedJoin", number: int) -> int:
    """Stop all updates of the index; return the edge, up to which it is complete."""
    window, edge = join.windows[number], join.processed(number)
    shared_window.catch_up(window, shared_window.edge_of(window), edge)
    window.control[FROZEN] = 1
    join.sides[number].note_rows(edge)
    join.set_limits(number, NEVER, NEVER)
    return edge


def merge(join: "SharedJoin", number: int) -> Immutable:
    """Make a new T_S, and leave everything as it is."""
    index = join.sides[number].index
    pim, base, fixed = index.pim, index.base, index.next_fixed()
    immutable_tree.merge(pim.fixed, pim.fresh, int(pim.shape[TREES]), base, fixed)
    return fixed


def swap(join: "SharedJoin", number: int, fixed: Immutable, edge: int) -> None:
    """Switch to the new T_S and an empty T_I, which will hold rows from the edge on."""
    side, window = join.sides[number], join.windows[number]
    side.index.adopt(fixed)
    side.merged, side.merges = edge, side.merges + 1
    join.windows[number] = window._replace(pim=side.index.pim)
    window.control[FROZEN] = 0
    join.set_limits(number, edge + side.index.limit, edge + side.index.fresh_room)
