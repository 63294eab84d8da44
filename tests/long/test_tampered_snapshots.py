"""Thousands of snapshots that somebody changed and signed anew: none may crash the process."""

import pytest

from tests.api.saved_joins import check_tampered

pytestmark = pytest.mark.slow


def test_many_tampered_snapshots():
    check_tampered(60, seed=2)
