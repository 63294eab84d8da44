"""Reductions: what becomes of all pairs of a left row together (``keep``, ``aggregate``).

A reduction looks at the pairs of a *closed set* of left rows: rows for which all right rows are
there that can ever match them. That is a whole table, a tumbling or session window that closes, or,
in a sliding window, the left rows that the watermark has made final::

    closed set of left rows ---+
                               |  find: the usual search, of any kind
    right rows ----------------+
        Found  Found  Found         ranges of candidates, in blocks: `Reducer.reduce`, in any thread
          |      |      |
        partial partial partial     k pairs, or accumulators, per left row: `Reducer.add`, in one
          +------+------+
                 |
              finish                what is given, through ``deliver``

The contract, for a new reduction (`keep.Keep` is one):

* `Reduction.begin` gets the closed set as one `Prepared`, and makes a `Reducer` for it. A left row
  is named by its place in that batch (`places_of_left`), whichever side probes: either the left
  batch probes, or its rows are held by what right rows probe, in the same order.
* `Reducer.reduce(found)` confirms pairs block by block (`candidates.confirm_pairs`) and yields a
  partial for each. It runs in several threads and changes nothing, so it must not touch the
  reducer's own state. Residuals and distances may raise `StreamJoinError`: then the set fails, as a
  window does, and nothing of it has been given.
* `Reducer.add(partial)` is called in the caller's thread, in no order. Keep memory bounded by what
  the result takes: put partials together once there are many.
* `Reducer.finish(deliver)` gives the result, after all partials. Kept pairs are given as `Found`
  (`found_of_pairs`) through ``deliver``, so that all goes its usual way: columns, a count, pairs
  left in place, and the claims by which `Outcome.settle` settles both rows. So every ``how`` works:
  left and right rows that no kept pair has are given by `outcome.leftovers`, or when they leave. A
  reduction that gives other rows yields `Delivery(matches, rows)`, and settles the left rows that
  are in them by `outcome.settle_left`; the others come to `Outcome.alone` as usual.
* `Reduction.match(sides)` may find kept pairs without a search, as `Found`s, or give the rows of
  the result, as `Delivery`. None where it cannot.
* `Reduction.open_store` is for count windows, where pairs come as rows arrive; see `Store`.

Who calls it: `tumbling.closed.ClosedRows.join` for tables, tumbling and session windows;
`sliding.deferred` for streams with sliding and count windows; `api.table_join` for tables with a
count window.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.indexes.matches import Matches
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivery
from streamjoin.kernels.compile import Keys, RowIds
from streamjoin.keys.operands import Side
from streamjoin.plans.prepared import Prepared, without_residuals

Deliver = Callable[[Found], Iterator[Any]]
Sides = Mapping[Side, Prepared]
Parts = Mapping[str, pa.RecordBatch]  # what a snapshot holds, by name


class Reducer(Protocol):
    """The reduction of one closed set; see the module docstring."""

    def reduce(self, found: Found) -> Iterator[Any]:
        """Yield partials of what was found; changes nothing, and may run in any thread."""
        ...

    def add(self, partial: Any) -> None:
        """Take a partial in."""
        ...

    def finish(self, deliver: Deliver) -> Iterator[Any]:
        """Give the result, once all partials are in."""
        ...


class Store(Protocol):
    """Count windows: what is known so far of the left rows that are in their window.

    Left rows are named by their ordinals. A step reduces what it finds (`reduce`), in any thread
    and without a change; its partials are added once its rows are stored.
    """

    def reduce(self, found: Found) -> Iterator[Any]:
        """Yield partials of what was found; changes nothing, and may run in any thread."""
        ...

    def add(self, partial: Any) -> None:
        """Take a partial in; the rows that it points to may be gone afterwards."""
        ...

    def take(self, left: Prepared, deliver: Deliver) -> Iterator[Any]:
        """Give the result of left rows that have left their window, and forget them."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        ...

    @property
    def saved(self) -> Parts:
        """What `restore` needs."""
        ...

    def restore(self, saved: Parts) -> None:
        """Go on from there; refuse what cannot be."""
        ...


class Reduction(Protocol):
    """What becomes of all pairs of a left row together; see the module docstring."""

    @property
    def parts(self) -> frozenset[int]:
        """The range parts whose keys all holders of rows must keep."""
        ...

    def begin(self, left: Prepared) -> Reducer:
        """Begin with a closed set of left rows."""
        ...

    def match(self, sides: Sides, threads: int) -> Iterator[Found | Delivery] | None:
        """Find what is given of a closed set without a search; None where only a search tells."""
        ...

    def open_store(self, schema: pa.Schema) -> Store:
        """Make an empty store for a count window; ``schema`` is that of right rows."""
        ...


def reduce_all(reducer: Reducer, partials: Iterator[Any]) -> Reducer:
    """Take all partials in; if one fails, nothing has been given."""
    for partial in partials:
        reducer.add(partial)
    return reducer


def reduce_set(
    reduction: Reduction,
    sides: Sides,
    find: Callable[[Deliver], Iterator[Any]],
    deliver: Deliver,
    threads: int = 1,
) -> Iterator[Any]:
    """Give what a reduction makes of a closed set; ``find`` passes what it finds to a deliver."""
    kept = reduction.match(sides, threads)
    if kept is not None:
        for found in kept:
            yield from [found] if isinstance(found, Delivery) else deliver(found)
        return
    reducer = reduction.begin(sides["left"])
    yield from reduce_all(reducer, find(reducer.reduce)).finish(deliver)


def places_of_left(found: Found, probes: RowIds, rows: RowIds) -> RowIds:
    """Return the places of the left rows of pairs in their closed set."""
    return probes if found.batch.side == "left" else rows


def ordinals_of_left(found: Found, probes: RowIds, rows: RowIds) -> Keys:
    """Return the ordinals of the left rows of pairs."""
    if found.batch.side == "right":
        return found.subwindow.ordinals_of(rows)
    assert found.batch.ordinals is not None
    return found.batch.ordinals[probes]


def found_of_pairs(found: Found, probes: RowIds, rows: RowIds) -> Found:
    """Return some pairs of what was found; they are confirmed already."""
    starts = np.arange(probes.size)
    ids = np.ascontiguousarray(rows, np.int32)
    names = np.ascontiguousarray(probes, np.int32)
    batch = without_residuals(found.batch)
    return Found(batch, found.subwindow, Matches(starts, starts + 1, ids), names, [])
