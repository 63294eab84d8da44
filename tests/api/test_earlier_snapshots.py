"""Snapshots that earlier versions have written are read."""

from zipfile import ZipFile

import pytest

import streamjoin as sj
from tests.api.saved_joins import make
from tests.api.test_snapshots import push_again
from tests.earlier.writing import SNAPSHOTS

with ZipFile(SNAPSHOTS) as file:
    STATES = file.namelist()  # those of kinds that came later are in files of later formats


@pytest.mark.parametrize("state", STATES)
def test_snapshots(state):
    with ZipFile(SNAPSHOTS) as file:
        saved = file.read(state)
    assert push_again(sj.StreamJoin.restore(saved)) == push_again(make(state))
