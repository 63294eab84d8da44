"""Job files: what is read from them, how they are refused, and what running them gives."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from rich.console import Console
from typer.testing import CliRunner

from streamjoin import CountWindow, StreamJoinError, TimeWindow
from streamjoin.cli.app import app
from streamjoin.spark import run_job as job_module
from streamjoin.spark.run_job import JobResult, explain_job, load_job, run_job

JOBS_MD = Path(__file__).parents[2] / "docs" / "guide" / "jobs.md"

TABLES = """
[join]
on = "abs(l.x - r.x) <= 1"

[left]
format = "csv"
path = "left.csv"
options = { header = true, inferSchema = true }

[right]
format = "csv"
path = "right.csv"
options.header = true
options.inferSchema = true
select = ["x * 10 as x", "name"]
where = "x < 100"

[sink]
format = "parquet"
path = "out"
"""

STREAMS = """
[join]
on = "abs(l.price - r.price) <= 0.05 and l.qty < r.qty"
window = "10 minutes"
time = ["ts", "seen"]
cores = 2

[left]
format = "parquet"
path = "trades/"
stream = true
watermark = "5 seconds"
options.maxFilesPerTrigger = 1

[right]
format = "parquet"
path = "quotes/"
stream = true
schema = "price double, qty int, seen timestamp"
watermark = "5 seconds"
options.maxFilesPerTrigger = 1

[sink]
format = "parquet"
path = "matches/"
checkpoint = "checkpoint/"
trigger = "available now"
"""


@pytest.fixture
def write(tmp_path):
    """Write a job file, with some text replaced, and return its path."""

    def write(text, old="", new=""):
        assert old in text
        path = tmp_path / "job.toml"
        path.write_text(text.replace(old, new, 1) if old else text)
        return path

    return write


def refusal(path, *overrides):
    with pytest.raises(StreamJoinError) as caught:
        load_job(path, overrides)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


def test_a_whole_file(write, tmp_path):
    job = load_job(write(STREAMS))
    assert job.is_stream
    assert job.join.window == TimeWindow("10 minutes")
    assert job.join.time == ("ts", "seen")
    given = job.join.given
    assert given["cores"] == 2
    assert (given["algorithm"], given["routing"], given["ordered"]) == ("auto", "auto", "none")
    assert (given["emit"], given["optimize"]) == (None, "throughput")
    assert job.left.options == {"maxFilesPerTrigger": 1}
    assert job.right.schema == "price double, qty int, seen timestamp"
    assert job.sink.checkpoint == str(tmp_path / "checkpoint")


def test_tables_need_little(write):
    job = load_job(write(TABLES))
    assert not job.is_stream
    assert job.join.window is None
    assert job.right.select == ("x * 10 as x", "name")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("left/", "{folder}/left"),
        ("../left", "{folder}/../left"),
        ("/data/left", "/data/left"),
        ("s3a://bucket/left", "s3a://bucket/left"),
        ("file:/data/left", "file:/data/left"),
    ],
)
def test_paths_begin_at_the_folder_of_the_file(write, tmp_path, path, expected):
    job = load_job(write(TABLES, "left.csv", path))
    assert job.left.path == expected.format(folder=tmp_path)


def test_dotted_names_are_one_option_with_or_without_quotes(write):
    kafka = '[sink.options]\nkafka.bootstrap.servers = "a:1"\n"kafka.acks" = "all"\n'
    settings = (
        '[spark]\nmaster = "local[2]"\n"spark.driver.memory" = "2g"\nspark.ui.enabled = false\n'
    )
    job = load_job(write(TABLES + kafka + settings))
    assert job.sink.options == {"kafka.bootstrap.servers": "a:1", "kafka.acks": "all"}
    assert job.spark == {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": False,
    }


def test_overrides(write, tmp_path):
    job = load_job(
        write(STREAMS),
        [
            "right.path=other/",
            "join.cores=4",
            "join.time=ts",
            "join.on=l.id = r.id",
            'left.select=["id", "ts"]',
            "sink.trigger=10 seconds",
            "left.options.maxFilesPerTrigger=7",
            "sink.options.kafka.acks=all",
            "spark.master=local[1]",
        ],
    )
    assert job.right.path == str(tmp_path / "other")
    assert job.join.given["cores"] == 4
    assert job.join.time == ("ts", "ts")
    assert job.join.on == "l.id = r.id"
    assert job.left.select == ("id", "ts")
    assert job.sink.trigger == "10 seconds"
    assert job.left.options == {"maxFilesPerTrigger": "7"}
    assert job.sink.options == {"kafka.acks": "all"}
    assert job.spark == {"spark.master": "local[1]"}


def test_knobs_of_an_algorithm(write):
    text = STREAMS.replace("abs(l.price - r.price) <= 0.05 and l.qty < r.qty", "l.qty = r.qty")
    closing = ["join.window=tumbling 1 minute", "join.algorithm=prj"]
    job = load_job(write(text), [*closing, "join.tuning={ bits = 10 }"])
    assert job.join.given["tuning"] == (("bits", 10),)
    for knobs, expected in [
        ("10", "join.tuning = 10: it must be a table of whole numbers, e.g. { bits = 10 }"),
        ("{ bits = 19 }", "'bits' is a whole number from 1 to 18"),
        ("{ group = 2 }", "algorithm='prj' has no knob 'group'; it has 'bits'"),
    ]:
        assert expected in refusal(write(text), *closing, f"join.tuning={knobs}")


def test_kinds_of_joins(write):
    join = """on = "l.k = r.k and r.ts <= l.ts"
how = "left"
keep = "nearest"
k = 3
nearest = "l.ts - r.ts"
indicator = true
"""
    job = load_job(write(TABLES, 'on = "abs(l.x - r.x) <= 1"\n', join))
    given = job.join.given
    assert given["how"].name == "left"
    assert [given[name] for name in ("keep", "k", "nearest")] == ["nearest", 3, "l.ts - r.ts"]
    assert given["indicator"] is True
    job = load_job(write(TABLES), ["join.how=left", "join.aggregate={ n = 'count(*)' }"])
    assert job.join.given["aggregate"] == (("n", "count(*)"),)
    stream = ["join.how=full", "join.unmatched=early", "join.patience=5 seconds", "join.late=keep"]
    given = load_job(write(STREAMS), stream).join.given
    assert (given["patience"], given["late"], given["unmatched"]) == (5_000_000, "keep", "early")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["how=lefft"], "how='lefft' is no kind of join"),
        (["kepe=first"], "Did you mean 'keep'?"),
        (["keep=first"], "keep='first' goes by the time of the right row"),
        (["k=3"], "k=3 is about the matches that are kept"),
        (["keep=nearest", "k=0"], "join.k = 0: it must be a whole number from 1"),
        (["indicator=yes"], 'join.indicator = "yes": it must be true or false'),
        (["how=semi", "indicator=true"], "how='left_semi' gives no pairs"),
        (["aggregate=count(*)"], "it must be a table of columns and aggregates, e.g. { n ="),
        (["aggregate={}"], "it must be a table of columns and aggregates, e.g. { n ="),
        (["aggregate={ n = 'median(r.x)' }"], "median is not computed here"),
        (["late=keep"], "late='keep' is for windows that look at event times"),
        (["patience=5"], "duration '5' cannot be read"),
        (["how=left", "unmatched=early", "patience=5 s"], "unmatched='early' goes by event times"),
    ],
)
def test_kinds_are_refused_with_a_reason(write, overrides, expected):
    assert expected in refusal(write(TABLES), *(f"join.{each}" for each in overrides))


def test_one_file_serves_streams_and_tables(write):
    job = load_job(write(STREAMS), ["left.stream=false", "right.stream=false"])
    assert not job.is_stream


def test_a_count_window_needs_no_watermark(write):
    count = ["join.window=count 100, 200", "join.order=seq"]
    text = STREAMS.replace('watermark = "5 seconds"\n', "").replace('time = ["ts", "seen"]\n', "")
    job = load_job(write(text), count)
    assert job.join.window == CountWindow(left=100, right=200)
    assert job.join.given["order"] == ("seq", "seq")


@pytest.mark.parametrize(("text", "expected"), [("inner", "inner"), ('"outer"', "outer"), ("4", 4)])
def test_ordered_is_a_name_or_a_number(write, text, expected):
    job = load_job(write(STREAMS), [f"join.ordered={text}"])
    assert job.join.given["ordered"] == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[left]", "[lfet]", "no table 'lfet'. Did you mean 'left'?"),
        ("[left]", "[[left]]", "left = "),
        ("[sink]", "[extra]", "no table 'extra'. Known are join, left"),
        ("schema =", "scheme =", "no [right] key 'scheme'. Did you mean 'schema'?"),
        ("cores =", "threads =", "no [join] key 'threads'. Known are on, window"),
        ("on = ", "# on = ", "join.on is missing"),
        ("cores = 2", "cores = 0", "join.cores = 0: it must be a whole number from 1"),
        ("cores = 2", "cores = true", "join.cores = true"),
        ("cores = 2", "ordered = true", 'join.ordered = true: it must be "none", "outer", "inner"'),
        ("cores = 2", "ordered = 0", "ordered=0 is not an order of results"),
        ("cores = 2", 'ordered = "time"', "ordered='time' is not an order of results; choose"),
        ("stream = true", 'stream = "yes"', 'left.stream = "yes": it must be true or false'),
        ('"trades/"', '["a", "b"]', 'left.path = ["a", "b"]: it must be a path'),
        ('["ts", "seen"]', '["ts"]', "join.time: "),
        ('"10 minutes"', '"soon"', "join.window: duration 'soon' cannot be read"),
        ('"10 minutes"', "10", "join.window = 10: it must be a window in quotes"),
        ('"5 seconds"', '"late"', "left.watermark: duration 'late'"),
        ("maxFilesPerTrigger = 1", "maxFilesPerTrigger = [1]", "left.options = "),
        ("options.maxFilesPerTrigger = 1", "options = 1", "left.options = 1: it must be a table"),
        ("l.qty < r.qty", "l.qty < ", "l.qty <"),
        ("stream = true", "stream = false", "a stream joins a stream"),
        ('time = ["ts", "seen"]', "", "time"),
        ('window = "10 minutes"\ntime = ["ts", "seen"]', "", "join.time is missing"),
        ('watermark = "5 seconds"', "", "left.watermark is missing"),
        ('format = "parquet"', 'format = "table"', 'table = "sales.trades"'),
        ('format = "parquet"', "", "left.format is missing"),
        ('path = "trades/"', 'table = "trades"', "Leave out format"),
        ('"available now"', '"now"', 'sink.trigger = "now": it must be "available now"'),
        ('checkpoint = "checkpoint/"', "", "sink.checkpoint is missing"),
        ('checkpoint = "checkpoint/"', 'mode = "overwrite"', 'Write "append"'),
    ],
)
def test_a_file_is_refused_with_a_reason(write, old, new, expected):
    assert expected in refusal(write(STREAMS, old, new))


@pytest.mark.parametrize(
    ("select", "is_refused"),
    [
        (None, False),
        ('["*"]', False),
        ('["price", "_OP"]', False),
        ('["to_json(struct(*)) as value"]', False),
        ('["price", "price * qty as total"]', True),
        ('["* except (_op)"]', True),
    ],
)
def test_a_sink_gets_to_know_what_is_taken_back(write, select, is_refused):
    early = ["join.how=left", "join.unmatched=early", "join.patience=1 minute"]
    path, more = write(STREAMS), [] if select is None else [f"sink.select={select}"]
    if is_refused:
        told = refusal(path, *early, *more)
        assert "leaves _op out" in told
        assert 'Add "_op" to sink.select' in told
        load_job(path, ["join.how=left", *more])
    else:
        assert load_job(path, [*early, *more]).join.given["unmatched"] == "early"


def test_tables_are_refused_with_a_reason(write):
    missing = TABLES[: TABLES.index("[sink]")]
    assert "there is no table [sink]" in refusal(write(missing))
    assert "error, errorifexists, append" in refusal(write(TABLES), "sink.mode=replace")
    told = refusal(write(TABLES), "join.ordered=inner")
    assert 'join.ordered = "inner" follows the arrival of rows' in told
    assert "Leave it out, and sort the result." in told


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("right.path", "'right.path' cannot be read. Write table.key=value"),
        ("path=x", "'path=x' cannot be read"),
        ("rihgt.path=x", "Did you mean 'right'?"),
        ("right.paht=x", "Did you mean 'path'?"),
        ("left.stream=maybe", 'left.stream = "maybe": it must be true or false'),
    ],
)
def test_an_override_is_refused_with_a_reason(write, override, expected):
    assert expected in refusal(write(TABLES), override)


def test_what_is_not_toml_is_refused_with_its_line(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("[join]\non = l.x = r.x\n")
    with pytest.raises(StreamJoinError, match=r"is not TOML: .*line 2"):
        load_job(path)


def test_the_examples_of_the_reference(write):
    examples = re.findall(r"```toml\n(.*?)```", JOBS_MD.read_text(), re.DOTALL)
    assert [load_job(write(example)).is_stream for example in examples] == [True, False]


def test_streams_without_a_place_to_keep(write):
    job = load_job(write(STREAMS, 'checkpoint = "checkpoint/"', ""), ["sink.format=console"])
    assert job.sink.checkpoint is None


def test_seconds_are_for_streams(write):
    with pytest.raises(StreamJoinError, match=r"seconds=3 stops streams, and .*job.toml"):
        run_job(load_job(write(TABLES)), seconds=3)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_refuses_a_file_that_is_not_there(tmp_path):
    result = run("run", tmp_path / "gone.toml")
    assert result.exit_code == 2
    assert "no file" in " ".join(result.stderr.split())


def test_without_pyspark_the_command_says_what_to_install(write):
    code = "import sys; sys.modules['pyspark'] = None; from streamjoin.cli.app import app; app()"
    command = [sys.executable, "-c", code, "run", str(write(TABLES))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert 'pip install "streamjoin[spark]"' in " ".join(result.stderr.split())


class FakeQuery:
    """A query that ends, or is interrupted, after it has made its reports."""

    def __init__(self, reports, interrupted=False):
        self.reports, self.interrupted = reports, interrupted
        self.seen, self.stopped = 0, False
        self.status = {"isTriggerActive": interrupted}

    @property
    def isActive(self):  # noqa: N802
        self.seen += 1
        if self.interrupted and self.seen == len(self.reports) - 1:
            raise KeyboardInterrupt
        return self.seen <= len(self.reports)

    @property
    def recentProgress(self):  # noqa: N802
        return self.reports[: self.seen]

    @property
    def lastProgress(self):  # noqa: N802
        return (self.recentProgress or [None])[-1]

    def stop(self):
        self.stopped = True

    def exception(self):
        return None


def report(batch, ran=True, **metrics):
    row = {"total": metrics}
    return {
        "batchId": batch,
        "durationMs": {"addBatch": 1} if ran else {},
        "numInputRows": 50,
        "processedRowsPerSecond": 1000.0,
        "stateOperators": [{"numRowsTotal": 7}],
        "observedMetrics": {"streamjoin": row} if metrics else {},
    }


@pytest.mark.parametrize("interrupted", [False, True])
def test_every_batch_is_counted_once(monkeypatch, interrupted):
    monkeypatch.setattr(job_module, "POLL_SECONDS", 0)
    reports = [
        report(0, ran=False),
        report(0, rows_left=10, rows_right=20, matches=5, late=1),
        report(1, ran=False),
        report(3, rows_left=1, rows_right=0, matches=2, late=0),
        report(3, rows_left=1, rows_right=0, matches=2, late=0),
        report(4),
    ]
    query = FakeQuery(reports, interrupted)
    result = job_module._follow(query, Console(quiet=True), None)
    assert query.stopped
    assert (result.batches, result.rows, result.matches, result.late) == (3, 81, 7, 1)


def test_batches_between_two_looks_are_counted_too():
    query = FakeQuery([report(number, matches=1) for number in range(5)])
    query.seen = 5
    result = JobResult(rows=0)
    assert job_module._count(query, {}, result)["batchId"] == 4
    assert (result.batches, result.rows, result.matches) == (5, 250, 5)


def test_progress_is_a_line_without_a_terminal(monkeypatch):
    monkeypatch.setattr(job_module, "POLL_SECONDS", 0)
    monkeypatch.setattr(job_module, "SHOW_SECONDS", 0)
    console = Console(record=True, width=200, force_terminal=False, quiet=False)
    with console.capture() as shown:
        job_module._follow(FakeQuery([report(0, matches=3, live_rows=9)]), console, None)
    assert "batch 0, 1,000 rows/s, 9 rows kept; so far 1 batches, 50 rows, 3 matches" in shown.get()


@pytest.fixture
def market(tmp_path):
    """Two files of trades and two of quotes, each file with the same three rows."""
    for folder, time, prices, sizes in (
        ("trades", "ts", [1.00, 2.00, 3.00], [1, 9, 1]),
        ("quotes", "seen", [1.03, 2.01, 3.50], [2, 2, 2]),
    ):
        (tmp_path / folder).mkdir()
        times = pa.array([0, 1, 2], pa.timestamp("us", "UTC"))
        table = pa.table({"price": prices, "qty": pa.array(sizes, pa.int32()), time: times})
        for number in range(2):
            parquet.write_table(table, tmp_path / folder / f"{number}.parquet")


@pytest.mark.spark
def test_tables(write, tmp_path, spark):
    csv.write_csv(pa.table({"x": [9, 20, 40], "id": [1, 2, 3]}), tmp_path / "left.csv")
    csv.write_csv(pa.table({"x": [1, 2, 10], "name": ["a", "b", "c"]}), tmp_path / "right.csv")
    result = run_job(load_job(write(TABLES)), spark)
    assert result.matches == 2
    matches = parquet.read_table(tmp_path / "out").sort_by("x").to_pylist()
    assert matches == [
        {"x": 9, "id": 1, "x_right": 10, "name": "a"},
        {"x": 20, "id": 2, "x_right": 20, "name": "b"},
    ]
    with pytest.raises(StreamJoinError, match=r"refuses \[sink\]: \[PATH_ALREADY_EXISTS\]"):
        run_job(load_job(write(TABLES)), spark)


@pytest.mark.spark
def test_streams(write, tmp_path, spark, market):
    result = run_job(load_job(write(STREAMS)), spark)
    assert result.rows == 12
    assert result.batches >= 2
    assert result.matches == 4  # the first trade meets the first quote, each twice
    matches = parquet.read_table(tmp_path / "matches")
    assert matches["price_right"].to_pylist() == [1.03] * 4
    assert run_job(load_job(write(STREAMS)), spark).matches in (None, 0)  # goes on where it was


@pytest.mark.spark
@pytest.mark.slow
def test_a_sink_gets_a_log_of_changes(write, tmp_path, spark, market):
    early = ["join.how=left", "join.unmatched=early", "join.patience=0 seconds"]
    job = load_job(write(STREAMS), [*early, 'sink.select=["_op", "price", "price_right"]'])
    run_job(job, spark)
    rows = parquet.read_table(tmp_path / "matches").to_pylist()
    found = sorted((row["_op"], row["price"], row["price_right"] or 0) for row in rows)
    # Nothing is newer than the trades at 3.00, and nothing is final.
    assert found == [("+", 1.0, 1.03)] * 4 + [("+", 2.0, 0)] * 2


@pytest.mark.spark
def test_what_spark_refuses_is_said_with_the_part_of_the_file(write, tmp_path, spark):
    with pytest.raises(StreamJoinError, match=r"refuses \[left\]: \[PATH_NOT_FOUND\]"):
        run_job(load_job(write(TABLES)), spark)
    csv.write_csv(pa.table({"x": [1]}), tmp_path / "left.csv")
    with pytest.raises(StreamJoinError, match=r"refuses \[left\]: \[UNRESOLVED_COLUMN"):
        run_job(load_job(write(TABLES), ["left.where=nope > 1"]), spark)


@pytest.mark.spark
def test_the_command_explains_without_running(write, tmp_path, spark, market):
    result = run("run", write(STREAMS), "--dry-run", "--set", "join.cores=1")
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "trades") in result.stdout
    assert "-0.05 <= l.price - r.price <= 0.05" in result.stdout
    assert re.search(r"^cores +1$", result.stdout, re.MULTILINE)
    assert not (tmp_path / "matches").exists()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (['sink.select=["qty", "nope"]'], "nope"),
        (["sink.select=_matched", "join.ordered=outer"], "_matched"),
        (["sink.select=price +"], "PARSE_SYNTAX_ERROR"),
    ],
)
def test_a_dry_run_looks_at_what_the_sink_selects(write, spark, market, options, told):
    job = load_job(write(STREAMS), options)
    with pytest.raises(StreamJoinError, match=r"refuses \[sink\]: \[") as caught:
        explain_job(job, spark)
    assert told in str(caught.value)


@pytest.mark.spark
def test_a_dry_run_knows_the_columns_of_the_matches(write, spark, market):
    selected = '["price", "price_right - price as more", "_arrival"]'
    job = load_job(write(STREAMS), [f"sink.select={selected}", "join.ordered=outer"])
    assert "routing" in explain_job(job, spark)
