"""The hash table of groups against a dict."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.joins.sessions.group_table import FEWEST_SLOTS, NONE, GroupTable
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

GROUPS = st.one_of(st.integers(-3, 3), st.sampled_from([MIN_KEY, MAX_KEY]), st.integers(0, 10**6))
batches = st.lists(st.dictionaries(GROUPS, st.integers(0, 9), max_size=30), max_size=8)


def array(values):
    return np.array(list(values), np.int64)


@given(batches, st.lists(st.integers(-1, 9), min_size=10, max_size=10))
def test_any_puts_and_renewals(steps, renumbered):
    table, known = GroupTable(), {}
    renumbered = array(renumbered)
    for step in steps:
        if not table.has_room(len(step)):
            table.renew(renumbered, len(step))
            renewed = {group: int(renumbered[number]) for group, number in known.items()}
            known = {group: number for group, number in renewed.items() if number != NONE}
        table.put(array(step), array(step.values()))
        known |= step
        table.check()
        wanted = [*known, -5, 5, *known]
        assert table.find(array(wanted)).tolist() == [known.get(each, NONE) for each in wanted]
    assert table.used == len(known)


def test_an_empty_table_takes_no_memory_and_a_new_one_has_room():
    table = GroupTable()
    assert (table.nbytes, table.has_room(1)) == (0, False)
    assert table.find(np.array([1, 2])).tolist() == [NONE, NONE]
    for count in (1, FEWEST_SLOTS, 10 * FEWEST_SLOTS):
        assert GroupTable(count).has_room(count)


def test_groups_that_share_a_slot_are_told_apart():
    groups = np.arange(0, 64 * 1000, 64)
    table = GroupTable(groups.size)
    table.put(groups, groups)
    assert np.array_equal(table.find(groups), groups)
    assert (table.find(groups + 1) == NONE).all()
    table.renew(np.full(groups.max() + 1, NONE))
    assert (table.used, table.nbytes) == (0, 0)
