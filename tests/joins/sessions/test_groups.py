"""Sessions of keys whose hashes are equal: made on purpose, since chance does not bring them.

With the seed of this process they would not be, so these joins have none.
"""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.keys.hashing import FIXED, hash_bytes, hash_columns
from tests.keys.chosen_keys import pairs_of_numbers, texts

KEYS = 3


@pytest.fixture(autouse=True)
def no_seed():
    with patch("streamjoin.joins.build.process_seed", lambda: FIXED):
        yield


KINDS = {
    "two numbers": ("l.a = r.a and l.b = r.b", pairs_of_numbers(KEYS)),
    "binary": ("l.a = r.a", [(text, 0) for text in texts(KEYS)]),
    "binary, NULL equals NULL": (
        "l.a <=> r.a",
        [*((text, 0) for text in texts(KEYS)[:-1]), (None, 0)],
    ),
    "a number and binary": ("l.b = r.b and l.a = r.a", [(text, 7) for text in texts(KEYS)]),
}


def table(rows, keys, first):
    """Rows of a key's number and a time, with ids."""
    columns = {
        "id": range(first, first + len(rows)),
        "key": [key for key, _ in rows],
        "a": [keys[key][0] for key, _ in rows],
        "b": [keys[key][1] for key, _ in rows],
        "t": [t for _, t in rows],
    }
    a = pa.binary() if isinstance(keys[0][0], bytes) else pa.int64()
    types = [pa.int64(), pa.int64(), a, pa.int64(), pa.int64()]
    arrays = [pa.array(values, type) for values, type in zip(columns.values(), types, strict=True)]
    return pa.table(arrays, list(columns))


def test_the_hashes_are_equal():
    first, second = (np.array(column) for column in zip(*pairs_of_numbers(KEYS), strict=True))
    assert np.unique(hash_columns((first, second), FIXED)).size == 1
    assert np.unique(hash_bytes(pa.array(texts(KEYS)))).size == 1


@pytest.mark.parametrize("emit", ["close", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_key_bridges_no_pause_of_another(kind, emit):
    on, keys = KINDS[kind]
    join = sj.StreamJoin(on, sj.SessionWindow(10), time="t", emit=emit)
    join.push(table([(0, 0)], keys, 0), table([(0, 20)], keys, 0))
    join.push(table([(1, 10)], keys, 1), table([(1, 10)], keys, 1))
    join.push(table([(0, 21)], keys, 2))
    join.finish()
    assert join.stats.matches == 2  # 10 with 10, and 21 with 20


rows = st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(0, 60)), max_size=8)
pushes = st.lists(st.tuples(rows, rows, st.sampled_from([None, None, 5, 20, 40])), max_size=6)


def run(on, keys, steps, emit, restored):
    join = sj.StreamJoin(on, sj.SessionWindow(7), time="t", emit=emit)
    found, clock = [], 0
    for number, (left, right, watermark) in enumerate(steps):
        sides = [table(side, keys, 100 * number) for side in (left, right)]
        found.append(join.push(*sides))
        if watermark is not None:
            clock = max(clock, watermark)
            found.append(join.advance(clock))
        if number in restored:
            join = sj.StreamJoin.restore(join.snapshot())
        held = join._state.engine.executor if join._state.engine is not None else None
        if held is not None:
            held.check()
    found.append(join.finish())
    pairs = [each.select(["id", "id_right"]).to_pydict() for each in found if each.num_rows]
    return Counter(
        pair for each in pairs for pair in zip(each["id"], each["id_right"], strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    steps=pushes,
    emit=st.sampled_from(["close", "eager"]),
    restored=st.sets(st.integers(0, 5), max_size=2),
)
def test_equal_hashes_change_nothing(kind, steps, emit, restored):
    on, keys = KINDS[kind]
    exact = run("l.key = r.key", keys, steps, emit, restored)
    assert run(on, keys, steps, emit, restored) == exact


def test_tables():
    on, keys = KINDS["two numbers"]
    left = table([(0, 0), (1, 10), (0, 21)], keys, 0)
    right = table([(1, 10), (0, 20)], keys, 0)
    joined = sj.join_tables(left, right, on=on, window=sj.SessionWindow(10), time="t")
    assert sorted(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True)) == [
        (1, 0),
        (2, 1),
    ]


def test_a_name_stays_passed_over_when_its_owner_is_gone():
    on, keys = KINDS["two numbers"]
    join = sj.StreamJoin(on, sj.SessionWindow(10), time="t")
    join.push(table([(0, 0), (1, 9)], keys, 0), table([(1, 9)], keys, 0))
    join.advance(15)  # what has key 0 has ended, what has key 1 goes on
    assert join.stats.live_left == 1
    join.push(table([(1, 18)], keys, 2))
    assert join.stats.subwindows == 1
    assert join.finish().num_rows == 2
