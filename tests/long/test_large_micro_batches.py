"""A core that gets more text in one micro-batch than a column holds: `make test-long`.

It takes 6 GB of memory.
"""

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.spark.cores.closing_core import ClosingCore
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.routing.parcels import Parcel, Role, pack_rows
from streamjoin.spark.state.segments import Manifest
from streamjoin.spark.tasks import Moment
from tests.spark.in_process import MemoryStore, make_join, pairs_of

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    {"id": pa.int64(), "k": pa.int64(), "s": pa.string(), "t": pa.timestamp("us", "UTC")}
)
WINDOWS = [sj.TimeWindow("1 second"), sj.CountWindow(10**6), sj.TumblingWindow("1 second")]
PARCEL_ROWS, PARCELS = 16, 130  # of a megabyte each, and a column holds 2,047


def pack(ids, text):
    """A parcel's data; every key occurs once."""
    columns = [ids, ids, [text] * len(ids), pa.array(np.full(len(ids), 10**6), SCHEMA.types[3])]
    summary = {"rows": len(ids), "null_times": 0, "newest": 10**6}
    return pack_rows(pa.record_batch(columns, schema=SCHEMA), summary)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_micro_batch_of_more_than_two_gibibytes(window):
    time = {} if isinstance(window, sj.CountWindow) else {"time": "t"}
    join, store = make_join("l.k = r.k", SCHEMA, 1, window=window, **time), MemoryStore()
    make_core = ClosingCore if join.closes else JoinCore
    large = pack(np.arange(PARCEL_ROWS), "x" * (1 << 20))  # the same rows in all parcels
    small = pack(np.array([9]), "")

    def step(parcels):
        core = make_core(join, 0, store, 0, Moment("query", "run", 0))
        return pairs_of(core.step(parcels))

    parcels = [Parcel(0, 0, number, Role.STORE, large) for number in range(PARCELS)]
    found = step([*parcels, Parcel(1, 0, 0, Role.STORE, small)])
    expected = {} if join.closes else {(9, 9): PARCELS}
    assert found == expected
    manifest = Manifest.from_bytes(store.saved)
    assert sum(segment.rows for segment in manifest.of("left")) == PARCELS * PARCEL_ROWS
    assert max(segment.size for segment in manifest.segments) <= 1 << 24
