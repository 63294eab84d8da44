"""Evaluation with literal expectations: what cannot be compared with Spark, and the messages."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.errors import (
    ConditionError,
    EvaluationError,
    SchemaError,
    UnsupportedExpressionError,
)
from streamjoin.expressions.evaluation import evaluate
from streamjoin.expressions.parsing import parse_expression, qualify


def value(sql: str, **columns: pa.Array) -> pa.Array:
    """The expression over the left columns of the same name."""
    batch = pa.RecordBatch.from_pydict(columns) if columns else None
    schema = None if batch is None else batch.schema
    return evaluate(qualify(parse_expression(sql), schema, None), batch)


def one(sql: str) -> Any:
    return evaluate(parse_expression(sql))[0].as_py()


def test_both_sides_are_paired_row_by_row() -> None:
    left = pa.RecordBatch.from_pydict({"x": [1, 2, None]})
    right = pa.RecordBatch.from_pydict({"x": [1, 3, 3]})
    tree = qualify(parse_expression("l.x = r.x"), left.schema, right.schema)
    assert evaluate(tree, left, right).to_pylist() == [True, False, None]


def test_constants_are_repeated_for_every_row() -> None:
    assert value("1 + 1", x=pa.array([1, 2, 3])).to_pylist() == [2, 2, 2]
    assert value("interval 1 day", x=pa.array([1, 2])).to_pylist() == [timedelta(days=1)] * 2


def test_batches_of_different_length_are_refused() -> None:
    left = pa.RecordBatch.from_pydict({"x": [1, 2]})
    with pytest.raises(SchemaError, match="2 and 1 rows"):
        evaluate(parse_expression("l.x"), left, left[:1])


def test_a_column_that_is_not_there_asks_for_qualification() -> None:
    with pytest.raises(SchemaError, match=r"l\.y is not at hand; qualify"):
        evaluate(parse_expression("l.y"), pa.RecordBatch.from_pydict({"x": [1]}))


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.duration("s"), pa.duration("us")),
        (pa.decimal256(20, 2), pa.decimal128(20, 2)),
    ],
)
def test_columns_take_the_type_in_which_spark_holds_them(
    type: pa.DataType, expected: pa.DataType
) -> None:
    assert value("l.x", x=pa.array([], type)).type == expected


def test_unsigned_extremes_compare_by_value() -> None:
    large = pa.array([2**64 - 1, 0], pa.uint64())
    assert value("l.x > 9223372036854775807", x=large).to_pylist() == [True, False]
    assert value("l.x + 1", x=large).to_pylist() == [Decimal(2**64), Decimal(1)]


def test_narrow_integers_do_not_wrap_but_give_the_exact_sum() -> None:
    top = pa.array([127, None], pa.int8())
    result = value("l.x + l.x", x=top)
    assert result.type == pa.int64()
    assert result.to_pylist() == [254, None]
    assert value("l.x * l.x * l.x", x=pa.array([2**20], pa.int32())).to_pylist() == [2**60]
    # A comparison sees the exact value as well.
    assert value("l.x + 1 > l.x", x=pa.array([2**31 - 1], pa.int32())).to_pylist() == [True]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("l.x + 1", r"l\.x \+ 1: the result overflows.*Spark raises here too.*try_add"),
        ("l.x * 2", r"l\.x \* 2: .*decimal\(38,0\) or double, or use try_multiply"),
        ("1 / l.zero", r"1 / l\.zero: division by zero; Spark raises.*try_divide, or nullif"),
        ("1 + 1 % l.zero", r"1 % l\.zero: division by zero"),
        ("cast(l.s as int)", r"the value 'x' of type string cannot be cast to int.*try_cast"),
    ],
)
def test_a_value_without_an_answer_names_the_expression_and_the_way_out(
    sql: str, message: str
) -> None:
    columns = {"x": pa.array([2**63 - 1]), "zero": pa.array([0]), "s": pa.array(["x"])}
    with pytest.raises(EvaluationError, match=message):
        value(sql, **columns)


def test_null_rows_and_branches_not_taken_do_not_raise() -> None:
    x = pa.array([0, 2, None], pa.int32())
    none = pa.array([None] * 3, pa.int32())
    assert value("l.n / l.x", x=x, n=none).to_pylist() == [None] * 3
    assert value("case when l.x <> 0 then 4 / l.x end", x=x).to_pylist() == [None, 2.0, None]
    assert value("if(l.x = 0, -1, 4 / l.x)", x=x).to_pylist() == [-1.0, 2.0, None]
    assert value("l.x <> 0 and 4 / l.x > 1", x=x).to_pylist() == [False, True, None]
    assert value("l.x = 0 or 4 / l.x > 1", x=x).to_pylist() == [True, True, None]
    assert value("coalesce(nullif(l.x, 2) + 1, 4 / l.x)", x=x).to_pylist() == [1.0, 2.0, None]
    assert value("false and 1 / 0 > 1", x=x).to_pylist() == [False] * 3


def test_a_branch_that_no_row_takes_still_has_its_type_checked() -> None:
    with pytest.raises(SchemaError, match="int and date do not compare"):
        value("l.x > 0 and l.x = l.d", x=pa.array([-1], pa.int32()), d=pa.array([0], pa.date32()))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("l.i = l.d", r"l\.i = l\.d: int and date do not compare; cast one of them"),
        ("l.i + l.d + 1.5", r"is not defined|shifts by int days"),
        ("not l.i", "a condition is boolean, not int"),
        ("l.d + 5L", "a date shifts by int days, not by bigint; cast it to int"),
        ("l.i.f = 1", "int has no field 'f'"),
        ("coalesce(l.i, l.d)", "int and date have no common type"),
    ],
)
def test_type_errors_are_found_without_rows(sql: str, message: str) -> None:
    columns = {"i": pa.array([], pa.int32()), "d": pa.array([], pa.date32())}
    with pytest.raises(SchemaError, match=message):
        value(sql, **columns)


@pytest.mark.parametrize(
    ("sql", "subject"),
    [
        ("soundex(l.x)", "the function soundex"),
        ("frobnicate(l.x)", "the function frobnicate"),
        ("l.x rlike 'a'", "the function regexp_like"),
        ("~l.x", "the operator bitwisenot"),
        ("count(l.x)", "the function count"),
    ],
)
def test_an_unknown_function_is_named_with_the_list_of_known_ones(sql: str, subject: str) -> None:
    message = rf"{subject} .* not evaluated in process; Spark evaluates it .*guide/conditions\.md"
    with pytest.raises(UnsupportedExpressionError, match=message):
        value(sql, x=pa.array(["a"]))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("date '2020-01-01' + interval 1 month", "months and years differ in length.*use days"),
        ("l.x in (select 1)", "a list of values here, not a subquery"),
        ("round(1.5, l.n)", "constant integer"),
        ("ceil(1.55, 1)", "only the form with one argument"),
        ("cast(1.5D as string)", "a cast from double to string"),
        ("cast(l.x as array<int>)", "casts to ARRAY<INT> are not evaluated"),
        ("interval 1.5 days", "only seconds have a fraction"),
        ("interval '1:02' day to second", "2 fields given, DAY TO SECOND needs 4"),
        ("l.x like 'a\\\\b'", "a backslash stands before"),
        ("1" * 39, "39 digits, a decimal at most 38"),
        ("cast(1 as decimal(40, 2))", "at most 38 digits"),
        ("struct(1) = struct(1)", "the function struct"),
    ],
)
def test_what_is_refused_says_why(sql: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        value(sql, x=pa.array(["a"]), n=pa.array([1]))


def test_nested_values_do_not_compare_in_process() -> None:
    with pytest.raises(UnsupportedExpressionError, match="compare their fields"):
        value("l.x = l.x", x=pa.array([[1]]))


def test_struct_fields() -> None:
    x = pa.array([{"A": 1, "b": {"c": 2}}, None, {"A": None, "b": None}])
    assert value("l.x.a", x=x).to_pylist() == [1, None, None]
    assert value("l.x.b.c + 1", x=x).to_pylist() == [3, None, None]
    with pytest.raises(SchemaError, match="no single field 'z'; its fields: A, b"):
        value("l.x.z", x=x)


def test_nanoseconds_stay_exact() -> None:
    n = pa.array([1_000_000_001, 1_000_000_999], pa.timestamp("ns"))
    u = pa.array([1_000_000, 1_000_001], pa.timestamp("us"))
    assert value("l.n = l.u", n=n, u=u).to_pylist() == [False, False]
    assert value("l.n > l.u", n=n, u=u).to_pylist() == [True, False]
    shifted = value("l.n + interval 1 second", n=n)
    assert shifted.type == pa.timestamp("ns")
    assert shifted.cast(pa.int64()).to_pylist() == [2_000_000_001, 2_000_000_999]
    assert value("l.n - l.u", n=n, u=u).cast(pa.int64()).to_pylist() == [1, -1]
    assert value("hour(l.n)", n=n).to_pylist() == [0, 0]
    assert value("unix_timestamp(l.n)", n=n).to_pylist() == [1, 1]


def test_time_zones_are_only_a_way_to_write_an_instant() -> None:
    noon = datetime(2020, 1, 1, 12)
    berlin = pa.array([noon], pa.timestamp("us")).cast(pa.timestamp("us", "Europe/Berlin"))
    assert value("l.t = l.n", t=berlin, n=pa.array([noon])).to_pylist() == [True]
    assert value("hour(l.t)", t=berlin).to_pylist() == [12]


def test_timestamps_too_far_for_nanoseconds_are_compared_and_not_computed_with() -> None:
    far, near = pa.array([datetime(9999, 1, 1)]), pa.array([0], pa.timestamp("ns"))
    assert value("l.far > l.near", far=far, near=near).to_pylist() == [True]
    assert value("l.far = l.near", far=far, near=near).to_pylist() == [False]
    with pytest.raises(EvaluationError, match=r"too far from 1970.*cast the nanosecond column"):
        value("l.far - l.near", far=far, near=near)


def test_intervals() -> None:
    assert one("interval '1 02:03:04.5' day to second") == timedelta(1, 4 * 1 + 3 * 60 + 7200.5)
    assert one("interval '-1:30' hour to minute") == -timedelta(minutes=90)
    assert one("interval '1 day 2 hours'") == timedelta(hours=26)
    assert one("interval -5 minutes") == -timedelta(minutes=5)
    assert one("date '2020-01-01' + interval 1 day") == date(2020, 1, 2)


@pytest.mark.parametrize(
    ("sql", "type"),
    [
        ("1", pa.int32()),
        ("2147483648", pa.int64()),
        ("-2147483648", pa.int32()),
        ("-9223372036854775808", pa.int64()),
        ("9223372036854775808", pa.decimal128(19, 0)),
        ("0.05", pa.decimal128(2, 2)),
        ("00.50", pa.decimal128(2, 2)),
        (".5", pa.decimal128(1, 1)),
        ("1.", pa.decimal128(1, 0)),
        ("1e3", pa.float64()),
        ("5D", pa.float64()),
        ("5L", pa.int64()),
        ("1.5F", pa.float32()),
        ("1.50BD", pa.decimal128(3, 2)),
        ("null", pa.null()),
        ("'a'", pa.string()),
        ("true", pa.bool_()),
    ],
)
def test_literals_are_typed_as_sparks_parser_does(sql: str, type: pa.DataType) -> None:
    assert evaluate(parse_expression(sql)).type == type


def test_sliced_batches_give_the_rows_of_the_slice() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"p": pa.array([Decimal("1.5"), None, Decimal("-2.5")]), "s": ["a", "b", None]}
    )
    tree = parse_expression("l.p * 2.0 + 1")
    assert evaluate(tree, batch[1:]).to_pylist() == [None, Decimal("-4.00")]
    assert evaluate(parse_expression("upper(l.s)"), batch[1:]).to_pylist() == ["B", None]


def test_wide_decimals_agree_with_pythons_integers() -> None:
    generator = np.random.default_rng(7)
    whole = [int(x) * 10**12 + int(y) for x, y in generator.integers(-(10**17), 10**17, (50, 2))]
    array = pa.array([Decimal(x) for x in whole], pa.decimal128(38, 0))
    assert value("l.x - 1", x=array).to_pylist() == [Decimal(x - 1) for x in whole]
    assert value("-l.x", x=array).to_pylist() == [Decimal(-x) for x in whole]
    assert value("cast(l.x as double)", x=array).to_pylist() == [float(x) for x in whole]


def test_haversine_distance() -> None:
    sql = """2 * 6371 * asin(sqrt(power(sin(radians(l.b - l.a) / 2), 2)
             + cos(radians(l.a)) * cos(radians(l.b)) * power(sin(radians(l.d - l.c) / 2), 2)))"""
    place = {"a": 52.52, "c": 13.405, "b": 48.8566, "d": 2.3522}
    columns = {name: pa.array([degrees]) for name, degrees in place.items()}
    assert value(sql, **columns)[0].as_py() == pytest.approx(877.46, abs=0.01)
