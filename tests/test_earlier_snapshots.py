"""Snapshots that earlier versions have written are read."""

from zipfile import ZipFile

import pytest
from earlier_state import SNAPSHOTS
from saved_joins import STATES, make
from test_snapshots import push_again

import streamjoin as sj


@pytest.mark.parametrize("state", STATES)
def test_snapshots(state):
    with ZipFile(SNAPSHOTS) as file:
        saved = file.read(state)
    assert push_again(sj.StreamJoin.restore(saved)) == push_again(make(state))
