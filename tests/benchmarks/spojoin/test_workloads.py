"""Queries of two inequalities: their matches are counted right, and are as many as asked for."""

import numpy as np
import pytest

import streamjoin as sj
from benchmarks.spojoin.workloads import Q1, Q3, Rows, count_pairs


@pytest.mark.parametrize("span", [5, 10**6])
@pytest.mark.parametrize("query", [Q1, Q3], ids=["Q1", "Q3"])
def test_matches_of_two_inequalities_are_counted(query, span):
    rng = np.random.default_rng(span)
    rows = Rows(rng.integers(0, span, 150), rng.integers(0, span, 150))
    table = query.batch(rows)
    assert count_pairs(rows) == sj.join_tables(table, table, on=query.on).num_rows


@pytest.mark.parametrize("query", [Q1, Q3], ids=["Q1", "Q3"])
def test_noise_gives_as_many_matches_as_asked_for(query):
    tuned = query.with_matches(30, 20_000)
    rows = tuned.rows(np.random.default_rng(2), 20_000)
    assert count_pairs(rows) / 20_000 == pytest.approx(30, rel=0.05)
