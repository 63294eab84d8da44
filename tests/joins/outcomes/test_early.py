"""Rows without a match that are given early, and taken back if they match after all.

The net effect is that of ``unmatched="final"``, whatever the cuts; each row is given early once.
"""

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.options.how import BY_NAME
from streamjoin.plans.limits import use_limits
from tests.joins.outcomes.cases import Run, make_case
from tests.joins.outcomes.truths import read
from tests.joins.small_streams import TINY

LONELY = [name for name, how in BY_NAME.items() if how.alone]


class EarlyRun(Run):
    """A run that takes rows back, and counts how often each is given."""

    def __init__(self, case, random):
        super().__init__(case, random)
        self.added, self.removed = Counter(), Counter()

    def take(self, result):
        self.is_known = self.is_known or self.join.schema is not None
        if self.join.schema is None:
            assert result.num_rows == 0
            return
        assert result.schema == self.join.schema
        ops, rest = result["_op"].to_pylist(), result.drop_columns("_op")
        cuts = [at for at in range(1, len(ops)) if ops[at] != ops[at - 1]]
        for first, last in zip([0, *cuts], [*cuts, len(ops)], strict=True):
            if not ops:
                break
            part = rest.slice(first, last - first)
            rows = read(self.case.how, part, self.case.options.get("indicator", False))
            if ops[first] == "+":
                assert not any(self.is_open(*pair) for pair in rows if None not in pair)
                self.given += rows
                self.added += rows
            else:
                assert rows <= self.given, "taken back, and not given before"
                self.given -= rows
                self.removed += rows

    def is_open(self, left, right, *_):
        """Whether a row of a pair stands as one without a match."""
        return self.given[left, None] or self.given[None, right]

    def compare(self):
        is_exact = self.truth.is_prompt or not self.truth.closes or self.join._state.is_over
        if is_exact and (not self.case.waits or self.is_flushed):
            super().compare()
        alone = Counter({row: count for row, count in self.added.items() if None in row})
        assert max(alone.values(), default=1) == 1, "given more than once"
        assert max(self.removed.values(), default=1) == 1
        assert not [row for row in self.removed if None not in row or row[0] == "late"]


def run_early(seed, kind, how):
    random = Random(f"early {seed} {kind} {how}")
    early = {"unmatched": "early", "patience": f"{random.choice([0, 1, 3, 8])} ms"}
    case = make_case(random, kind, how, early)
    if case.driving == "stopped":  # what is under way is lost, be it given or taken back
        case = type(case)(**case.__dict__ | {"driving": "push"})
    try:
        run = EarlyRun(case, random)
        run.go()
    except Exception as error:
        error.add_note(f"run_early({seed!r}, {kind!r}, {how!r}): {case}")
        raise
    return run


@pytest.mark.parametrize("how", LONELY)
@pytest.mark.parametrize("kind", ["time", "tumbling", "session"])
@pytest.mark.parametrize("seed", range(16))
def test_the_net_effect_is_that_of_final_rows(seed, kind, how):
    run_early(seed, kind, how)


@pytest.mark.parametrize("kind", ["time", "tumbling", "session"])
def test_rows_are_taken_back(kind):
    """The property above would hold if none ever was."""
    removed = sum(run_early(seed, kind, "full").removed.total() for seed in range(100, 112))
    assert removed > 20


EARLY = {"on": "l.k = r.k", "time": "t", "unmatched": "early", "patience": "5 ms"}


def rows(*pairs):
    keys, times = zip(*pairs, strict=True)
    return pa.table({"k": pa.array(keys, pa.int64()), "t": pa.array(times, pa.int64())})


def shown(result):
    return [tuple(row.values()) for row in result.to_pylist()]


def test_a_row_is_given_early_and_taken_back_before_its_pair():
    join = sj.StreamJoin(window=sj.TimeWindow("20 ms"), how="left", indicator=True, **EARLY)
    assert shown(join.push(left=rows((1, 0)), right=rows((2, 5)))) == []
    assert shown(join.push(right=rows((2, 6)))) == [(1, 0, None, None, "left_only", "+")]
    assert shown(join.push(right=rows((1, 7), (1, 8)))) == [
        (1, 0, None, None, "left_only", "-"),
        (1, 0, 1, 7, "both", "+"),
        (1, 0, 1, 8, "both", "+"),
    ]
    assert shown(join.finish()) == []


def test_an_anti_join_takes_back_and_gives_nothing_instead():
    join = sj.StreamJoin(window=sj.TimeWindow("20 ms"), how="left_anti", **EARLY)
    join.push(left=rows((1, 0)), right=rows((2, 5)))
    assert shown(join.push(right=rows((2, 6)))) == [(1, 0, "+")]
    assert shown(join.push(right=rows((1, 7)))) == [(1, 0, "-")]
    assert shown(join.push(right=rows((1, 7)))) == shown(join.finish()) == []


@pytest.mark.parametrize("window", [sj.TumblingWindow("20 ms"), sj.SessionWindow("10 ms")])
def test_where_matches_are_found_at_the_close_rows_are_taken_back_there(window):
    join = sj.StreamJoin(window=window, how="left", **EARLY)
    assert shown(join.push(left=rows((1, 0)), right=rows((1, 1), (2, 6)))) == [
        (1, 0, None, None, "+")
    ]
    assert shown(join.finish()) == [(1, 0, None, None, "-"), (1, 0, 1, 1, "+")]


@pytest.mark.parametrize(
    ("unit", "patience", "given"),
    [("s", "500 ms", [1, 2]), ("s", "1 s", [1]), ("ms", "999 ms", [1, 2]), ("ns", "1 s", [1])],
)
def test_patience_is_exact_in_any_unit(unit, patience, given):
    def seconds(*times):
        stamps = pa.array(times, pa.timestamp("s")).cast(pa.timestamp(unit))
        return pa.table({"k": list(times), "t": stamps})

    join = sj.StreamJoin(window="1 hour", how="left_anti", **EARLY | {"patience": patience})
    pushed = join.push(left=seconds(1, 2), right=seconds(3))
    assert pushed["k"].to_pylist() == given


def test_a_row_that_is_final_first_is_given_then():
    join = sj.StreamJoin(window=sj.TimeWindow("1 ms"), how="left", **EARLY | {"patience": "1 hour"})
    join.push(left=rows((1, 0)), right=rows((2, 0)))
    assert shown(join.advance(2)) == [(1, 0, None, None, "+")]
    assert shown(join.advance(2)) == shown(join.finish()) == []


def test_rows_that_cannot_match_are_given_at_once_and_late_ones_too():
    join = sj.StreamJoin(window=sj.TimeWindow("9 ms"), how="full", late="keep", **EARLY)
    result = join.push(left=rows((None, 3)), right=rows((1, None), (1, 10)))
    assert {row["_op"] for row in result.to_pylist()} == {"+"}
    assert result.num_rows == 2
    join.advance(20)
    assert shown(join.push(left=rows((1, 1)))) == [(1, 1, None, None, True, "+")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unmatched": "soon"}, "'final'"),
        ({"unmatched": "early"}, "needs patience="),
        ({"patience": "1 second"}, "add unmatched='early'"),
        ({"unmatched": "early", "patience": "1 s", "how": "inner"}, "gives none"),
        ({"unmatched": "early", "patience": "1 s", "how": "left_semi"}, "gives none"),
        ({"unmatched": "early", "patience": "1 s", "keep": "first"}, "keep='first'"),
        (
            {"unmatched": "early", "patience": "1 s", "aggregate": {"n": "count(*)"}},
            "aggregate=",
        ),
        (
            {"unmatched": "early", "patience": "1 s", "window": sj.CountWindow(5), "time": None},
            "goes by event times",
        ),
        ({"unmatched": "early", "patience": "1 s", "ordered": "outer"}, "ordered='outer'"),
    ],
)
def test_what_has_no_meaning_is_refused(options, words):
    join = {"on": "l.k = r.k", "window": sj.TimeWindow("9 ms"), "time": "t", "how": "left"}
    with pytest.raises(sj.StreamJoinError) as info:
        sj.StreamJoin(**join | options)
    assert words in str(info.value)


def test_tables_know_all_their_rows():
    with pytest.raises(sj.StreamJoinError, match="tables have all their rows from the start"):
        sj.join_tables(rows((1, 1)), rows((1, 1)), "l.k = r.k", how="left", unmatched="early")


def test_the_column_must_be_free():
    join = sj.StreamJoin(window=sj.TimeWindow("9 ms"), how="left", **EARLY)
    left = rows((1, 1)).append_column("_op", pa.array([1]))
    with pytest.raises(sj.SchemaError, match="unmatched='early' adds a column '_op'"):
        join.push(left=left, right=rows((1, 1)))


@pytest.mark.parametrize("emit", ["close", "eager"])
@pytest.mark.parametrize("window", [sj.TumblingWindow("9 ms"), sj.SessionWindow("9 ms")])
def test_a_window_that_closes_gives_its_rows_once(window, emit):
    """In batch mode, time goes on while rows wait: they are due and out of patience at once."""
    join = sj.StreamJoin(window=window, how="full", emit=emit, delay="0 ms", batch_rows=9, **EARLY)
    join.push(left=rows((1, 0)), right=rows((2, 0)))
    assert shown(join.push(left=rows((1, 90)), right=rows((2, 90)))) == []
    given = [(1, 0, None, None, "+"), (None, None, 2, 0, "+")]
    assert sorted(shown(join.flush()), key=str) == sorted(given, key=str)
    assert join.finish().num_rows == 2


def test_a_row_that_is_put_behind_the_newest_was_given_already():
    """Where most of the oldest rows have left a whole window, the others come again."""
    with use_limits(TINY):
        join = sj.StreamJoin(
            window=sj.TimeWindow("20 ms"), how="left", algorithm="pim_tree", **EARLY
        )
    old = [(1, time) for time in range(40)]
    given = shown(join.push(left=rows((1, 100), *old), right=rows((2, 300))))
    given += shown(join.advance(90))
    given += shown(join.push(left=rows((1, 299))))
    assert sorted(row[1] for row in given) == [*range(40), 100]
    assert [row[1] for row in shown(join.finish())] == [299]
