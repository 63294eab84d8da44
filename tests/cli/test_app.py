"""The command line: what it prints, what it writes, and how it refuses."""

import gzip
import re
import sys

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from typer.testing import CliRunner

import streamjoin
from streamjoin.calibration import structure_costs as cost_measurement
from streamjoin.calibration import structures as calibration
from streamjoin.choice.window_costs import WindowCosts
from streamjoin.cli.app import app

CONDITION = "l.symbol = r.symbol and abs(l.price - r.price) <= 0.05"
COMMANDS = ["demo", "explain", "join", "run"]

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
    assert run("--version").stdout == f"streamjoin {streamjoin.__version__}\n"


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


def test_demo_is_checked():
    result = run("demo", "--in-process", "--seconds", "0.5")
    assert result.exit_code == 0, result.output
    assert "checked against DuckDB" in result.stdout
    assert "identical" in result.stdout


def test_demo_says_what_is_missing_and_offers_the_one_without_spark(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    message = refused(run("demo", "--out", tmp_path / "out"))
    assert "needs duckdb" in message
    assert "streamjoin[spark,demo]" in message
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
    assert "leave out --count or --out" in message
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


# Files of other kinds.

ROWS = {"k": [1, 2], "s": ["é", "b"]}


def texts(delimiter):
    return "".join(
        f"{k}{delimiter}{s}\n" for k, s in [("k", "s"), *zip(*ROWS.values(), strict=True)]
    )


OTHERS = {
    "in.tsv": (texts("\t").encode(), ()),
    "in.csv.gz": (gzip.compress(texts(",").encode()), ()),
    "in.TSV.GZ": (gzip.compress(texts("\t").encode()), ()),
    "in.jsonl": (b'{"k": 1, "s": "\\u00e9"}\n{"k": 2, "s": "b"}\n', ()),
    "in.json.gz": (gzip.compress(b'{"k": 1, "s": "\\u00e9"}\n{"k": 2, "s": "b"}\n'), ()),
    "semicolons.csv": (texts(";").encode(), ("--delimiter", ";")),
    "tabs.csv": (texts("\t").encode(), ("--delimiter", "\\t")),
    "latin.csv": (texts(",").encode("latin-1"), ("--encoding", "latin-1")),
    "both.csv": (texts("|").encode("utf-16"), ("--encoding", "utf-16", "--delimiter", "|")),
}


@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.tsv", "out.csv.gz", "out.tsv.gz"])
@pytest.mark.parametrize(("name", "made"), OTHERS.items(), ids=OTHERS)
def test_join_reads_texts_of_many_kinds(tmp_path, name, made, out):
    content, options = made
    path, out = tmp_path / name, tmp_path / out
    path.write_bytes(content)
    result = run("join", path, path, "--on", "l.s = r.s", "--out", out, *options)
    assert result.exit_code == 0, result.output
    if out.suffix == ".parquet":
        found = parquet.read_table(out)
    else:
        delimiter = "\t" if ".tsv" in out.name else ","
        assert (out.read_bytes()[:2] == b"\x1f\x8b") == (out.suffix == ".gz")
        found = csv.read_csv(out, parse_options=csv.ParseOptions(delimiter=delimiter))
    assert sorted(found["s"].to_pylist()) == ["b", "é"]
    assert found.column_names == ["k", "s", "k_right", "s_right"]


@pytest.mark.parametrize(
    ("name", "content", "options", "texts"),
    [
        ("latin.csv", b"k,s\n1,\xe9\n", (), ["'s'", "not UTF-8", "--encoding latin-1"]),
        ("latin.csv", b"k,\xe9\n1,a\n", (), ["utf-8", "--encoding"]),
        ("latin.csv", b"k,s\n1,\xe9\n", ("--encoding", "ascii"), ["ascii", "--encoding"]),
        ("a.csv", b"k\n1\n", ("--encoding", "klingon"), ["'klingon'", "latin-1"]),
        ("a.csv", b"k\n1\n", ("--delimiter", ";;"), ["';;'", "one character"]),
        ("a.csv", b"", (), ["Empty CSV file", "Check the file"]),
        ("a.json", b'[{"k": 1}]', (), ["one object per line"]),
        ("a.parquet.gz", b"", (), ["'.gz'", ".parquet"]),
        ("a.txt", b"", (), ["'.txt'", ".csv.gz"]),
    ],
)
def test_texts_that_cannot_be_read(tmp_path, name, content, options, texts):
    path = tmp_path / name
    path.write_bytes(content)
    message = refused(run("join", path, path, "--on", "l.k = r.k", *options))
    for text in texts:
        assert text in message


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_standard_input_is_named(files, path):
    message = refused(run("join", path, files[0], "--on", "l.price = r.price"))
    assert "standard input" in message
    assert "Save it to a file" in message


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    path = tmp_path / "folder.csv"
    message = refused(run("join", path, path, "--on", "l.k = r.k"))
    assert f"{path} cannot be read" in message
    assert "directory" in message


# What is written, and where.


@pytest.mark.parametrize("way", ["itself", "other spelling", "symlink", "hard link", "right"])
def test_out_onto_an_input_is_refused(tmp_path, files, way):
    """Once: the input was gone."""
    before = [path.read_bytes() for path in files]
    out = {
        "itself": files[0],
        "right": files[1],
        "other spelling": tmp_path / "." / ".." / tmp_path.name / "trades.parquet",
    }.get(way, tmp_path / "link.parquet")
    if way == "symlink":
        out.symlink_to(files[0])
    elif way == "hard link":
        out.hardlink_to(files[0])
    message = refused(run("join", *files, "--on", CONDITION, "--out", out))
    assert "is the input" in message
    assert "another file" in message
    assert [path.read_bytes() for path in files] == before


def test_out_replaces_another_file(tmp_path, files):
    out = tmp_path / "out.parquet"
    out.write_text("what was there before")
    assert run("join", *files, "--on", CONDITION, "--out", out).exit_code == 0
    assert parquet.read_table(out).num_rows == 3


def test_json_is_not_written(tmp_path, files):
    message = refused(run("join", *files, "--on", CONDITION, "--out", tmp_path / "out.json"))
    assert "Try .csv or .parquet" in message


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "csv.gz"])
def test_a_place_where_nothing_can_be_written_is_named(files, ending):
    """Once: There is no file None."""
    out = f"/proc/x.{ending}"
    message = refused(run("join", *files, "--on", CONDITION, "--out", out))
    assert f"{out} cannot be written" in message
    assert "None" not in message


def test_messages_are_in_one_line_unless_for_a_terminal(files):
    result = run("join", *files, "--on", CONDITION, "--algorithm", "magic")
    assert len(result.stderr) > 120
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("--window", "1 s"), ["--time left_column,right_column"]),
        (("--window", "count 5", "--time", "ts"), ["--time ts has no use"]),
        (("--time", "ts"), ["without --window"]),
        (("--algorithm", "shj_jm"), ["--algorithm shj_jm joins rows as they arrive"]),
        (("--algorithm", "prj", "--tuning", "bats=3"), ["--tuning bats=3", "--algorithm prj has"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_messages_speak_of_options(files, arguments, texts):
    message = refused(run("join", *files, "--on", CONDITION, *arguments))
    for text in texts:
        assert text in message
    assert "='" not in message
    assert "=(" not in message


KINDS = {
    "how": (("--how", "left"), 4, "4 rows in the result"),
    "spelling": (("--how", "LEFT_ANTI"), 1, "1 rows in the result"),
    "inner": (("--how", "Inner"), 3, "3 matches"),
    "keep": (("--keep", "nearest"), 3, "3 matches"),
    "k": (("--keep", "first", "--k", "2", "--time", "ts"), 3, "3 matches"),
    "nearest": (("--keep", "nearest", "--nearest", "abs(l.ts - r.ts)"), 3, "3 matches"),
    "aggregate": (("--aggregate", "n=count(*)"), 3, "3 rows in the result"),
    "indicator": (("--how", "full", "--indicator"), 5, "5 rows in the result"),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_joins(files, tmp_path, name):
    arguments, rows, told = KINDS[name]
    out = tmp_path / "out.parquet"
    for more in ((), ("--count",), ("--out", out)):
        result = run("join", *files, "--on", CONDITION, *arguments, *more)
        assert result.exit_code == 0, result.output
        assert f"4 x 4 rows, {told}" in words(result.stdout)
    assert parquet.read_table(out).num_rows == rows


def test_several_aggregates_and_the_indicator_are_columns(files, tmp_path):
    out = tmp_path / "out.parquet"
    aggregates = (
        "--aggregate",
        "n = count(*)",
        "--aggregate",
        "b=max(case when r.price=1 then 1 end)",
    )
    run("join", *files, "--on", CONDITION, "--how", "left", *aggregates, "--out", out)
    found = parquet.read_table(out)
    assert found.column_names == ["symbol", "price", "ts", "n", "b"]
    assert sorted(found["n"].to_pylist()) == [0, 1, 1, 1]
    run("join", *files, "--on", CONDITION, "--how", "full", "--indicator", "--out", out)
    assert set(parquet.read_table(out)["_match"].to_pylist()) == {"both", "left_only", "right_only"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--how", "lefft"), "--how lefft is no kind of join; choose 'inner'"),
        (("--keep", "best"), "--keep best does not exist"),
        (("--keep", "first"), "--keep first goes by the time"),
        (("--k", "2"), "--k 2 is about the matches that are kept, and all are; add --keep nearest"),
        (("--keep", "nearest", "--k", "0"), "--k 0: give the number of matches"),
        (("--nearest", "l.price - r.price"), '--nearest "l.price - r.price" is about the matches'),
        (("--keep", "nearest", "--nearest", "l.s 'x'"), "--nearest \"l.s 'x'\": cannot read"),
        (("--how", "semi", "--indicator"), "--indicator tells pairs from rows without a match"),
        (("--aggregate", "n"), "--aggregate 'n': give a column and its aggregate"),
        (("--aggregate", "n=r.x"), "aggregate 'n': 'r.x' is no aggregate"),
        (
            ("--aggregate", "n=count(*)", "--aggregate", "n=max(r.x)"),
            "there is a column 'n' already, of count(*)",
        ),
        (
            ("--aggregate", "n=count(*)", "--aggregate", "m=max(r.x)", "--how", "full"),
            '--aggregate "n=count(*)" --aggregate "m=max(r.x)" gives one row for each left row',
        ),
    ],
    ids=str,
)
def test_kinds_are_refused_in_the_words_of_the_command_line(files, arguments, expected):
    message = refused(run("join", *files, "--on", CONDITION, *arguments))
    assert expected in message
    assert not re.search(r"\b(how|keep|k|nearest|aggregate|indicator|time)=", message)


def test_explain_tells_of_kinds():
    window = ("--window", "10 s", "--time", "ts", "--delay", "1 s")
    early = ("--how", "left", "--unmatched", "early", "--patience", "5 s", "--late", "keep")
    told = run("explain", "l.k = r.k", *window, *early).stdout
    assert "how          left: pairs, and left rows that match nothing" in told
    assert "once the watermark has passed l.ts + 10 seconds" in told
    assert "_op:" in told
    message = refused(run("explain", "l.k = r.k", *window, *early[:4]))
    assert '--unmatched early needs --patience "10 seconds"' in message


def test_a_condition_stays_as_it_is_written(files):
    on = "l.time='x' or r.time='y'"
    message = refused(run("join", *files, "--on", on))
    assert "--time" not in message
