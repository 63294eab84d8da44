"""What importing costs: nothing heavy is loaded before it is used, and Spark never is."""

import subprocess
import sys
from importlib.metadata import version

import pytest

HEAVY = {"pyspark", "numba", "pyarrow", "sqlglot", "pandas", "duckdb", "polars"}


def run_python(code):
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("module", ["streamjoin", "streamjoin.cli.app", "streamjoin.errors"])
def test_importing_loads_nothing_heavy(module):
    run_python(
        f"import {module}, sys\n"
        f"loaded = {HEAVY} & set(sys.modules)\n"
        f"assert not loaded, f'import {module} loads {{loaded}}'"
    )


@pytest.mark.parametrize("missing", [["pyspark"], ["rich", "typer"]], ids=" and ".join)
def test_the_engine_works_without(missing):
    # An entry of None makes an import fail, as on a machine without the package.
    run_python(
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        "import pyarrow as pa, streamjoin as sj\n"
        "table = pa.table({'x': [1, 5, 9]})\n"
        "assert sj.join_tables(table, table, on='abs(l.x - r.x) <= 4').num_rows == 7"
    )


@pytest.mark.parametrize(
    ("modules", "packages"),
    [
        (["pyspark"], "pyspark"),
        (["pandas"], "pandas"),
        (["google.protobuf"], "protobuf"),
        (["pyspark", "pandas"], "pyspark and pandas"),
    ],
)
def test_what_spark_needs_is_named(modules, packages):
    run_python(
        f"import sys; sys.modules.update(dict.fromkeys({modules}))\n"
        "import streamjoin as sj\n"
        "for statement in ('from streamjoin import spark', 'import streamjoin.spark.run_job'):\n"
        "    try:\n"
        "        exec(statement)\n"
        "    except ImportError as error:\n"
        "        assert isinstance(error, sj.MissingPackageError), repr(error)\n"
        f"        assert error.name == {modules[0]!r}\n"
        f"        assert str(error).startswith('streamjoin.spark needs {packages}, which'), error\n"
        "        assert 'pip install \"streamjoin[spark]\"' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError('it was imported')"
    )


def test_the_public_names_are_there():
    run_python(
        "import streamjoin as sj\n"
        "names = 'StreamJoin TimeWindow CountWindow join_tables explain StreamJoinError'.split()\n"
        "names += ['TumblingWindow', 'SessionWindow']\n"
        "missing = [name for name in names if not hasattr(sj, name) or name not in dir(sj)]\n"
        "assert not missing, f'missing: {missing}'\n"
        "assert not hasattr(sj, 'no_such_name')"
    )


def test_the_version_is_known():
    assert version("streamjoin")
