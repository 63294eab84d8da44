"""The demo's check: a digest that sees every wrong, missing or doubled row, in any order."""

import io

import pyarrow as pa
import pytest
from rich.console import Console

from streamjoin import demo
from streamjoin.demo import DISORDER_US, Digest, Feed


def digest_of(*tables):
    digest = Digest()
    for table in tables:
        digest.add(table)
    return digest


@pytest.fixture
def rows():
    left, _ = next(iter(Feed(seed=1, batches=1)))
    return left.slice(0, 6)


def test_a_digest_depends_neither_on_order_nor_on_batches(rows):
    backwards = rows.take([5, 4, 3, 2, 1, 0])
    assert digest_of(rows) == digest_of(backwards) == digest_of(rows.slice(4), rows.slice(0, 4))
    assert digest_of(rows, rows.slice(0, 0)) == digest_of(rows)


def test_a_digest_sees_a_missing_a_doubled_and_an_exchanged_row(rows):
    assert digest_of(rows) != digest_of(rows.slice(1))
    assert digest_of(rows) != digest_of(rows, rows.slice(0, 1))
    assert digest_of(rows) != digest_of(rows.take([0, 0, 2, 3, 4, 5]))


@pytest.mark.parametrize("name", ["trade_id", "symbol", "price", "qty", "ts"])
def test_a_digest_sees_every_column(rows, name):
    position = rows.column_names.index(name)
    shuffled = rows.set_column(position, name, rows[name].take([1, 0, 2, 3, 4, 5]))
    assert digest_of(rows) != digest_of(shuffled)


def test_a_feed_repeats_and_stays_within_its_disorder():
    first, second = list(Feed(seed=3, batches=4)), list(Feed(seed=3, batches=4))
    assert first == second
    assert first != list(Feed(seed=4, batches=4))
    latest = None
    for left, right in first:
        for table in (left, right):
            times = table["ts"].cast(pa.int64()).to_numpy()
            latest = times.max() if latest is None else max(latest, times.max())
            assert latest - times.min() <= 2 * DISORDER_US
    ids = pa.concat_tables([left for left, _ in first])["trade_id"]
    assert len(ids.unique()) == len(ids)


def test_a_difference_is_told(monkeypatch):
    monkeypatch.setattr(demo, "_recompute", lambda trades, quotes: Digest(1, 2))
    console = Console(file=io.StringIO(), width=200)
    assert not demo.run(console, seconds=0.1)
    assert "DIFFERENT" in console.file.getvalue()


def test_a_terminal_gets_a_live_display():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    assert demo.run(console, seconds=0.2)
    text = console.file.getvalue()
    assert "100%" in text
    assert "identical" in text
