"""The demo on Spark: two streaming joins side by side on a local session.

::

    feeder --> data_centres/left, right/*.parquet --> query --> data_centres/matches/*.parquet
           --> prices/left, right/*.parquet       --> query --> prices/matches/*.parquet
                        |                                                |
                        +------------------> DuckDB: the same? <---------+

The first batch is fed and joined before the clock starts, because it starts Python workers and, on
a new machine, compiles kernels. It counts in the result, but not in the latencies.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from streamjoin.cli.demo.check import Comparison, committed_files, compare
from streamjoin.cli.demo.data_centres import DATA_CENTRES
from streamjoin.cli.demo.display import (
    Board,
    show_board,
    show_samples,
    show_scenarios,
    show_verdict,
)
from streamjoin.cli.demo.feeder import Feeder, Inbox
from streamjoin.cli.demo.prices import PRICES
from streamjoin.cli.demo.quiet_spark import check_packages, start_spark
from streamjoin.cli.demo.scenario import Pace
from streamjoin.errors import StreamJoinError
from streamjoin.jobs.patience import patience

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamjoin.cli.demo.live_join import LiveJoin

SECONDS = 25.0
BATCH_SECONDS = 0.5
SCENARIOS = (
    (DATA_CENTRES, Pace(BATCH_SECONDS, rows=500)),
    (replace(PRICES, window="5 seconds"), Pace(BATCH_SECONDS, rows=5_000)),
)
MARKER = ".streamjoin-demo"  # a file in every folder that the demo made
NOTE = "Spark {}, {} cores; latency: a file's arrival to its matches in parquet"
FIRST = "first micro-batches: Python workers start, on a new machine kernels compile"
SAMPLES = 3
POLL_SECONDS = 0.2


def run(
    console: Console,
    seconds: float = SECONDS,
    seed: int = 7,
    out: Path = Path("out/demo"),
) -> bool:
    """Run the demo; return whether both results were checked and are right."""
    started = time.perf_counter()
    check_packages()
    folders = make_folders(out)
    show_scenarios(console, [scenario for scenario, _ in SCENARIOS])
    with patience(console, "starting Spark", after=0):
        session = start_spark(out / "spark.log")
    with session as spark:
        joins = join_live(console, spark, folders, seconds, seed)
        with patience(console, "DuckDB computes the same joins over the whole input"):
            checks = [check(spark, join) for join in joins]
        for join, result in zip(joins, checks, strict=True):
            show_samples(console, join.inbox.scenario, result.samples)
        for join, result in zip(joins, checks, strict=True):
            numbers = result.found, result.expected, result.same
            show_verdict(console, join.title, "DuckDB", *numbers, seed)
    elapsed = time.perf_counter() - started
    console.print(f"{elapsed:.0f} s in all; the matches are in {out}/*/matches", highlight=False)
    return all(result.same for result in checks)


def make_folders(out: Path) -> list[Path]:
    """Make a folder per scenario, and remove what an earlier demo has left there."""
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise StreamJoinError(
            f"{out} holds files that are not from a demo. Name a new or an empty folder with --out."
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / MARKER).touch()
    folders = [out.resolve() / scenario.title.replace(" ", "_") for scenario, _ in SCENARIOS]
    for folder in folders:
        if folder.exists():
            shutil.rmtree(folder)
    return folders


def join_live(
    console: Console, spark: "SparkSession", folders: Sequence[Path], seconds: float, seed: int
) -> list["LiveJoin"]:
    """Feed and join for some seconds, and then until all that was fed is joined."""
    from streamjoin import spark as sjs
    from streamjoin.cli.demo.live_join import LiveJoin

    cores = spark.sparkContext.defaultParallelism
    sjs.configure(spark, cores)
    inboxes = [
        Inbox(scenario, pace, seed, folder)
        for (scenario, pace), folder in zip(SCENARIOS, folders, strict=True)
    ]
    batches = inboxes[0].pace.batches(seconds)
    feeder = Feeder(inboxes, BATCH_SECONDS, batches)
    joins: list[LiveJoin] = []
    try:
        with patience(console, FIRST, after=0):
            for inbox in inboxes:
                inbox.put()
                joins.append(LiveJoin(spark, inbox, batches))
            while any(join.files < 1 for join in joins):
                follow(joins)
        feeder.start()
        with show_board(console, Board(joins, NOTE.format(spark.version, cores))) as show:
            while any(join.files < batches for join in joins):
                feeder.check()
                follow(joins)
                show()
    finally:
        feeder.stop()
        for join in joins:
            join.query.stop()
    return joins


def follow(joins: Sequence["LiveJoin"]) -> None:
    """Wait a moment, then read the reports of the queries."""
    time.sleep(POLL_SECONDS)
    for join in joins:
        join.follow()


def check(spark: "SparkSession", join: "LiveJoin") -> Comparison:
    """Compare what a join has committed with DuckDB's result for the same input."""
    files = committed_files(spark, join.result)
    return compare(join.inbox.scenario, join.inbox.folders, files, SAMPLES)
