"""What a core keeps: no segment is too large, and nothing damaged is taken for rows."""

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import SnapshotError
from streamjoin.spark.cores import join_core
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.state import segments as state
from streamjoin.spark.state.digests import seal, unseal
from streamjoin.spark.state.segments import Manifest, Segment
from tests.spark.cores.test_join_core import NONE, TIMED, plain
from tests.spark.in_process import Cluster, MemoryStore, make_join

EVERY = "l.a < r.b"
MINUTE = {"window": sj.TimeWindow("1 minute"), "time": "t"}


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    """Keep hints apart."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))


def begun(batches=4, **options):
    """Return a cluster of one core that has some segments, as a worker finds it after a restart."""
    cluster = Cluster(make_join(EVERY, TIMED, 1, **(options or MINUTE)))
    for number in range(batches):
        cluster.batch(plain(10 * number, 3, t=number + 1), plain(10 * number, 2, t=number + 1))
    cluster.restart()
    [store] = cluster.stores.values()
    return cluster, store


def damage(dice, data):
    """Change bytes: a bit, some of them, the end, or the length."""
    changed, kind = bytearray(data), dice.choice(["bit", "bit", "bytes", "cut", "more", "nothing"])
    place = dice.randrange(len(changed))
    if kind == "bit":
        changed[place] ^= 1 << dice.randrange(8)
    elif kind == "bytes":
        changed[place : place + 8] = dice.randbytes(8)
    elif kind == "cut":
        del changed[place:]
    elif kind == "more":
        changed += dice.randbytes(dice.randint(1, 9))
    else:
        changed.clear()
    return bytes(changed)


def test_a_damaged_manifest_is_refused():
    cluster, store = begun()
    written, dice = store.saved, Random(1)
    for _ in range(300):
        store.saved = damage(dice, written)
        with pytest.raises(SnapshotError, match=r"the manifest of the state, .* is damaged"):
            cluster.batch(plain(90, 1, t=9), NONE)


@pytest.mark.parametrize(
    "options",
    [
        MINUTE,
        {"window": sj.CountWindow(100)},
        {"window": sj.TumblingWindow("1 minute"), "time": "t"},
        {"window": sj.SessionWindow("1 minute"), "time": "t"},
    ],
    ids=str,
)
def test_a_damaged_segment_is_refused_by_name(options):
    cluster, store = begun(**options)
    dice, written = Random(1), dict(store.segments)
    for _ in range(100):
        id_ = dice.choice(sorted(written))
        store.segments = {**written, id_: damage(dice, written[id_])}
        with pytest.raises(SnapshotError, match=f"segment {id_}, .* bytes, is not what was writ"):
            cluster.batch(plain(90, 1, t=9), NONE)
    del store.segments[id_]
    with pytest.raises(SnapshotError, match=f"segment {id_} is listed in the state but not there"):
        cluster.batch(plain(90, 1, t=9), NONE)


def test_segments_that_were_exchanged_are_refused():
    cluster, store = begun()
    one, two = sorted(store.segments)[:2]
    store.segments[one], store.segments[two] = store.segments[two], store.segments[one]
    with pytest.raises(SnapshotError, match="is not what was written"):
        cluster.batch(plain(90, 1, t=9), NONE)


def test_a_damaged_segment_is_refused_when_segments_are_put_together(monkeypatch):
    cluster, store = begun(batches=3)
    cluster.batch(plain(80, 1, t=8), NONE)  # now the worker has an engine, and reads nothing
    monkeypatch.setattr(state, "SMALL_SEGMENTS", 4)
    last = [segment.id for segment in store.manifest.segments if segment.side == "left"][-1]
    store.segments[last] = damage(Random(3), store.segments[last])
    with pytest.raises(SnapshotError, match=f"segment {last}"):
        cluster.batch(plain(90, 1, t=9), NONE)


def test_copies_are_used_as_long_as_they_are_whole():
    dice = Random(2)
    for number in range(20):
        cluster, store = begun()
        store.copies = dict(store.segments)
        damaged = sorted(store.segments)[: number % 5]
        for id_ in damaged:
            store.copies[id_] = damage(dice, store.copies[id_])
        before = store.reads
        assert cluster.pairs(NONE, plain(90, 1, t=9)).total() == 12
        assert store.reads - before == len(damaged)


def test_copies_of_segments_that_are_gone_are_removed():
    cluster, store = begun()
    store.copies = {"0-left-0-of another attempt": b"", **store.segments}
    cluster.batch(plain(90, 1, t=9), NONE)
    assert set(store.copies) <= set(store.segments)


def unsealed_by_version_1(_):
    return b'{"facts": {"format": 1}, "segments": []}'


def with_a_field_more(written):
    return seal(json.dumps(json.loads(unseal(written)) | {"unmatched": []}).encode())


def with_a_field_less(written):
    saved = json.loads(unseal(written))
    del saved["table"]
    return seal(json.dumps(saved).encode())


@pytest.mark.parametrize("other", [unsealed_by_version_1, with_a_field_more, with_a_field_less])
def test_a_state_of_another_version_is_refused(other):
    cluster, store = begun()
    store.saved = other(store.saved)
    with pytest.raises(SnapshotError, match="or another version of streamjoin wrote it"):
        cluster.batch(plain(90, 1, t=9), NONE)


def long_texts(first, count, length, t=1):
    return plain(first, count, t=t, s="x" * length)


@pytest.mark.parametrize(
    "options",
    [
        MINUTE,
        {"window": sj.CountWindow(1000)},
        {"window": sj.TumblingWindow("1 minute"), "time": "t"},
        {"window": sj.TumblingWindow("1 minute"), "time": "t", "emit": "eager"},
        {"window": sj.SessionWindow("1 minute"), "time": "t"},
    ],
    ids=str,
)
def test_no_segment_and_no_batch_that_is_restored_is_too_large(options, monkeypatch):
    monkeypatch.setattr(state, "SEGMENT_BYTES", 1 << 12)
    monkeypatch.setattr(join_core, "LOAD_BYTES", 1 << 13)
    monkeypatch.setattr(state, "SMALL_SEGMENTS", 4)
    restored, prepare_stored = [], JoinCore._prepare_stored

    def watch(core, side, rows, *others):
        restored.append(rows.nbytes)
        return prepare_stored(core, side, rows, *others)

    monkeypatch.setattr(JoinCore, "_prepare_stored", watch)
    cluster = Cluster(make_join("l.k = r.k", TIMED, 1, **options))
    [store] = cluster.stores.values()
    found = cluster.pairs(long_texts(0, 40, 1000), NONE)  # many segments of one batch
    large = set(store.segments)
    assert len(large) > 10
    for number in range(1, 60):
        found += cluster.pairs(long_texts(100 * number, 2, 300), NONE)
        sizes = [segment.size for segment in store.manifest.segments]
        assert max(sizes) <= 1 << 12
        assert len(sizes) < 10 + 4 + 2 * sum(sizes) / (1 << 12)
        assert large <= set(store.segments)  # they are not written again
    assert sum(segment.rows for segment in store.manifest.segments) == 40 + 59 * 2
    cluster.restart()
    found += cluster.pairs(NONE, plain(0, 1))
    assert len(restored) > 5
    assert max(restored) <= 1 << 13
    cluster.watermark = 10**9
    for batch in cluster.idle():
        found.update(zip(batch["id"].to_pylist(), batch["id_right"].to_pylist(), strict=True))
    assert found.total() == 40 + 59 * 2


def test_a_row_that_is_too_large_is_a_segment_of_its_own(monkeypatch):
    monkeypatch.setattr(state, "SEGMENT_BYTES", 500)
    store, manifest = MemoryStore(), Manifest({})
    rows = pa.concat_tables([long_texts(0, 1, 2000), long_texts(1, 9, 10)]).to_batches()
    whole = pa.concat_batches(rows)
    state.write_segments(store, manifest, 7, "left", whole, 1)
    assert manifest.segments[0].rows == 1
    assert sum(segment.rows for segment in manifest.segments) == 10
    read = pa.Table.from_batches(state.read_segment(store, each) for each in manifest.segments)
    assert read.equals(pa.Table.from_batches([whole]))
    assert [each.id.split("-")[2] for each in manifest.segments] == [
        str(number) for number in range(len(manifest.segments))
    ]


def test_segments_are_shared_out_by_their_size():
    def segments(*sizes):
        return [Segment(str(n), "left", 1, 1, size, 1) for n, size in enumerate(sizes)]

    def shared(*sizes):
        return [
            [each.size for each in share] for share in state.group_segments(segments(*sizes), 10)
        ]

    assert shared() == []
    assert shared(0, 0) == [[0, 0]]
    assert shared(5, 5, 1, 11, 3, 3, 4) == [[5, 5], [1], [11], [3, 3, 4]]


def test_ordered_rows_are_restored_in_order_however_many_batches_it_takes():
    rng = np.random.default_rng(1)
    every = rng.permutation(1000)
    parts = [
        pa.record_batch({"x": part * 2, state.ORDINAL: part})
        for part in np.split(every, [10, 500, 501])
    ]
    for count in (1, 2, 7, 1000):
        sorted_ = list(join_core.sort_by_ordinal(parts, count))
        assert len(sorted_) <= count
        table = pa.Table.from_batches(sorted_)
        assert table[state.ORDINAL].to_pylist() == list(range(1000))
        assert table["x"].to_pylist() == list(range(0, 2000, 2))
