"""Tiny subwindows, so that turns change, chains grow and rows expire within a few rows."""

import pytest

from streamjoin.joins.sliding import manager, sizes


@pytest.fixture(autouse=True)
def tiny_subwindows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "FEW_ROWS", 4)
    monkeypatch.setattr(sizes, "LEAST_ROWS", 4)
    monkeypatch.setattr(sizes, "LARGE_BATCH", 8)
    monkeypatch.setattr(manager, "SLICE_ROWS", 2)
