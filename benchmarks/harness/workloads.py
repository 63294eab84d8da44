"""Synthetic streams: uniform keys, and the band under which a row finds as many as it should."""

import numpy as np
import pyarrow as pa

SPAN = 1 << 40  # keys are uniform in [0, SPAN)
SCHEMA = pa.schema({"x": pa.int64(), "id": pa.int64()})


def uniform_batch(rng: np.random.Generator, rows: int, span: int = SPAN) -> pa.RecordBatch:
    """Return rows with a uniform key ``x`` and a payload ``id``."""
    return pa.record_batch({"x": rng.integers(0, span, rows), "id": np.arange(rows)}, schema=SCHEMA)


def band_for(rows: int, matches: float) -> str:
    """Return the band under which a row meets ``matches`` of ``rows`` uniform rows."""
    return f"abs(l.x - r.x) <= {max(int(SPAN / rows * matches / 2), 0)}"
