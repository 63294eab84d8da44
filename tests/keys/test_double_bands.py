"""Bands of doubles, joined: NaN, infinities and all, whichever side comes last."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

import streamjoin as sj
from tests.conditions.test_condition_answers import DOUBLE_CONDITIONS, DOUBLES, evaluate

VALUES = np.array([double.value for double in DOUBLES])
TABLE = pa.table({"x": VALUES, "place": range(VALUES.size)})


def joined(text: str, last: str) -> list[tuple[int, int]]:
    """Return the places of the rows that match if one side comes after the other."""
    join = sj.StreamJoin(text, sj.CountWindow(100), algorithm="bi_sort", threads=1)
    found = [join.push(**{side: TABLE}) for side in ("left", "right") if side != last]
    found.append(join.push(**{last: TABLE}))
    rows = found[-1].select(["place", "place_right"]).to_pylist()
    return sorted((row["place"], row["place_right"]) for row in rows)


@pytest.mark.parametrize("last", ["left", "right"])
@settings(max_examples=150, deadline=None)
@given(DOUBLE_CONDITIONS)
@example("(l.x = r.x or l.x - r.x > 0.2)")  # NaN equals NaN, and NaN - 1 is above 0.2
@example("(l.x = r.x or r.x - l.x > 0.2)")
@example("(l.x <= r.x + 3 or l.x - r.x > 5)")
def test_special_doubles_join_as_written(last: str, text: str) -> None:
    try:
        found = joined(text, last)
    except sj.ConditionError as error:  # not a part that a join can use
        if "no part that a join can use" in str(error) or "an OR of things" in str(error):
            return
        raise
    places = range(len(DOUBLES))
    wanted = [(i, j) for i in places for j in places if evaluate(text, DOUBLES[i], DOUBLES[j])]
    assert found == wanted
