"""Suites are found by their names."""

import pytest

from benchmarks.registry import SUITES, find_suite
from streamjoin.errors import StreamJoinError


def test_an_unknown_suite_lists_the_suites():
    with pytest.raises(StreamJoinError, match=r"no benchmark suite 'nope'.*engine"):
        find_suite("nope")
    assert find_suite("engine") is SUITES["engine"]
