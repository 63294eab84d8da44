"""Keys chosen so that all have one hash: joins do no more work for them than for any others.

Work is counted, not timed: candidates that are compared, slots that are passed over. Each count is
taken without a seed as well, where the same keys show what they were chosen for.
"""

import subprocess
import sys
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.joins.equality.eager.code_table import CodeTable
from streamjoin.joins.equality.eager.slots import SLOT, TUPLES, home_of
from streamjoin.joins.equality.lazy.npj import NPJ
from streamjoin.joins.equality.words import BASE, encode, make_words
from streamjoin.joins.sessions import group_table
from streamjoin.joins.sessions.group_table import GroupTable
from streamjoin.keys.hashing import FIXED, hash_bytes, mix
from tests.keys.chosen_keys import (
    keys_of_codes,
    numbers_with_ending,
    numbers_with_prefix,
    pairs_of_numbers,
    texts,
    wide_keys_of_one_code,
)

MANY = 300


@contextmanager
def seeded(seed):
    with patch("streamjoin.joins.build.process_seed", lambda: seed):
        yield


def rows_of(keys):
    """One row of each key, with different bands."""
    columns = list(zip(*keys, strict=True)) if isinstance(keys[0], tuple) else [keys, keys]
    return pa.table({"a": columns[0], "b": columns[1], "x": [0] * len(keys), "t": [0] * len(keys)})


CONDITIONS = {
    "binary": ("l.a = r.a", texts(MANY)),
    "two numbers": ("l.a = r.a and l.b = r.b", pairs_of_numbers(MANY)),
    "a number and a band": ("l.a = r.a and abs(l.x - r.x) <= 1", numbers_with_prefix(MANY)),
    "binary and a band": ("l.a = r.a and abs(l.x - r.x) <= 1", texts(MANY)),
}


def count_candidates(on, keys, **options):
    table = rows_of(keys)
    join = sj.StreamJoin(on, sj.CountWindow(10_000), **options)
    join.push(table, table.slice(0, 0))
    found = join.find(right=table)
    assert found.count() == len(keys)
    return sum(len(each.matches) for each in found._found)


@pytest.mark.parametrize("algorithm", ["bi_sort", "pim_tree"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_chosen_keys_are_no_candidates_of_each_other(name, algorithm):
    on, keys = CONDITIONS[name]
    with seeded(FIXED):
        assert count_candidates(on, keys, algorithm=algorithm) == MANY * MANY
    assert count_candidates(on, keys, algorithm=algorithm) <= 1.1 * MANY


@pytest.mark.parametrize("name", ["binary", "two numbers"])
def test_sessions_pass_over_no_names(name):
    # Once: 1,000 such keys were not through in half a minute.
    on, keys = CONDITIONS[name]
    some = keys[:20]

    def passed(keys):
        join = sj.StreamJoin(on, sj.SessionWindow(10), time="t")
        assert join.push(rows_of(keys), rows_of(keys)).num_rows == 0
        groups = join._state.engine.executor.groups
        assert join.finish().num_rows == len(keys)
        return len(groups.passed)

    with seeded(FIXED):
        assert passed(some) == len(some) - 1
    assert passed(keys) == 0


def slots_passed(groups):
    """How many slots a table of groups passes over to put them in, all together."""
    table = GroupTable(groups.size)
    table.put(groups, np.arange(groups.size))
    table.check()
    places = np.flatnonzero(table.slots[1::2] != group_table.NONE)
    homes = [group_table.home_of(table.slots, table.secrets, each) // 2 for each in table.groups]
    return int(((places - np.array(homes)) % (table.slots.size // 2)).sum())


def test_groups_have_slots_of_their_own():
    chosen = np.array(numbers_with_ending(MANY))
    assert np.unique(mix(np.int64(chosen[0])) & 0xFFFFFFFF) == 0
    assert slots_passed(chosen) < 3 * MANY  # of MANY * MANY / 2
    assert slots_passed(np.arange(MANY)) < 3 * MANY


def passed_by_codes(keys):
    """How many slots a table of codes passes over, all together."""
    words, _ = make_words(keys)
    table = CodeTable()
    table.insert(words)
    table.check()
    slots = table.slots.reshape(-1, SLOT)
    places = np.flatnonzero(slots[:, TUPLES] != 0)
    homes = np.array([home_of(table.slots, np.uint32(slots[at, 0])) // SLOT for at in places])
    return int(((places - homes) % len(slots)).sum())


def test_codes_have_slots_of_their_own():
    chosen = np.array(keys_of_codes(range(0, MANY << 20, 1 << 20))) + BASE
    assert passed_by_codes(chosen) < 3 * MANY  # of MANY * MANY / 2


@pytest.mark.parametrize("algorithm", ["shj_jm", "shj_jb", "npj", "prj"])
def test_wide_keys_have_codes_of_their_own(algorithm):
    keys = np.array(wide_keys_of_one_code(MANY))
    encoded = encode(keys, keys)
    assert not encoded.exact
    assert sum(len(piece) for piece in NPJ().join(encoded.left, encoded.right)) <= MANY + 2
    table = rows_of(keys.tolist())
    join = sj.StreamJoin("l.a = r.a", sj.TumblingWindow(10), time="t", algorithm=algorithm)
    assert join.push(table, table).num_rows + join.finish().num_rows == MANY


# The same rows, whatever the seed.


def steps_of(keys):
    table = pa.table({"s": [f"key {key % 7}" for key in keys], "k": keys, "t": keys})
    return [(table.slice(first, 20), table.slice(first + 5, 20)) for first in range(0, 200, 20)]


JOINS = {
    "time": {"on": "l.s = r.s and l.k < r.k", "window": sj.TimeWindow(30), "time": "t"},
    "hash": {"on": "l.s = r.s and l.k % 3 = r.k % 3", "window": sj.CountWindow(50)},
    "cores": {"on": "l.s = r.s", "window": sj.CountWindow(50), "cores": 2},
    "tumbling": {"on": "l.s = r.s", "window": sj.TumblingWindow(30), "time": "t", "delay": 5},
    "session": {"on": "l.s = r.s", "window": sj.SessionWindow(10), "time": "t", "delay": 5},
    "shj": {
        "on": "l.s = r.s",
        "window": sj.TumblingWindow(30),
        "time": "t",
        "algorithm": "shj_jm",
    },
}


def rows(tables):
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("name", JOINS)
def test_a_join_goes_on_with_the_seed_of_its_snapshot(name):
    steps = steps_of(list(range(220)))
    with seeded(11):
        whole = sj.StreamJoin(**JOINS[name])
        expected = rows([*(whole.push(*step) for step in steps), whole.finish()])
    with seeded(12):
        join = sj.StreamJoin(**JOINS[name])
        found = [join.push(*step) for step in steps[:5]]
        saved = join.snapshot()
    with seeded(13):
        join = sj.StreamJoin.restore(saved)
        assert join._state.engine.plan.seed == 12
        found += [*(join.push(*step) for step in steps[5:]), join.finish()]
    assert rows(found) == expected


ELSEWHERE = """
import sys
import pyarrow as pa
import streamjoin as sj
from streamjoin.keys.hashing import process_seed

with open(sys.argv[1], "rb") as file:
    join = sj.StreamJoin.restore(file.read())
assert join._state.engine.plan.seed != process_seed()
table = pa.table({"s": [f"key {key % 7}" for key in range(9)], "k": range(9), "t": range(9)})
print(join.push(right=table).num_rows)
"""


def test_a_snapshot_is_restored_in_another_process(tmp_path):
    join = sj.StreamJoin(**JOINS["hash"])
    for step in steps_of(list(range(220)))[:3]:
        join.push(*step)
    path = tmp_path / "snapshot"
    path.write_bytes(join.snapshot())
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    table = pa.table({"s": [f"key {key % 7}" for key in range(9)], "k": range(9), "t": range(9)})
    assert int(done.stdout) == join.push(right=table).num_rows > 0


def test_chosen_texts_are_what_they_are_said_to_be():
    assert np.unique(hash_bytes(pa.array(texts(MANY)))).size == 1
    assert len(set(texts(MANY))) == MANY
