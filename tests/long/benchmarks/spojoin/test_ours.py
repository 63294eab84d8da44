"""Our side of the SPO-Join benchmarks finds what the rivals find, whatever the batches."""

import numpy as np
import pytest

from benchmarks.spojoin.chains import ChainJoin
from benchmarks.spojoin.ours import EngineJoin, FreshPart, PermutedPart
from benchmarks.spojoin.races import CHECKED, Entrant, Runner, check_part, race_joins, race_parts
from benchmarks.spojoin.sorted_runs import SortedRuns
from benchmarks.spojoin.tree_parts import ImmutableTrees, MutableTrees
from benchmarks.spojoin.workloads import QUERIES

ROWS = 400
queries = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)


def rows_of(query, seed, count):
    tuned = query.with_matches(20, ROWS)
    return tuned, tuned.rows(np.random.default_rng(seed), count)


@pytest.mark.parametrize("writes", [True, False], ids=["written", "counted"])
@pytest.mark.parametrize("batch", [1, 7, CHECKED])
@queries
def test_a_permutation(query, batch, writes):
    query, stored = rows_of(query, 1, ROWS)
    _, probes = rows_of(query, 2, CHECKED)
    ours, theirs = PermutedPart(stored, batch, writes), ImmutableTrees(stored, hashed=False)
    assert check_part(query, ours, probes) == check_part(query, theirs, probes) > 0


@pytest.mark.parametrize("merge_rows", [1, 16, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, ROWS])
@queries
def test_what_takes_tuples(query, size, merge_rows):
    query, stored = rows_of(query, 3, size)
    _, coming = rows_of(query, 4, CHECKED)
    ours, theirs = (
        FreshPart(stored, merge_rows=merge_rows),
        MutableTrees(stored, CHECKED, hashed=True),
    )
    for _ in range(2):  # a check ends with a rewind
        assert check_part(query, ours, coming) == check_part(query, theirs, coming)


@pytest.mark.parametrize("hashed", [True, False], ids=["hash set", "bit arrays"])
@queries
def test_sorted_runs(query, hashed):
    query, stored = rows_of(query, 1, ROWS)
    _, probes = rows_of(query, 2, CHECKED)
    ours, theirs = SortedRuns(stored, hashed), ImmutableTrees(stored, hashed=False)
    assert check_part(query, ours, probes) == check_part(query, theirs, probes) > 0


@queries
def test_races_end_if_rivals_agree(query):
    query, stored = rows_of(query, 5, ROWS)
    entrants = {
        "ours": Entrant(PermutedPart(stored), 64),
        "trees": Entrant(ImmutableTrees(stored, hashed=True), 16),
    }
    assert {len(each.values) for each in race_parts(query, entrants, 2, 1).values()} == {2}
    runners = {
        "ours": Runner(EngineJoin(query, ROWS), 64, steps=2),
        "one index and a filter": Runner(EngineJoin(query, ROWS, "bi_sort"), 16),
        "chain": Runner(ChainJoin(ROWS, hashed=True, links=3), 16),
    }
    assert set(race_joins(query, ROWS, runners, 1, 1)) == set(runners)


def test_rivals_that_differ_are_found_out():
    query, stored = rows_of(QUERIES[0], 6, ROWS)
    entrants = {
        "all": Entrant(ImmutableTrees(stored, True), 16),
        "half": Entrant(ImmutableTrees(stored.part(0, ROWS // 2), True), 16),
    }
    with pytest.raises(AssertionError, match="matches differ"):
        race_parts(query, entrants, 1, 1)
