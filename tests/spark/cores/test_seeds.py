"""Hashes are a secret of each process, but rows are dealt out alike by all of them."""

from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa
import pytest

from streamjoin.plans.batches import as_batch
from streamjoin.plans.preparing import prepare
from streamjoin.spark.planning.spec import plan_of, routing_plan_of
from streamjoin.windows import SessionWindow, TimeWindow, TumblingWindow
from tests.spark.in_process import Cluster, make_join

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us"))])


def table(numbers):
    return pa.table(
        {"id": numbers, "s": [f"key {n % 5}" for n in numbers], "t": [1000 * n for n in numbers]},
        SCHEMA,
    )


@contextmanager
def process(seed):
    """Be another process, which binds joins anew."""
    for bound in (plan_of, routing_plan_of):
        bound.cache_clear()
    with patch("streamjoin.joins.build.process_seed", lambda: seed):
        yield
    for bound in (plan_of, routing_plan_of):
        bound.cache_clear()


class Processes(Cluster):
    """A cluster whose packing tasks run in other processes than its cores."""

    def _pack(self, sides):
        with process(1):
            return super()._pack(sides)

    def _task(self, label, work):
        with process(2):
            return super()._task(label, work)


def test_all_processes_deal_rows_out_alike():
    spec = make_join("l.s = r.s", SCHEMA, 4, window=TimeWindow("1 second"), time="t")
    assert spec.routing == "hash"
    found = []
    for seed in (1, 2):
        with process(seed):
            batch = prepare(spec.routing_plan(), "left", as_batch(table(range(50))))
            found.append(spec.route_keys(batch).tolist())
            other = prepare(spec.plan(), "left", as_batch(table(range(50))))
            assert other.keys.equalities[0].tolist() != batch.keys.equalities[0].tolist()
            with pytest.raises(AssertionError, match="dealt out by"):
                spec.route_keys(other)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "window", [TimeWindow("20 ms"), TumblingWindow("20 ms"), SessionWindow("4 ms")]
)
def test_packing_tasks_and_cores_in_processes_of_their_own(window):
    spec = make_join("l.s = r.s", SCHEMA, 3, window=window, time="t")
    one, several = Cluster(spec), Processes(spec)
    total = 0
    for first in range(0, 100, 20):
        sides = table(range(first, first + 20)), table(range(first + 3, first + 23))
        expected = one.pairs(*sides)
        assert several.pairs(*sides) == expected
        total += sum(expected.values())
    assert total
