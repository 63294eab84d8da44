"""Every kind of join, over every kind of window, gives what it should, and when it should.

A case draws a condition, an executor, batch mode, late rows, how the input is cut, whether the
state is saved and restored between pushes, and whether rows are pushed or read from a source.
"""

from random import Random

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.options.how import BY_NAME
from tests.joins.outcomes.cases import KINDS, Case, Run, run_case
from tests.joins.small_streams import table


@pytest.mark.parametrize("how", BY_NAME)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_streams(seed, kind, how):
    run_case(seed, kind, how)


@pytest.mark.parametrize("seed", [1793, 2141, 2559, 2562])
def test_rows_that_were_restored_are_due_before_any_other_comes(seed):
    run_case(seed)


@pytest.mark.parametrize("window", [sj.TimeWindow("3 ms"), sj.CountWindow(5)])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_source_that_ends_releases_what_is_left(window, cores):
    join = sj.StreamJoin(
        "l.k = r.k", window, how="left", cores=cores,
        **({} if isinstance(window, sj.CountWindow) else {"time": "t"}),
    )  # fmt: skip
    rows = pa.table({"k": [1, 2], "t": [5, 6]})
    parts = list(join.stream([(rows, rows.slice(0, 1))]))
    assert sum(part.rows.num_rows for part in parts) == 2
    assert join.finish().num_rows == 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", BY_NAME)
def test_a_stream_joined_with_itself(how, seed):
    """One object is pushed as both sides: each row is a left row, and a right row."""
    random = Random(f"{seed} {how}")
    window = random.choice([sj.TimeWindow("3 ms"), sj.CountWindow(6), sj.TumblingWindow("5 ms")])
    options = {} if isinstance(window, sj.CountWindow) else {"delay": "2 ms"}
    run = SelfRun(Case(how, random.choice(["band", "two inequalities"]), window, options), random)
    run.go()


class SelfRun(Run):
    def push(self, left, right):
        rows = [row | {"id": number} for number, row in enumerate(left, self.first)]
        self.first += len(rows)
        both = table(rows)
        self.take(self.join.push(left=both, right=both))
        self.truth.push(rows, rows)
        self.compare()

    first = 0
