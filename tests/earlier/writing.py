"""State as it is written today, for versions to come: ``python -m tests.earlier.writing``.

::

    tests/earlier/snapshots-5.zip     a snapshot of each kind of join, of format 5
    tests/earlier/checkpoints-2.zip   Spark's checkpoints after `FIRST` batches, of format 2

A file stays as it is as long as its format is read: what is written over it proves nothing.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from streamjoin import SessionWindow, TimeWindow
from streamjoin.api.snapshots import FORMAT
from tests.api.saved_joins import STATES, make
from tests.oracle import Pairs, Steps

EARLIER = Path(__file__).parent
SNAPSHOTS, CHECKPOINTS = EARLIER / "snapshots-5.zip", EARLIER / "checkpoints-2.zip"
ROOT = b"/folder-of-the-streams"  # in place of the one where they were written
FOUND = "found.json"  # what the streams find after the stop, as pairs of ids
FIRST, BATCHES = 2, 4  # batches before the stop, and all
SLIDING = TimeWindow(before="4 seconds", after="2 seconds")
JOINS: dict[str, dict[str, Any]] = {
    "sliding": {"on": "abs(l.x - r.x) <= 0.02 and l.k = r.k", "window": SLIDING, "time": "t"},
    "session": {"on": "l.k = r.k", "window": SessionWindow("1 second"), "time": "t"},
}


def write_snapshots(path: Path) -> None:
    """Write a snapshot of each kind of join."""
    with ZipFile(path, "w", ZIP_DEFLATED) as file:
        for state in STATES:
            file.writestr(state, make(state).snapshot())


def write_checkpoints(path: Path) -> None:
    """Write the checkpoints of streams that were stopped, and what they find when they go on."""
    from tests.spark.streams.random_batches import make_batches, table
    from tests.spark.streams.running import Streams, finish, pairs

    session = make_session()

    def run(streams: Streams, batches: Steps) -> dict[str, Pairs]:
        for batch in batches:
            streams.add(*map(table, batch))
        joins = JOINS.items()
        finish(*(streams.start(streams.join(**join), name, "files") for name, join in joins))
        return {name: pairs(streams.sink(name)) for name in JOINS}

    with tempfile.TemporaryDirectory() as folder, ZipFile(path, "w", ZIP_DEFLATED) as file:
        streams = Streams(session, Path(folder), "9 seconds")
        batches = make_batches(19, count=BATCHES)
        before = run(streams, batches[:FIRST])
        for name in JOINS:
            root = Path(folder) / f"checkpoint-{name}"
            for each in sorted(root.rglob("*")):
                if each.is_file() and each.suffix != ".crc":
                    told = each.read_bytes().replace(folder.encode(), ROOT)
                    file.writestr(f"{name}/{each.relative_to(root)}", told)
        after = run(streams, batches[FIRST:])
        found = {name: sorted((after[name] - before[name]).elements()) for name in JOINS}
        file.writestr(FOUND, json.dumps(found))
    session.stop()


def make_session() -> Any:
    """Start Spark as the tests of streams do."""
    from pyspark.sql import SparkSession

    from streamjoin import spark as sjs

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    sjs.configure(session)
    return session


def open_checkpoint(name: str, folder: Path) -> None:
    """Unpack the checkpoint of a stream that reads files in a folder."""
    with ZipFile(CHECKPOINTS) as file:
        for each in file.namelist():
            if each.startswith(f"{name}/"):
                path = folder / f"checkpoint-{each}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read(each).replace(ROOT, str(folder).encode()))


if __name__ == "__main__":
    assert str(FORMAT) in SNAPSHOTS.name
    for write, path in ((write_snapshots, SNAPSHOTS), (write_checkpoints, CHECKPOINTS)):
        if path.exists():
            sys.stderr.write(f"{path.name} is there already, and stays as it is\n")
        else:
            write(path)
