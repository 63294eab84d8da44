"""Portions of a micro-batch: in order of arrival, bounded, and without a say in the result."""

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.options.ordering import Ordering
from streamjoin.plans.batches import copy_batch, measure_rows
from streamjoin.plans.binding import bind_order
from streamjoin.spark.cores import portions
from streamjoin.spark.cores.portions import cut_portions
from streamjoin.spark.routing.exchange import ReceivedRows
from streamjoin.spark.routing.parcels import pack_rows, unpack_rows
from tests.spark.cores.test_join_core import TIMED, cut, seeds, small, timed, two_streams  # noqa: F401
from tests.spark.in_process import Cluster, Luck, make_join

SIDES = ("left", "right")
SCHEMA = pa.schema({"id": pa.int64(), "o": pa.int64(), "s": pa.string()})


def draw_pieces(dice, first):
    """Batches as parcels give them, some of them empty, with texts of any length."""
    pieces = []
    for _ in range(dice.randrange(6)):
        rows = [
            {
                "id": first + n,
                "o": dice.choice([None, 0, 1, 2, 3]),
                "s": "x" * dice.choice([0, 9, 300]),
            }
            for n in range(dice.randrange(8))
        ]
        first += len(rows)
        pieces.append(pa.RecordBatch.from_pylist(rows, SCHEMA))
    return pieces


@given(seed=seeds, ordered=st.booleans(), most=st.sampled_from([1, 100, 700, 1 << 20]))
def test_portions_come_in_order_of_arrival(seed, ordered, most):
    dice, schemas = Random(seed), dict.fromkeys(SIDES, SCHEMA)
    sides = {
        side: ReceivedRows(
            draw_pieces(dice, first), [] if ordered else draw_pieces(dice, first + 50)
        )
        for side, first in zip(SIDES, (0, 100), strict=True)
    }
    order = bind_order(("o", "o"), schemas) if ordered else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portions, "PORTION_BYTES", most)
        found = list(cut_portions(sides, schemas, order))
    every = [
        (side, row, stored)
        for side, own in sides.items()
        for stored, batches in ((True, own.stored), (False, own.probing))
        for batch in batches
        for row in batch.to_pylist()
    ]
    if ordered:
        every.sort(key=lambda each: -1 if each[1]["o"] is None else each[1]["o"])
    arrived = []
    for portion in found:
        rows = sum(len(batch) for batch in portion.batches.values())
        assert (
            rows == 1 or sum(map(measure_rows, portion.batches.values())) <= most or most == 1 << 20
        )
        together = [
            (side, row, place < portion.stored[side])
            for side, batch in portion.batches.items()
            for place, row in enumerate(batch.to_pylist())
        ]
        if ordered:
            together.sort(key=lambda each: -1 if each[1]["o"] is None else each[1]["o"])
        arrived += together
    assert arrived == every
    assert len(found) == 1 or most < 1 << 20


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 7), (pa.bool_(), True), (pa.string(), "abc"), (pa.large_string(), "abc"),
        (pa.binary(4), b"abcd"), (pa.decimal128(20, 2), 3),
        (pa.list_(pa.string()), ["a", None, "bc"]),
        (pa.large_list(pa.int8()), [1, 2]), (pa.list_(pa.int16(), 2), [1, 2]), (pa.null(), None),
        (pa.struct({"a": pa.string(), "b": pa.list_(pa.int8())}), {"a": "xy", "b": [1]}),
        (pa.map_(pa.string(), pa.int64()), [("k", 1)]), (pa.timestamp("us"), 5),
    ],
)  # fmt: skip
def test_equal_rows_measure_alike_however_they_came(kind, value):
    column = pa.array([None if n in (1, 998) else value for n in range(1000)], kind)
    whole = pa.record_batch({"a": column})
    for low, high in [(0, 1000), (5, 500), (13, 1000), (8, 8)]:
        picked = whole.take(pa.array(np.arange(low, high)))
        sent, _ = unpack_rows(pack_rows(whole.slice(low, high - low)))
        part = unpack_rows(pack_rows(whole))[0].slice(low, high - low)
        size = measure_rows(picked)
        assert size == measure_rows(sent) == measure_rows(part) == measure_rows(copy_batch(part))
        assert 0 <= copy_batch(sent).nbytes - size <= 8 * 1000 / 8  # flags of what is NULL


@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    seed=seeds,
    cores=st.sampled_from([1, 3]),
    window=st.sampled_from(["time", "count", "count by order"]),
    kind=st.sampled_from(["outer", "inner", 3]),
)
def test_ordered_joins_do_not_depend_on_portions(seed, cores, window, kind):
    options = {
        "time": {"window": sj.TimeWindow(before=6, after=3), "time": "t"},
        "count": {"window": sj.CountWindow(left=9, right=14)},
        "count by order": {"window": sj.CountWindow(left=9, right=14), "order": "o"},
    }[window]
    spec = make_join("l.a <= r.b", TIMED, cores, **options)
    spec = replace(spec, routing="split", ordering=Ordering.parse(kind))
    found = []
    for most in (1 << 30, 200):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(portions, "PORTION_BYTES", most)
            cluster = Cluster(spec, Luck(tasks=2, failures=0.1, restarts=0.1), seed, 2)
            steps = [cluster.batch(*map(timed, step)) for step in cut(seed, *two_streams(seed))]
        found.append([sorted(ids_and_order(rows, spec)) for rows in steps])
        if cores == 1:
            in_order = [[each[:-2] for each in ids_and_order(rows, spec)] for rows in steps]
            assert in_order == [sorted(each) for each in in_order]
    assert found[0] == found[1]
    assert any(found[0])


def ids_and_order(batches, spec):
    """The order columns and ids of joined rows, as they come."""
    names = [*spec.ordering.names, "id", "id_right"]
    return [tuple(row[name] for name in names) for rows in batches for row in rows.to_pylist()]
