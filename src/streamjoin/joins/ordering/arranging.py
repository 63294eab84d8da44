"""Joined rows in order: only the stored half is fetched where it lies, the rest at the end.

A core knows the rows that it has stored, everybody knows those that look for matches. So a core
sends, for each match, the stored row's columns and the place of the row that found it; mergers
order by these, and the root fetches the columns of the latter when all is in order::

    stored columns ...   place   group          place: in the step's batch, ascending with arrival
    z  7.5  ...              3      12          group: of the stored row, if matches of one row
                                                       are ordered too
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from streamjoin.joins.ordering.punctuation import matched_groups
from streamjoin.joins.pairs.candidates import Found, Pairs, confirm_pairs
from streamjoin.joins.pairs.deliver import concat_columns
from streamjoin.kernels.compile import Int, Keys, RowIds, kernel
from streamjoin.keys.radix_sort import sort_with_rows
from streamjoin.options.ordering import Ordering
from streamjoin.plans.batches import take_rows
from streamjoin.plans.prepared import Prepared


@kernel
def order_by(places: RowIds, low: Int, high: Int) -> RowIds:
    """Counting sort: return the rows in the order of their places."""
    slots = np.zeros(high - low + 2, np.int32)
    for i in range(places.size):
        slots[places[i] - low + 1] += 1
    for place in range(high - low + 1):
        slots[place + 1] += slots[place]
    rows = np.empty(places.size, np.int32)
    for i in range(places.size):
        slot = slots[places[i] - low]
        slots[places[i] - low] = slot + 1
        rows[slot] = i
    return rows


def fetch_stored(found: Found, ordering: Ordering) -> Iterator[pa.RecordBatch]:
    """Fetch the stored half of matches, with what they are ordered by."""
    for probes, rows in confirm_pairs(found):
        stored = found.subwindow.rows.take(rows)
        order = [pa.array(each) for each in (probes, *matched_groups(ordering, found, rows))]
        if found.batch.plan.names_rows:
            order.insert(0, pa.array(found.subwindow.ordinals_of(rows)))
        names = [str(number) for number in range(stored.num_columns + len(order))]
        yield pa.RecordBatch.from_arrays([*stored.columns, *order], names)


def arrange(halves: Sequence[pa.RecordBatch], ordering: Ordering) -> pa.RecordBatch:
    """Put halves of matches into one batch, in order."""
    batch = halves[0] if len(halves) == 1 else pa.concat_batches(halves)
    places = places_of(batch, ordering)
    if ordering.precision is None:
        rows = order_by(places, int(places.min()), int(places.max()))
    else:
        groups = batch.column(batch.num_columns - 1).to_numpy()
        _, rows = sort_with_rows(compose_keys(places, groups))
    return take_rows(batch, rows)


def places_of(batch: pa.RecordBatch, ordering: Ordering) -> RowIds:
    """Return the places of the rows that found matches."""
    behind = 1 if ordering.precision is None else 2
    return batch.column(batch.num_columns - behind).to_numpy()


def add_probing_columns(
    half: pa.RecordBatch, batch: Prepared, ordering: Ordering, schema: pa.Schema
) -> pa.RecordBatch:
    """Fetch the other half: the columns of the rows that found the matches."""
    places = places_of(half, ordering)
    found = take_rows(batch.rows, places)
    stored = half.select(range(len(schema) - found.num_columns))
    left, right = (found, stored) if batch.side == "left" else (stored, found)
    return concat_columns(left, right, schema)


def name_half(half: pa.RecordBatch, batch: Prepared, ordering: Ordering) -> tuple[Pairs, ...]:
    """Return the matches of a half by the ordinals of their rows, if these are to be told."""
    if not batch.plan.names_rows:
        return ()
    assert batch.ordinals is not None
    behind = 2 if ordering.precision is None else 3  # the place, and the group
    stored = half.column(half.num_columns - behind).to_numpy()
    return (Pairs(batch.side, batch.ordinals[places_of(half, ordering)], stored),)


def interleave(batches: Sequence[pa.RecordBatch], arrivals: Sequence[Keys]) -> pa.RecordBatch:
    """Merge the joined rows of two sides by arrival."""
    _, order = sort_with_rows(np.concatenate(arrivals))
    return take_rows(pa.concat_batches(batches), order)


def compose_keys(first: RowIds, second: Keys) -> Keys:
    """Return one key for two, both of bounded spread: rows of one step, places in one window."""
    low = second.min()
    return (first - np.int64(first.min())) * (second.max() - low + 1) + (second - low)
