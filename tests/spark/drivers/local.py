"""A driver of its own: joins the two streams of files in a folder, until all files are read.

``python -m tests.spark.drivers.local FOLDER [die]``; with ``die``, Python workers are killed in the
middle of some batches. It prints when the query has started, and the number of each batch that is
done.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from streamjoin import TimeWindow
from streamjoin import spark as sjs
from streamjoin.spark import api, streams
from streamjoin.spark.cores.join_core import JoinCore
from streamjoin.spark.routing.exchange import StreamPacker
from streamjoin.spark.tasks import Moment
from tests.spark.drivers.starting import (
    read_sides,
    start_query,
    start_session,
    tell,
    tell_batches,
)

ON, WINDOW, DELAY = "abs(l.x - r.x) <= 0.02 and l.k <= r.k", TimeWindow("4 seconds"), "9 seconds"


def die_once(folder: str, place: str, batch: int) -> None:
    """Kill this worker, if it has not happened yet at this place in this batch."""
    moment = Moment.current()
    if moment is not None and moment.batch == batch:
        try:
            (Path(folder) / f"died-{place}").touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def let_workers_die(folder: str) -> None:
    """Let one worker die while it packs, one while it joins, and one after its work."""

    class Core(JoinCore):
        def join(self, *arguments: Any) -> Iterator[pa.RecordBatch]:
            for number, rows in enumerate(super().join(*arguments)):
                if number:
                    die_once(folder, "joining", 2)
                yield rows

        def step(self, parcels: Any) -> Iterator[pa.RecordBatch]:
            yield from super().step(parcels)
            die_once(folder, "written", 3)

    class Processor(streams.JoinProcessor):
        core_class = Core

    class Packer(StreamPacker):
        def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in super().__call__(batches):
                die_once(folder, "packing", 1)
                yield rows

    api.JoinProcessor = Processor  # type: ignore[attr-defined]
    streams.StreamPacker = Packer  # type: ignore[attr-defined]


def main(folder: str, what: str = "") -> None:
    session = start_session(SparkSession.builder.master("local[2,4]"), folder)
    sjs.configure(session, cores=3)
    if what == "die":
        let_workers_die(folder)
    left, right = read_sides(session, folder, DELAY)
    joined = sjs.join(left, right, on=ON, window=WINDOW, time="t")
    query = start_query(joined, folder)
    tell("started")
    tell_batches(query)
    session.read.parquet(f"{folder}/sink").write.parquet(f"{folder}/result")
    tell("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
