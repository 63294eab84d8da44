"""What reports say of commit, versions and machine: enough, and nothing personal."""

import json
import os
import platform
import re

from benchmarks.harness import machine
from benchmarks.harness.machine import describe_commit, describe_machine, describe_versions


def test_the_machine_names_nobody():
    described = describe_machine(), describe_versions(), describe_commit()
    text = json.dumps(described)
    assert os.getcwd() not in text
    assert os.path.expanduser("~") not in text
    if len(platform.node()) > 3:
        assert platform.node() not in text


def test_the_commit_is_that_of_the_checkout(monkeypatch, tmp_path):
    commit = describe_commit()
    if commit["revision"] is not None:  # a checkout, not a copy of its files
        assert re.fullmatch("[0-9a-f]{40}", commit["revision"])
        assert isinstance(commit["dirty"], bool)
    monkeypatch.setattr(machine, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert describe_commit() == {"revision": None, "dirty": None}


def test_versions_of_all_competitors_are_recorded():
    versions = describe_versions()
    assert {"streamjoin", "numpy", "numba", "pyarrow", "duckdb", "polars", "sqlglot"} <= set(
        versions
    )
    assert versions["numpy"]
