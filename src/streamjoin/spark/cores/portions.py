"""A core's rows of a micro-batch, in portions that each fit into one batch of Arrow data.

A column of text holds 2 GiB, and a core may get more in one micro-batch: after a pause, the first
one is as large as the source makes it. Then the core takes the rows in one portion after the other,
each a push of its own. They are cut where rows stand one after the other as they arrive, so the
result is that of a single push::

    without order columns         left rows . . . . . | right rows . . . . .
    portions                      [   0   ][    1    ][     2     ][   3   ]

All left rows come first: they probe what was stored before, and right rows then probe them as well.
With order columns, rows of both sides alternate by these, of equal ones left first, and a portion
has rows of both.

Where a micro-batch is cut follows from the values of its rows alone (`measure_rows`). So portions,
and the segments that become of them, are the same in every attempt of the task.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamjoin.joins.engine import order_keys
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import Operands, Side
from streamjoin.plans.batches import in_one_piece, measure_rows, take_rows
from streamjoin.spark.routing.exchange import ReceivedRows

PORTION_BYTES = 1 << 30  # of both sides' values, unless a single row has more


@dataclass(frozen=True)
class Portion:
    """Rows that are pushed together; of each side, those to store come first."""

    batches: dict[Side, pa.RecordBatch]
    stored: dict[Side, int]  # how many of the rows


@dataclass(frozen=True)
class Piece:
    """Rows that came in one parcel, and their places among all that have arrived."""

    side: Side
    is_stored: bool
    rows: pa.RecordBatch
    places: Keys

    def select(self, low: int, high: int) -> pa.RecordBatch:
        """Return the rows with places from ``low`` on, before ``high``."""
        chosen = np.flatnonzero((self.places >= low) & (self.places < high))
        if chosen.size and chosen[-1] - chosen[0] + 1 == chosen.size:
            return self.rows.slice(int(chosen[0]), chosen.size)
        return take_rows(self.rows, chosen)


def cut_portions(
    sides: Mapping[Side, ReceivedRows], schemas: Mapping[Side, pa.Schema], order: Operands | None
) -> Iterator[Portion]:
    """Yield what a core has received, in one portion if it fits."""
    every = [
        (side, is_stored, batch)
        for side, received in sides.items()
        for is_stored in (True, False)
        for batch in (received.stored if is_stored else received.probing)
    ]
    if sum(measure_rows(batch) for _, _, batch in every) <= PORTION_BYTES:
        yield put_together(every, schemas)
        return
    places = find_places([(side, batch) for side, _, batch in every], order)
    pieces = [Piece(*each, own) for each, own in zip(every, places, strict=True)]
    yield from cut_pieces(pieces, schemas, 0, sum(len(batch) for _, _, batch in every))


def find_places(
    batches: Sequence[tuple[Side, pa.RecordBatch]], order: Operands | None
) -> list[Keys]:
    """Return the places of rows in their order of arrival; left batches come before right ones."""
    places = np.arange(sum(len(batch) for _, batch in batches))
    if order is not None:
        keys = [order_keys(order.values(*each)) for each in batches]
        places[np.argsort(np.concatenate(keys), kind="stable")] = places.copy()
    return np.split(places, np.cumsum([len(batch) for _, batch in batches])[:-1])


def cut_pieces(
    pieces: Sequence[Piece], schemas: Mapping[Side, pa.Schema], low: int, high: int
) -> Iterator[Portion]:
    """Cut the rows with places from ``low`` on, before ``high``, in halves until they are few."""
    if (
        high - low > 1
        and sum(measure_rows(each.select(low, high)) for each in pieces) > PORTION_BYTES
    ):
        middle = (low + high) // 2
        yield from cut_pieces(pieces, schemas, low, middle)
        yield from cut_pieces(pieces, schemas, middle, high)
        return
    selected = ((each.side, each.is_stored, each.select(low, high)) for each in pieces)
    yield put_together([each for each in selected if len(each[2])], schemas)


def put_together(
    pieces: Sequence[tuple[Side, bool, pa.RecordBatch]], schemas: Mapping[Side, pa.Schema]
) -> Portion:
    """Return pieces as one batch of each side that has any."""
    batches: dict[Side, list[pa.RecordBatch]] = {}
    stored: dict[Side, int] = {}
    for side, is_stored, rows in pieces:
        batches.setdefault(side, []).append(rows)
        stored[side] = stored.get(side, 0) + (len(rows) if is_stored else 0)
    return Portion(
        {side: in_one_piece(own, schemas[side]) for side, own in batches.items()}, stored
    )
