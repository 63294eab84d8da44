"""The table of options: what each entry point takes, shows, and refuses."""

import inspect
import json
from dataclasses import fields

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.cli.options import FORMS
from streamjoin.jobs.reading import FITTING, OPTIONS
from streamjoin.options.checked import JoinOptions
from streamjoin.options.options import ENTRY_POINTS, SPARK, STREAMS, TABLES
from streamjoin.windows import WINDOWS

ROWS = pa.table({"x": [1]})
FUNCTIONS = {
    sj.StreamJoin: STREAMS,
    sj.explain: STREAMS,
    sj.join_tables: TABLES,
    sj.find_matches: TABLES,
}
every_function = pytest.mark.parametrize(
    ("function", "entry"), FUNCTIONS.items(), ids=lambda each: getattr(each, "__name__", "")
)


def says(error, *texts):
    for text in texts:
        assert text in str(error.value)


@every_function
def test_the_signature_shows_the_options(function, entry):
    parameters = inspect.signature(function).parameters
    options = {
        name: each.default for name, each in parameters.items() if each.kind == each.KEYWORD_ONLY
    }
    assert options == {name: option.default for name, option in entry.table.items()}
    assert not any(each.kind == each.VAR_KEYWORD for each in parameters.values())


@every_function
def test_help_tells_what_they_mean(function, entry):
    text = " ".join(inspect.getdoc(function).split())
    assert "{options}" not in text
    for name, option in entry.table.items():
        assert f"{name}: {' '.join(option.meaning.split())}" in text


def test_help_tells_which_windows_there_are():
    text = " ".join(inspect.getdoc(sj.StreamJoin).split())
    for kind in WINDOWS:
        assert f"`{kind.__name__}` ({kind.pairs})" in text
        assert all(f'``"{each}"``' in text for each in kind.texts)


def test_spark_shows_them_too():
    sjs = pytest.importorskip("streamjoin.spark")
    for function in (sjs.join, sjs.explain):
        assert [*inspect.signature(function).parameters][5:] == [*SPARK.table]
    assert "How many parallel joiners" in sjs.join.__doc__


@pytest.mark.parametrize("entry", ENTRY_POINTS, ids=lambda entry: entry.name)
def test_each_is_read_by_its_default_and_has_a_field(entry):
    given = entry.read({})
    assert given.values.keys() == entry.table.keys()
    assert given.fields.keys() <= {field.name for field in fields(JoinOptions)}


def test_commands_and_job_files_know_every_type():
    assert {each for entry in (STREAMS, TABLES) for each in entry.types.values()} <= FORMS.keys()
    assert set(OPTIONS.values()) <= FITTING.keys()


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda: sj.StreamJoin("l.x = r.x", "count 5", thread=2), ["'thread'", "'threads'?"]),
        (lambda: sj.join_tables(ROWS, ROWS, "l.x = r.x", algoritm="scan"), ["'algorithm'?"]),
        (lambda: sj.explain("l.x = r.x", zzz=1), ["no option 'zzz'", "it has 'algorithm'"]),
        (
            lambda: sj.join_tables(ROWS, ROWS, "l.x = r.x", delay="5 s"),
            ["delay='5 s' has no use in join_tables", "option of StreamJoin", "leave it out"],
        ),
        (
            lambda: sj.find_matches(ROWS, ROWS, "l.x = r.x", cores=2),
            ["cores=2", "StreamJoin or spark.join", "threads"],
        ),
        (
            lambda: sj.StreamJoin("l.x = r.x", "count 5", routing="hash"),
            ["routing='hash'", "an option of spark.join"],
        ),
        (lambda: SPARK.read({"threads": 2}), ["threads=2", "cores="]),
    ],
)
def test_what_has_no_use_is_refused(call, texts):
    with pytest.raises(sj.StreamJoinError) as error:
        call()
    says(error, *texts)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("by", "l.id = r.id"),
        ("tolerance", "band"),
        ("direction", "keep='nearest'"),
        ("type", "how"),
    ],
)
def test_options_of_other_systems_are_translated(name, words):
    with pytest.raises(sj.StreamJoinError) as error:
        sj.join_tables(ROWS, ROWS, "l.x = r.x", **{name: "x"})
    says(error, f"has no option {name!r}", words)


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (sj.CountWindow(5), {"order": ("a", "b"), "cores": 2, "ordered": 3}),
        (sj.TimeWindow("1 s"), {"delay": "5 s", "batch_rows": 7, "batch_time": 50, "threads": 2}),
        (sj.TumblingWindow("1 s"), {"emit": "auto", "optimize": "latency"}),
        (sj.TumblingWindow("1 s"), {"algorithm": "pmj_jb", "tuning": {"delta": 9}}),
        (sj.SessionWindow("1 s"), {"emit": "auto", "optimize": "latency", "algorithm": "prj"}),
    ],
)
def test_they_survive_json(window, options):
    time = "t" if window.is_timed else None
    asked = JoinOptions.check("l.x = r.x", window, time, **options)
    assert JoinOptions.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_an_option_that_an_older_version_lacked_is_as_by_default():
    asked = JoinOptions.check("l.x = r.x", sj.CountWindow(5), threads=2)
    saved = asked.to_json()
    del saved["optimize"], saved["cores"]
    assert JoinOptions.from_json(saved) == asked
