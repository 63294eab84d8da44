"""What becomes of matches: joined Arrow rows, a count, or nothing but the ranges.

Columns are fetched last, from pairs of row numbers, once everything is checked.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from streamjoin.joins.candidates import Found, checked, surviving


@dataclass(frozen=True)
class Delivery:
    """How many matches a probe gave, and their joined rows if they were asked for."""

    matches: int
    rows: list[pa.RecordBatch] = field(default_factory=list)


def gather(found: Found, schema: pa.Schema) -> Delivery:
    """Fetch the joined rows."""
    joined = []
    for probes, rows in surviving(found):
        probing = found.batch.rows.take(pa.array(probes))
        stored = found.subwindow.rows.take(rows)
        left, right = (probing, stored) if found.batch.side == "left" else (stored, probing)
        joined.append(beside(left, right, schema))
        if found.mirrored:
            joined.append(beside(right, left, schema))
    return Delivery(sum(batch.num_rows for batch in joined), joined)


def beside(left: pa.RecordBatch, right: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Put the columns of two batches beside each other."""
    return pa.RecordBatch.from_arrays([*left.columns, *right.columns], schema=schema)


def count(found: Found, schema: pa.Schema) -> Delivery:
    """Count the matches; where no check is left, without looking at a single pair."""
    if found.batch.plan.has_residuals:
        matches = sum(probes.size for probes, _ in surviving(found))
    elif found.checks:
        matches = sum(probes.size for probes, _ in checked(found))
    else:
        matches = len(found.matches)
    return Delivery(2 * matches if found.mirrored else matches)


def keep_ranges(found: Found, schema: pa.Schema) -> Delivery:
    """Leave the matches as ranges, expired rows of the oldest subwindow among them."""
    return Delivery(len(found.matches))
