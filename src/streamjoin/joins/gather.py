"""Fetch columns last: from pairs of row numbers to joined Arrow rows."""

import pyarrow as pa

from streamjoin.joins.candidates import Found, surviving


def gather(found: Found, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the joined rows of what a probe found."""
    joined = []
    for probes, rows in surviving(found):
        probing = found.batch.rows.take(pa.array(probes))
        stored = found.subwindow.rows.take(rows)
        left, right = (probing, stored) if found.batch.side == "left" else (stored, probing)
        joined.append(beside(left, right, schema))
        if found.mirrored:
            joined.append(beside(right, left, schema))
    return joined


def beside(left: pa.RecordBatch, right: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Put the columns of two batches beside each other."""
    return pa.RecordBatch.from_arrays([*left.columns, *right.columns], schema=schema)


def count(found: Found) -> int:
    """Count the matches; where no check is left, without looking at a single pair."""
    if not found.checks and not found.batch.plan.residuals:
        matches = len(found.matches)
    else:
        matches = sum(probes.size for probes, _ in surviving(found))
    return 2 * matches if found.mirrored else matches
