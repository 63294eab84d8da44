"""The command line: what it prints, what it writes, and how it refuses."""

import json
import sys

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from typer.testing import CliRunner

import streamjoin.benchmarks.registry as registry
from streamjoin import calibration, cost_measurement
from streamjoin.benchmarks.figures import Figure
from streamjoin.benchmarks.harness import Series
from streamjoin.cli import app
from streamjoin.window_costs import WindowCosts

CONDITION = "l.symbol = r.symbol and abs(l.price - r.price) <= 0.05"
COMMANDS = ["demo", "explain", "join", "run", "bench"]

WRITERS = {
    "parquet": parquet.write_table,
    "csv": csv.write_csv,
    "arrow": feather.write_feather,
    "feather": feather.write_feather,
}
READERS = {
    "parquet": parquet.read_table,
    "csv": csv.read_csv,
    "arrow": feather.read_table,
    "feather": feather.read_table,
}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def words(text):
    return " ".join(text.split())


def refused(result):
    """The message of a friendly refusal: exit code 2, nothing on stdout, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return words(result.stderr)


@pytest.fixture
def trades():
    return pa.table(
        {
            "symbol": ["A", "A", "B", "B"],
            "price": [1.00, 2.00, 1.00, 3.00],
            "ts": pa.array([0, 60, 120, 180], pa.int64()).cast(pa.timestamp("s")),
        }
    )


@pytest.fixture
def quotes():
    return pa.table(
        {
            "symbol": ["A", "B", "B", None],
            "price": [1.03, 1.04, 3.00, 1.00],
            "ts": pa.array([1, 7000, 181, 2], pa.int64()).cast(pa.timestamp("s")),
        }
    )


@pytest.fixture
def files(tmp_path, trades, quotes):
    parquet.write_table(trades, tmp_path / "trades.parquet")
    parquet.write_table(quotes, tmp_path / "quotes.parquet")
    return tmp_path / "trades.parquet", tmp_path / "quotes.parquet"


def test_help_teaches_by_example():
    assert all(command in run("--help").stdout for command in COMMANDS)
    for command in COMMANDS:
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"streamjoin {command}" in words(result.stdout)
        assert "Example" in result.stdout


def test_version():
    assert run("--version").stdout.startswith("streamjoin ")


def test_no_command_shows_the_help():
    assert "Usage" in run().output


def test_explain_tells_the_parts_and_the_algorithm():
    result = run("explain", CONDITION, "--window", "10 minutes", "--time", "ts")
    assert result.exit_code == 0, result.output
    assert "l.symbol" in result.stdout
    assert "10 minutes" in result.stdout


def test_explain_tells_of_windows_that_close():
    window = ("--window", "tumbling 1 minute", "--time", "ts")
    result = run("explain", "l.x = r.x", *window, "--emit", "auto", "--optimize", "latency")
    assert "for latency, by the last window" in result.stdout
    assert "sooner" in refused(run("explain", "l.x = r.x", *window, "--emit", "sooner"))


def test_explain_refuses_what_it_cannot_read():
    assert "l.x ===" in refused(run("explain", "l.x === r.x"))


@pytest.mark.parametrize("ending", WRITERS)
def test_join_reads_and_writes_every_format(tmp_path, trades, quotes, ending):
    left, right, out = (tmp_path / f"{name}.{ending}" for name in ("left", "right", "out"))
    WRITERS[ending](trades, left)
    WRITERS[ending](quotes, right)
    result = run("join", left, right, "--on", CONDITION, "--out", out)
    assert result.exit_code == 0, result.output
    assert "4 x 4 rows, 3 matches" in result.stdout
    assert str(out) in words(result.stdout).replace(" ", "")
    matches = READERS[ending](out)
    assert matches.column_names == [
        *("symbol", "price", "ts"),
        *("symbol_right", "price_right", "ts_right"),
    ]
    assert sorted(matches["price_right"].to_pylist()) == [1.03, 1.04, 3.00]


def test_join_with_a_time_window(files):
    result = run("join", *files, "--on", CONDITION, "--window", "10 minutes", "--time", "ts")
    assert result.exit_code == 0, result.output
    assert "2 matches" in result.stdout


def test_join_with_two_time_columns(tmp_path, files, quotes):
    renamed = tmp_path / "renamed.parquet"
    parquet.write_table(quotes.rename_columns(["symbol", "price", "seen"]), renamed)
    arguments = ("--on", CONDITION, "--window", "10 minutes", "--time", "ts, seen")
    result = run("join", files[0], renamed, *arguments)
    assert result.exit_code == 0, result.output
    assert "2 matches" in result.stdout


def test_join_and_explain_take_the_knobs_of_an_algorithm(files):
    knob = ("--algorithm", "prj", "--tuning", "bits=3")
    result = run("join", *files, "--on", "l.symbol = r.symbol", "--count", *knob)
    assert result.exit_code == 0, result.output
    assert "bits = 3" in run("explain", "l.x = r.x", *knob).stdout
    for wrong in ("bits", "bits=", "bits=x", "bits=-1"):
        told = refused(run("explain", "l.x = r.x", *knob[:3], wrong))
        assert f"'{wrong}'" in told
        assert "such as bits=10" in told
    assert "no knob" in refused(run("explain", "l.x = r.x", *knob[:3], "bats=3"))


def test_join_without_out_shows_the_first_rows(tmp_path):
    table = pa.table({"x": list(range(50))})
    path = tmp_path / "x.parquet"
    parquet.write_table(table, path)
    result = run("join", path, path, "--on", "l.x = r.x")
    assert result.exit_code == 0, result.output
    assert "x_right" in result.stdout
    assert "the first 10 of 50 rows" in words(result.stdout)


def test_join_escapes_what_looks_like_markup(tmp_path):
    path = tmp_path / "markup.csv"
    csv.write_csv(pa.table({"[red]name": ["[bold]x"], "k": [1]}), path)
    result = run("join", path, path, "--on", "l.k = r.k")
    assert result.exit_code == 0, result.output
    assert "[red]name" in result.stdout
    assert "[bold]x" in result.stdout


def test_a_missing_file_is_named(files, tmp_path):
    message = refused(run("join", files[0], tmp_path / "gone.parquet", "--on", "l.price = r.price"))
    assert "gone.parquet" in message.replace(" ", "")
    assert "no file" in message


def test_an_unknown_ending_lists_the_known_ones(files, tmp_path):
    arguments = ("join", *files, "--on", CONDITION, "--out", tmp_path / "out.xlsx")
    message = refused(run(*arguments))
    assert ".xlsx" in message
    assert ".parquet" in message
    assert not (tmp_path / "out.xlsx").exists()


def test_a_missing_folder_is_named_before_the_work(files, tmp_path):
    out = tmp_path / "nowhere" / "out.parquet"
    assert "folder" in refused(run("join", *files, "--on", CONDITION, "--out", out))


def test_a_file_that_is_not_what_its_ending_says(files, tmp_path):
    fake = tmp_path / "fake.parquet"
    fake.write_text("not parquet at all")
    assert "cannot be read as parquet" in refused(run("join", files[0], fake, "--on", "l.x = r.x"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--on", "l.nope = r.price"), "nope"),
        (("--on", CONDITION, "--window", "soon"), "'soon' cannot be read"),
        (("--on", CONDITION, "--window", "count 0"), "size of 0"),
        (("--on", CONDITION, "--window", "10 minutes"), "time"),
        (("--on", CONDITION, "--algorithm", "magic"), "magic"),
    ],
)
def test_join_refuses_with_a_reason(files, arguments, expected):
    assert expected in refused(run("join", *files, *arguments))


def test_bench_prints_a_table_and_writes_json(tmp_path, monkeypatch):
    def suite(report, quick):
        assert quick
        report.speedup("much faster", Series("a", (1.0,)), Series("b", (9.0,)), target=3)

    monkeypatch.setitem(registry.SUITES, "example", suite)
    path = tmp_path / "report.json"
    result = run("bench", "example", "--quick", "--json", path)
    assert result.exit_code == 0, result.output
    assert "much" in result.stdout
    assert json.loads(path.read_text())["claims"][0]["value"] == 9.0


def test_bench_keeps_what_was_measured_before_an_error(tmp_path, monkeypatch):
    def suite(report, quick):
        report.speedup("much faster", Series("a", (1.0,)), Series("b", (9.0,)), target=3)
        raise RuntimeError("the run does not count")

    monkeypatch.setitem(registry.SUITES, "example", suite)
    path = tmp_path / "report.json"
    result = run("bench", "example", "--json", path)
    assert isinstance(result.exception, RuntimeError)
    assert "much" in result.stdout
    assert json.loads(path.read_text())["claims"][0]["value"] == 9.0


def test_bench_draws_figures(tmp_path, monkeypatch):
    def suite(report, quick):
        figure = Figure("fig1", "a title", "x", "y")
        for place in (1, 2, 4):
            figure.add("a line", place, 10 / place)
        report.figures.append(figure)

    monkeypatch.setitem(registry.SUITES, "example", suite)
    result = run("bench", "example", "--plots", tmp_path, "--json", tmp_path / "r.json")
    assert "2 pictures" in result.stdout
    assert (tmp_path / "fig1.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "fig1.svg").read_text()
    lines = json.loads((tmp_path / "r.json").read_text())["figures"]["fig1"]["lines"]
    assert lines == {"a line": [[1, 10], [2, 5], [4, 2.5]]}


def test_calibrate_writes_what_explain_tells(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMJOIN_CALIBRATION", str(tmp_path / "calibration.json"))
    monkeypatch.setattr(calibration, "BATCHES", (64, 1024))
    monkeypatch.setattr(cost_measurement, "TURNS", 3)
    monkeypatch.setattr(cost_measurement, "ROUNDS", 4)
    monkeypatch.setattr(calibration, "MATCHES", (1, 16))
    monkeypatch.setattr(calibration, "measure_windows", lambda seed: WindowCosts(threads=7))
    result = run("calibrate", "--rows", 1 << 14)
    assert result.exit_code == 0, result.output
    assert "auto takes" in result.stdout
    assert "nanoseconds, with 7 threads" in result.stdout
    assert "measured on this machine" in run("explain", "l.x < r.x").stdout


def test_bench_names_the_suites():
    assert "engine" in refused(run("bench", "nope"))


def test_bench_says_which_package_is_missing(monkeypatch):
    def suite(report, quick):
        raise ModuleNotFoundError("No module named 'polars'", name="polars")

    monkeypatch.setitem(registry.SUITES, "example", suite)
    assert "needs polars" in refused(run("bench", "example"))


def test_demo_is_checked():
    result = run("demo", "--in-process", "--seconds", "0.5")
    assert result.exit_code == 0, result.output
    assert "checked against DuckDB" in result.stdout
    assert "identical" in result.stdout


def test_demo_says_what_is_missing_and_offers_the_one_without_spark(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    message = refused(run("demo", "--out", tmp_path / "out"))
    assert "needs duckdb" in message
    assert "streamjoin[spark,bench]" in message
    assert "streamjoin demo --in-process" in message
    assert not (tmp_path / "out").exists()


def test_join_counts_without_showing_rows(tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": list(range(100)), "b": list(range(100, 0, -1))}), path)
    result = run("join", path, path, "--on", "l.a < r.a and l.b > r.b", "--count")
    assert result.exit_code == 0, result.output
    assert "100 x 100 rows, 4,950 matches" in result.stdout
    assert "a_right" not in result.stdout


def test_join_does_not_count_and_write(tmp_path, files):
    out = tmp_path / "out.parquet"
    message = refused(run("join", *files, "--on", CONDITION, "--out", out, "--count"))
    assert "either counted or written" in message
    assert not out.exists()


@pytest.mark.parametrize(
    ("table", "condition"),
    [
        (pa.table({"k": [1], "v": [[1, 2]]}), "l.k = r.k"),  # lists are nothing for CSV
        (pa.table({"k": [1], "v": ["x"]}), "l.k = r.k and cast(l.v as int) < r.k + l.k"),
    ],
    ids=["type", "value"],
)
def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, table, condition):
    path, out = tmp_path / "in.parquet", tmp_path / "out.csv"
    parquet.write_table(table, path)
    out.write_text("what was there before")
    refused(run("join", path, path, "--on", condition, "--out", out))
    assert out.read_text() == "what was there before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.parquet", "out.csv"]
