"""Layouts: which parts an index can be sorted by, and that the most selective one is chosen."""

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.choice.structure import choose_layout
from streamjoin.plans.binding import bind
from streamjoin.plans.plan import Layout
from streamjoin.plans.preparing import prepare

SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64(), "t": pa.int64()})
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}


def plan_of(on, window=None):
    return bind(sj.parse_condition(on), window, window and ("t", "t"), SCHEMAS)


def chosen(plan, stored="right", **columns):
    size = 500
    random = np.random.default_rng(1)
    values = {name: np.zeros(size, np.int64) for name in SCHEMA.names} | {
        name: random.integers(0, span, size) for name, span in columns.items()
    }
    batch = pa.record_batch(values, SCHEMA)
    samples = {side: prepare(plan, side, batch).keys.sample() for side in SCHEMAS}
    return choose_layout(plan, stored, samples)


@pytest.mark.parametrize(
    ("on", "layouts"),
    [
        ("l.k = r.k", [Layout(True, None)]),
        ("abs(l.a - r.a) <= 1", [Layout(False, 0)]),
        ("l.k = r.k and abs(l.a - r.a) <= 1", [Layout(True, 0)]),
        ("l.a < r.a and l.b > r.b", [Layout(False, 0), Layout(False, 1)]),
        ("l.a <> r.a and l.b > r.b", [Layout(False, 0), Layout(False, 1)]),
        ("l.a + r.a > 1", [Layout(False, None)]),
    ],
)
def test_layouts_without_a_window(on, layouts):
    assert plan_of(on).layouts() == layouts


def test_a_band_comes_before_the_window_and_the_window_before_an_inequality():
    plan = plan_of("l.b < r.b and abs(l.a - r.a) <= 1", sj.TimeWindow(5))
    parts = [layout.range_part for layout in plan.layouts()]
    assert [plan.ranges[part].source.left for part in parts] == ["l.a", "l.`t`", "l.b"]


def test_time_alone_is_a_key():
    plan = plan_of("l.a + r.a > 1", sj.TimeWindow(5))
    assert plan.layouts() == [Layout(False, 0)]
    assert plan.has_key


@pytest.mark.parametrize("stored", ["left", "right"])
@pytest.mark.parametrize(("narrow", "wide"), [("a", "b"), ("b", "a")])
def test_the_band_with_fewer_candidates_is_chosen(stored, narrow, wide):
    plan = plan_of("abs(l.a - r.a) <= 1 and abs(l.b - r.b) <= 1")
    # A column with many values is selective under a narrow band, one with few is not.
    layout = chosen(plan, stored, **{narrow: 3, wide: 10_000})
    assert plan.ranges[layout.range_part].source.left == f"l.{wide}"


def test_a_selective_inequality_beats_a_useless_band():
    plan = plan_of("abs(l.a - r.a) <= 1000 and l.b > r.b + 95")
    layout = chosen(plan, a=10, b=100)
    assert plan.ranges[layout.range_part].source.left == "l.b"


def test_time_is_chosen_where_nothing_else_is_selective():
    plan = plan_of("l.a <= r.a", sj.TimeWindow(5))
    layout = chosen(plan, a=2, t=10_000)
    assert layout.range_part == plan.time_part


@pytest.mark.parametrize(
    ("on", "exact"),
    [
        ("l.k = r.k", True),
        ("l.k = r.k and l.a = r.a", False),
        ("l.k <=> r.k", False),
        ("abs(l.a - r.a) <= 1", True),
        ("l.k = r.k and abs(l.a - r.a) <= 1", False),
    ],
)
def test_which_layouts_leave_nothing_to_check(on, exact):
    plan = plan_of(on)
    assert plan.is_exact(plan.layouts()[0]) == exact


def test_one_sided_parts_are_filters_and_the_rest_residuals():
    plan = plan_of("l.k = r.k and l.a > 1 and r.b is null and l.a + r.b > 3")
    assert [plan.filters[side].sql() for side in SCHEMAS] == ["l.a > 1", "r.b IS NULL"]
    assert len(plan.residuals) == 1
    assert plan.residual_columns == {"left": ("a",), "right": ("b",)}
