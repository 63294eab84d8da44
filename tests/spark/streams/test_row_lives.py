"""The lives of rows in real queries: observers in Spark's workers write down what they are told."""

import json
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark import cloudpickle

from streamjoin import TumblingWindow
from streamjoin.spark import api
from tests.spark.streams.random_batches import SECOND, WINDOW, flat, make_batches, table
from tests.spark.streams.running import Streams, finish, pairs

pytestmark = pytest.mark.spark


class Writer:
    """Appends what it was told to a file per core, when the core's attempt is done."""

    def __init__(self, folder, core):
        self.path, self.lines = Path(folder) / f"{core}.jsonl", []

    def note_arrivals(self, side, ordinals, rows):
        self.lines.append(["came", side, ordinals.tolist(), rows["id"].to_pylist()])

    def note_guests(self, side, ordinals, rows):
        self.lines.append(["guests", side, ordinals.tolist(), rows["id"].to_pylist()])

    def note_matches(self, pairs):
        self.lines.append(["matches", None, pairs.left.tolist(), pairs.right.tolist()])

    def note_ends(self, side, ordinals, are_lost):
        self.lines.append(["lost" if are_lost else "ended", side, ordinals.tolist(), []])

    def mark(self):
        return len(self.lines)

    def undo(self, mark):
        del self.lines[mark:]

    def keep(self):
        with self.path.open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in self.lines)


class ByValue:
    """Goes to workers with its code: they need not be able to import tests."""

    def __init__(self, make):
        self.make = make

    def __call__(self, core):
        return self.make(core)

    def __reduce__(self):
        module = sys.modules[__name__]
        cloudpickle.register_pickle_by_value(module)
        try:
            return cloudpickle.loads, (cloudpickle.dumps(self.make),)
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def read(folder):
    """Return pairs, arrivals and ends over all cores, by the rows' ids; check each core's own."""
    matches, came, ended, guests = (Counter() for _ in range(4))
    for path in folder.iterdir():
        names, living = {}, set()
        for line in path.read_text().splitlines():
            act, side, ordinals, others = json.loads(line)
            assert act != "lost"
            if act == "matches":
                rows = zip(ordinals, others, strict=True)
                matches.update((names["left", one], names["right", two]) for one, two in rows)
                continue
            rows = [(side, ordinal) for ordinal in ordinals]
            if act == "ended":
                living -= set(rows)
                ended.update(names[row] for row in rows)
                continue
            names |= zip(rows, others, strict=True)
            (came if act == "came" else guests).update(others)
            if act == "came":
                assert not living & set(rows)
                living |= set(rows)
    return matches, came, ended, guests


JOINS = {
    "sliding": {"on": "abs(l.x - r.x) <= 0.1", "window": WINDOW, "time": "t"},
    "tumbling": {"on": "l.k = r.k", "window": TumblingWindow("4 seconds"), "time": "t"},
}


def test_each_row_comes_and_ends_once(session, tmp_path, monkeypatch):
    streams, batches, make_spec = Streams(session, tmp_path), make_batches(5), api.make_spec
    row = {"id": 10_000, "t": 9000 * SECOND, "k": 1, "s": "", "x": 0.0, "o": 0}
    batches.append(([row], [{**row, "id": 10_001, "t": 9990 * SECOND}]))
    for batch in batches:
        streams.add(*map(table, batch))
    queries = {}
    for name, join in JOINS.items():
        folder = tmp_path / f"told-{name}"
        folder.mkdir()
        observe = ByValue(partial(Writer, str(folder)))
        monkeypatch.setattr(
            api, "make_spec", lambda *args, made=observe, **others: replace(
                make_spec(*args, **others), observe=made
            )
        )  # fmt: skip
        queries[name] = streams.start(streams.join(**join))
    finish(*queries.values())
    for name, query in queries.items():
        matches, came, ended, guests = read(tmp_path / f"told-{name}")
        rows = flat(batches)
        assert matches == pairs(session.table(query.name))
        assert matches.total() > 20
        assert came == Counter(row["id"] for side in rows for row in side)
        assert ended == came - Counter([10_000, 10_001])
        assert bool(guests) == (name == "sliding")
