"""Common types, casts and comparison as the other layers call them."""

import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.errors import EvaluationError, SchemaError
from streamjoin.expressions.coercion import cast_to, common_type, compare

I32, I64, F32, F64 = pa.int32(), pa.int64(), pa.float32(), pa.float64()
STRING, DATE, NAIVE, ZONED = pa.string(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (pa.int8(), pa.int16(), pa.int16()),
        (I32, I64, I64),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint64(), I64, pa.decimal128(20, 0)),
        (F32, F32, F32),
        (F32, I32, F64),
        (F32, F64, F64),
        (I64, F64, F64),
        (F32, pa.decimal128(10, 2), F64),
        (I32, pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (I64, pa.decimal128(10, 2), pa.decimal128(22, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 8), pa.decimal128(16, 8)),
        (pa.decimal128(38, 0), pa.decimal128(1, 1), pa.decimal128(38, 0)),
        (pa.decimal128(20, 0), pa.decimal128(38, 38), pa.decimal128(38, 18)),
        (STRING, I32, I64),
        (STRING, pa.decimal128(10, 2), F64),
        (STRING, F32, F64),
        (STRING, DATE, DATE),
        (STRING, ZONED, ZONED),
        (STRING, pa.bool_(), pa.bool_()),
        (STRING, pa.binary(), pa.binary()),
        (DATE, NAIVE, NAIVE),
        (DATE, ZONED, ZONED),
        (NAIVE, ZONED, ZONED),
        (NAIVE, pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("s", "Asia/Tokyo"), ZONED, ZONED),
        (pa.duration("s"), pa.duration("ns"), pa.duration("ns")),
        (pa.null(), DATE, DATE),
        (I32, DATE, None),
        (I32, pa.bool_(), None),
        (pa.bool_(), DATE, None),
        (STRING, pa.duration("us"), None),
        (I32, pa.list_(I32), None),
        (F64, pa.binary(), None),
    ],
)
def test_common_type_is_sparks_both_ways(
    a: pa.DataType, b: pa.DataType, common: pa.DataType | None
) -> None:
    assert common_type(a, b) == common
    assert common_type(b, a) == common


NASTY = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5, 5e-324, -5e-324, 1e308]


def key(number: float) -> tuple[bool, float]:
    """Spark's order: NaN after everything, one zero."""
    return (True, 0.0) if math.isnan(number) else (False, number)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NASTY), st.sampled_from(NASTY))))
def test_doubles_compare_in_sparks_total_order(
    pairs: list[tuple[float | None, float | None]],
) -> None:
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    for type in (F64, F32):
        x, y = pa.array(a, type), pa.array(b, type)
        keys = [
            None if p is None or q is None else (key(p), key(q))
            for p, q in zip(x.to_pylist(), y.to_pylist(), strict=True)
        ]
        expected = {
            "=": [k and k[0] == k[1] for k in keys],
            "<>": [k and k[0] != k[1] for k in keys],
            "<": [k and k[0] < k[1] for k in keys],
            "<=": [k and k[0] <= k[1] for k in keys],
            ">": [k and k[0] > k[1] for k in keys],
            ">=": [k and k[0] >= k[1] for k in keys],
        }
        for op, answers in expected.items():
            assert compare(op, x, y).to_pylist() == answers, op


def test_null_safe_equality() -> None:
    pairs = list(itertools.product([None, 1, 2], repeat=2))
    a, b = (pa.array([pair[side] for pair in pairs], I32) for side in (0, 1))
    expected = [(p is None and q is None) or (p is not None and p == q) for p, q in pairs]
    assert compare("<=>", a, b).to_pylist() == expected
    assert compare("<=>", pa.nulls(2), pa.nulls(2)).to_pylist() == [True, True]


def test_a_bigint_meets_a_double_in_double() -> None:
    odd = 2**53 + 1
    assert compare("=", pa.array([odd]), pa.array([float(2**53)])).to_pylist() == [True]


def test_a_string_becomes_the_other_type() -> None:
    assert compare("=", pa.array([" 7 "]), pa.array([7])).to_pylist() == [True]
    with pytest.raises(EvaluationError, match="'x' of type string cannot be cast to bigint"):
        compare("=", pa.array(["x"]), pa.array([7]))


def test_types_without_a_common_one_do_not_compare() -> None:
    with pytest.raises(SchemaError, match="bigint and boolean do not compare; cast one of them"):
        compare("=", pa.array([1]), pa.array([True]))


def test_cast_to_keeps_values_or_raises() -> None:
    assert cast_to(pa.array([1, None], pa.uint8()), F64).to_pylist() == [1.0, None]
    assert cast_to(pa.array([1], I64), pa.decimal128(3, 2)).to_pylist()[0] == 1
    with pytest.raises(EvaluationError, match="1000 of type bigint cannot be cast to decimal"):
        cast_to(pa.array([1000]), pa.decimal128(3, 2))
    with pytest.raises(EvaluationError, match="nan of type double cannot be cast to int"):
        cast_to(pa.array([math.nan]), I32)
