"""Two attempts of one task: whatever else differs, they write the same state, byte by byte.

Spark may go on with the state of one attempt in one place, and with that of another elsewhere.
"""

import sys
from collections import Counter, OrderedDict
from copy import deepcopy
from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.options.ordering import Ordering
from streamjoin.spark.cores import cache, portions
from streamjoin.spark.routing import exchange
from streamjoin.spark.routing.exchange import StreamPacker, receive
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.state import segments as state
from streamjoin.spark.state.digests import digest
from tests.joins.small_streams import CONDITIONS
from tests.spark.cores.test_join_core import TIMED, cut, plain, seeds, small, timed, two_streams  # noqa: F401
from tests.spark.drivers import state_digest
from tests.spark.drivers.starting import run_driver
from tests.spark.in_process import Cluster, Luck, make_join, open_envelope

random = settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])


class Twice(Cluster):
    """Every task has a second attempt, in a new worker; parcels come in any order."""

    attempts = 0

    def _task(self, label, work):
        other, dice = deepcopy(self.stores[label]), Random(self.attempts)
        rows = super()._task(label, work)
        with patch.object(cache, "_ENGINES", OrderedDict()):
            core = self.core(self.spec, label, other, self.watermark, self.moment)

            def step(parcels):
                shuffled = list(parcels)
                dice.shuffle(shuffled)
                return type(core).step(core, shuffled)

            with patch.object(core, "step", step):
                again = list(work(core))
        assert sum(map(len, again)) == sum(map(len, rows))
        held = self.stores[label]
        assert (other.saved, other.timers) == (held.saved, held.timers)
        assert other.segments == held.segments
        self.attempts += 1
        return rows


WINDOWS = {
    "time": {"window": sj.TimeWindow(before=6, after=3), "time": "t"},
    "count": {"window": sj.CountWindow(left=9, right=14), "order": "o"},
    "tumbling": {"window": sj.TumblingWindow(7), "time": "t"},
    "eager": {"window": sj.TumblingWindow(7), "time": "t", "emit": "eager"},
    "either": {"window": sj.TumblingWindow(7), "time": "t", "emit": "auto", "optimize": "latency"},
    "session": {"window": sj.SessionWindow(2), "time": "t"},
    "eager session": {"window": sj.SessionWindow(2), "time": "t", "emit": "eager"},
}


@random
@given(
    seed=seeds,
    name=st.sampled_from(["equality", "text", "band", "two inequalities"]),
    window=st.sampled_from(list(WINDOWS)),
    cores=st.sampled_from([1, 2, 3]),
    delay=st.sampled_from([0, 2, 5, 100]),
    algorithm=st.sampled_from(["auto", "pmj_jm"]),
)
@example(1, "equality", "either", 1, 0, "auto")
@example(1, "equality", "eager", 1, 0, "pmj_jm")
def test_attempts_write_the_same_state(seed, name, window, cores, delay, algorithm):
    if window != "eager" or name not in ("equality", "text"):
        algorithm = "auto"
    if "session" in window and name not in ("equality", "text"):
        cores = 1
    join = make_join(CONDITIONS[name][0], TIMED, cores, algorithm=algorithm, **WINDOWS[window])
    cluster = Twice(join, Luck(), seed, delay)
    for step in cut(seed, *two_streams(seed)):
        cluster.batch(*map(timed, step))
        if cluster.random.random() < 0.3:
            cluster.idle()
    assert cluster.attempts


@pytest.fixture
def plenty(monkeypatch):
    monkeypatch.setattr(exchange, "TABLE_KEYS", 16)


def pack(join, side, rows, table, tasks):
    """Return the parcels of a side for each core; tasks have a hint or not."""
    found = {label: [] for label in join.labels}
    for task, (piece, hinted) in enumerate(tasks):
        with patch.object(exchange.hints, "find", lambda *_, hint=hinted: table if hint else None):
            for sent in StreamPacker(join, side)(iter(rows.take(piece).to_batches())):
                [row] = sent.to_pylist()
                core, parcel = open_envelope(row, task)
                found[core].append(parcel)
    return found


TEXTS = pa.schema(
    {"id": pa.int64(), "k": pa.int64(), "s": pa.string(), "both": pa.struct({"a": pa.string()}),
     "t": pa.timestamp("us", "UTC")}
)  # fmt: skip


def texts(count):
    """Rows of which few have a NULL, so that those of some cores have none."""
    columns = {
        "id": range(count),
        "k": [n % 40 for n in range(count)],
        "s": [None if n < 3 else "x" * (n % 5) for n in range(count)],
        "both": [None if n == 5 else {"a": "y" * (n % 3)} for n in range(count)],
        "t": range(1000, 1000 + count),
    }
    return pa.table(columns).cast(TEXTS)


@pytest.mark.parametrize("on", ["l.k = r.k", "abs(l.k - r.k) <= 2"])
@pytest.mark.parametrize("portion_bytes", [2000, 1 << 30])
@pytest.mark.parametrize("window", [sj.TimeWindow("1 second"), sj.TumblingWindow("1 second")])
def test_what_is_written_does_not_tell_who_had_a_hint(on, portion_bytes, window, monkeypatch):
    monkeypatch.setattr(portions, "PORTION_BYTES", portion_bytes)
    monkeypatch.setattr(state, "SEGMENT_BYTES", 1 << 20)
    options = {"emit": "eager"} if isinstance(window, sj.TumblingWindow) else {}
    join, rows = make_join(on, TEXTS, 3, window=window, time="t", **options), texts(600)
    found = []
    for hints_found in [(1.0, 1.0), (1.0, 0.0), (1.0, 0.5)]:
        cluster = Cluster(join, Luck(1, 1, hints_found[0], 0.0, 0.0), seed=4)
        for number, share in enumerate(hints_found):
            cluster.luck = Luck(1, 1, share, 0.0, 0.0)
            cluster.batch(rows.slice(300 * number, 300), rows.slice(300 * number, 300))
        found.append([(store.saved, store.segments) for store in cluster.stores.values()])
    assert found[0] == found[1] == found[2]


KEYS = {
    "hot": lambda rng, rows: np.where(rng.random(rows) < 0.9, 7, rng.integers(0, 99, rows)),
    "wide": lambda rng, rows: rng.integers(0, 10**6, rows),
}


@pytest.mark.parametrize("on", ["l.k = r.k", "abs(l.k - r.k) <= 2", "l.k < r.k"])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.usefixtures("plenty")
def test_a_core_gets_the_same_rows_in_any_order_with_or_without_a_hint(on, keys):
    schema = pa.schema({"id": pa.int64(), "k": pa.int64(), "t": pa.timestamp("us", "UTC")})
    rng, window = np.random.default_rng(3), sj.TimeWindow("5 ms")
    join = make_join(on, schema, 3, window=window, time="t")
    rows = pa.table([np.arange(400), keys(rng, 400), pa.array(np.arange(400), schema.types[2])],
                    schema=schema)  # fmt: skip
    halves = np.arange(200), np.arange(200, 400)

    def received(table, tasks, state_table):
        sent = pack(join, "left", rows, table, tasks)
        return [
            receive(join, number, state_table, sent[label])
            for number, label in enumerate(join.labels)
        ]

    def ids(got):
        stored = [each.sides["left"].stored for each in got]
        return [pa.Table.from_batches(each, schema)["id"].to_pylist() for each in stored]

    first = received(None, [(halves[0], False), (halves[1], False)], None)
    table = first[0].table
    again = received(None, [(rng.permutation(half), False) for half in halves], None)
    assert [each.table.to_json() for each in again] == [table.to_json()] * 3
    assert [sorted(each) for each in ids(again)] == ids(first)
    assert Counter(id_ for each in ids(first) for id_ in each) == Counter(range(400))
    assert max(map(len, ids(first))) < 200
    for hinted in [(True, True), (True, False), (False, True)]:
        got = received(table, list(zip(halves, hinted, strict=True)), table)
        assert ids(got) == ids(first)
        probing = [sum(map(len, each.sides["left"].probing)) for each in got]
        assert probing == [sum(map(len, each.sides["left"].probing)) for each in first]


def test_rows_that_were_routed_by_another_table_are_refused():
    schema = pa.schema({"k": pa.int64(), "t": pa.timestamp("us", "UTC")})
    join = make_join("l.k = r.k", schema, 2, window=sj.TimeWindow("5 ms"), time="t")
    rows = pa.table([[1, 2, 3], pa.array([1, 2, 3], schema.types[1])], schema=schema)
    sent = pack(join, "left", rows, RoutingTable.even(2), [(np.arange(3), True)])
    with pytest.raises(sj.StreamJoinError, match="names another checkpoint than the query's"):
        receive(join, 0, RoutingTable.spread(2), sent[join.labels[0]])


def test_ordered_joins_write_the_same_state():
    join = make_join("l.a < r.b", TIMED, 2, "split", window=sj.TimeWindow(5), time="t")
    cluster = Twice(replace(join, ordering=Ordering.parse("inner")), Luck(), 5, 2)
    for step in cut(5, *two_streams(5)):
        cluster.batch(*map(timed, step))
    assert cluster.attempts


@pytest.mark.parametrize("window", ["eager", "either"])
def test_no_workers_experience_decides_how_a_window_is_joined(window):
    join, decisions = make_join("l.k = r.k", TIMED, 1, **WINDOWS[window]), []
    for last in (1, 40):
        cluster = Cluster(join)
        for number in range(1, last + 1, 3):
            cluster.batch(*[plain(first + number, 3, t=number) for first in (0, 100)])
        [worker] = cluster.workers
        [cached] = worker.values()
        decisions.append(cached.engine.executor.closing.adviser.decision)
    assert decisions[0] is not None
    assert decisions[1] == decisions[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc fills memory")
def test_the_state_does_not_depend_on_what_is_in_fresh_memory():
    found = set()
    for filling in ("85", "170"):
        settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_PERTURB_": filling}
        ended = run_driver(state_digest, timeout=300, **settings)
        assert ended.returncode == 0, ended.stderr[-3000:]
        found.add(ended.stdout)
    assert len(found) == 1


def test_ids_tell_batch_side_number_and_content():
    cluster = Cluster(make_join("l.a < r.b", TIMED, 1, window=sj.TimeWindow(5), time="t"))
    cluster.batch(plain(0, 3), plain(0, 3))
    [manifest] = cluster.manifests()
    parts = [segment.id.split("-") for segment in manifest.segments]
    assert [each[:3] for each in parts] == [["0", "left", "0"], ["0", "right", "0"]]
    assert parts[0][3] == parts[1][3]  # they have the same rows
    assert len(parts[0][3]) == 32
    assert digest(next(iter(cluster.stores[0].segments.values()))) == parts[0][3]
