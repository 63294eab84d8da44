"""Tiny subwindows, so that turns change, chains grow and rows expire within a few rows."""

import pytest

from streamjoin.plans.limits import use_limits
from tests.joins.small_streams import TINY


@pytest.fixture(autouse=True)
def tiny_subwindows():
    with use_limits(TINY):
        yield
