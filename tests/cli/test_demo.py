"""The demos: feeds that repeat, checks that see every wrong row, and whole runs."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pytest
from pyarrow import parquet
from rich.console import Console

from streamjoin import StreamJoinError, join_tables
from streamjoin.cli.demo import in_process, on_spark
from streamjoin.cli.demo.check import compare
from streamjoin.cli.demo.data_centres import DATA_CENTRES
from streamjoin.cli.demo.display import Board, show_board
from streamjoin.cli.demo.feeder import Feeder, Inbox
from streamjoin.cli.demo.in_process import Digest
from streamjoin.cli.demo.prices import PRICES
from streamjoin.cli.demo.scenario import DISORDER_US, Pace
from streamjoin.windows import TimeWindow

PACE = Pace(seconds=0.05, rows=500)
BOTH = pytest.mark.parametrize("scenario", [DATA_CENTRES, PRICES], ids=lambda each: each.title)


def feed(scenario, seed, batches):
    return list(islice(scenario.generate(PACE, seed), batches))


@BOTH
def test_a_feed_repeats_and_stays_within_its_disorder(scenario):
    first = feed(scenario, 3, 4)
    assert first == feed(scenario, 3, 4)
    assert first != feed(scenario, 4, 4)
    latest = None
    for tables in first:
        for table in tables:
            times = table["ts"].cast(pa.int64()).to_numpy()
            latest = times.max() if latest is None else max(latest, times.max())
            assert latest - times.min() <= 2 * DISORDER_US
    ids = pa.concat_tables([left for left, _ in first])[0]
    assert len(ids.unique()) == len(ids)


def test_few_racks_are_out_of_order_and_a_few_of_these_often():
    sides = [pa.concat_tables(side) for side in zip(*feed(DATA_CENTRES, 7, 10), strict=True)]
    matches = join_tables(*sides, on=DATA_CENTRES.on)
    assert 0 < matches.num_rows < 0.001 * sides[0].num_rows * sides[1].num_rows
    counts = matches["rack"].value_counts().field("counts").to_pylist()
    assert max(counts) > 10 * sorted(counts)[len(counts) // 2]


# in process -----------------------------------------------------------------------------------


def digest_of(*tables):
    digest = Digest()
    for table in tables:
        digest.add(table)
    return digest


@pytest.fixture
def rows():
    [(left, _)] = feed(PRICES, 1, 1)
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


def test_a_difference_is_told(monkeypatch):
    monkeypatch.setattr(in_process, "_recompute", lambda trades, quotes: Digest(1, 2))
    console = Console(file=io.StringIO(), width=200)
    assert not in_process.run(console, seconds=0.1)
    assert "DIFFERENT" in console.file.getvalue()


def test_a_terminal_gets_a_live_display():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    assert in_process.run(console, seconds=0.2)
    text = console.file.getvalue()
    assert "100%" in text
    assert "identical" in text


# on Spark -------------------------------------------------------------------------------------


def write_scenario(folder):
    """Write both inputs and the true matches of a small scenario; return what `compare` takes."""
    sides = [pa.concat_tables(side) for side in zip(*feed(PRICES, 5, 4), strict=True)]
    window = TimeWindow(PRICES.window)
    matches = join_tables(*sides, on=PRICES.on, window=window, time="ts")
    for name, table in zip(("left", "right", "matches"), (*sides, matches), strict=True):
        (folder / name).mkdir()
        parquet.write_table(table, folder / name / "0.parquet")
    return matches, (folder / "left", folder / "right"), folder / "matches" / "0.parquet"


def test_the_check_on_files_sees_every_wrong_row(tmp_path):
    matches, inputs, file = write_scenario(tmp_path)
    assert matches.num_rows > 10

    def verdict(table):
        parquet.write_table(table, file)
        return compare(PRICES, inputs, [str(file)], samples=2)

    right = verdict(matches.take(list(reversed(range(matches.num_rows)))))
    assert right.same
    assert right.found == right.expected == matches.num_rows
    assert right.samples.num_rows == 2
    assert not verdict(matches.slice(1)).same
    assert not verdict(pa.concat_tables([matches, matches.slice(0, 1)])).same
    exchanged = verdict(pa.concat_tables([matches.slice(1), matches.slice(1, 1)]))
    assert exchanged.found == exchanged.expected
    assert not exchanged.same
    for position, name in enumerate(matches.column_names):
        rolled = pa.chunked_array(
            [matches[name].slice(1).combine_chunks(), matches[name][:1].combine_chunks()]
        )
        assert not verdict(matches.set_column(position, name, rolled)).same


def test_a_feeder_leaves_whole_files_only_and_tells_what_went_wrong(tmp_path):
    inbox = Inbox(PRICES, PACE, 1, tmp_path / "in")
    feeder = Feeder([inbox], seconds=0.01, batches=3)
    feeder.start()
    feeder.join(timeout=30)
    feeder.check()
    for folder, side in zip(inbox.folders, zip(*feed(PRICES, 1, 3), strict=True), strict=True):
        assert sorted(each.name for each in folder.iterdir()) == [
            f"0000{n}.parquet" for n in range(3)
        ]
        assert parquet.read_table(folder) == pa.concat_tables(side)
    assert inbox.put_at == sorted(inbox.put_at)

    failing = Feeder(
        [Inbox(replace(PRICES, generate=lambda pace, seed: iter([])), PACE, 1, tmp_path / "none")],
        0.0,
        1,
    )
    failing.start()
    failing.join(timeout=30)
    with pytest.raises(StopIteration):
        failing.check()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(StreamJoinError, match="not from a demo"):
        on_spark.run(Console(quiet=True), out=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_of_an_earlier_demo_is_used_again(tmp_path):
    first = on_spark.make_folders(tmp_path / "out")
    (first[0] / "left").mkdir(parents=True)
    (tmp_path / "out" / "notes.txt").touch()
    assert on_spark.make_folders(tmp_path / "out") == first
    assert not first[0].exists()
    assert (tmp_path / "out" / "notes.txt").exists()


def test_without_a_terminal_there_are_lines():
    class Done:
        title, done = "racks", 0.5

        def figures(self):
            return {"rows in": "12", "matches": "3"}

    console = Console(file=io.StringIO(), width=80)
    with show_board(console, Board([Done()], "a note")) as show:
        show()
    assert console.file.getvalue() == "racks, 50%: rows in 12, matches 3\n"


@pytest.mark.spark
@pytest.mark.slow
def test_both_joins_run_on_spark_without_noise_and_are_right(tmp_path):
    result = run_command(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    assert result.stdout.count("identical") == 2
    assert "WARN" not in result.stdout
    assert "WARN" in (tmp_path / "out" / "demo" / "spark.log").read_text()


def test_without_java_the_command_says_what_to_install(tmp_path):
    result = run_command(tmp_path, JAVA_HOME=str(tmp_path / "nowhere"))
    assert result.returncode == 2
    words = " ".join(result.stderr.split())
    assert "Java 17" in words
    assert "streamjoin demo --in-process" in words
    assert "Traceback" not in words


def run_command(folder, **environment):
    code = "from streamjoin.cli.app import app; app()"
    return subprocess.run(
        [sys.executable, "-c", code, "demo", "--seconds", "2"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
