"""Tiny subwindows, so that turns change, chains grow and rows expire within a few rows."""

from collections.abc import Iterator

import pytest

from streamjoin.plans.limits import use_limits
from tests.joins.small_streams import TINY


@pytest.fixture(autouse=True)
def tiny_subwindows() -> Iterator[None]:
    with use_limits(TINY):
        yield
