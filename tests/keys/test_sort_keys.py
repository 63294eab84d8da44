"""Sort keys order values as Spark does, for every type, sliced or not, NULLs or not."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.keys.key_ranges import (
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    decode_double,
    encode_double,
)
from streamjoin.keys.sort_keys import encode, encode_doubles, key_type

EPOCH = datetime(1970, 1, 1)
TINY = 5e-324  # the least subnormal
DOUBLES = [
    -inf, -1.7976931348623157e308, -1e16, -1.0, -0.1, -2.2250738585072014e-308, -TINY,
    0.0, TINY, 2.2250738585072014e-308, 0.1, 0.1 + 0.2, 1.0, 1e16, 1.7976931348623157e308, inf, nan,
]  # fmt: skip
MOMENTS = [
    datetime(1, 1, 1), datetime(1677, 9, 22), datetime(1969, 12, 31, 23, 59, 59), EPOCH,
    datetime(2024, 2, 29, 12), datetime(2262, 4, 11),
]  # fmt: skip
NANO_MOMENTS = MOMENTS[1:]
DAYS = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]

# Each type with strictly ascending values.
ASCENDING = {
    "bool": (pa.bool_(), [False, True]),
    "int8": (pa.int8(), [-128, -1, 0, 127]),
    "int16": (pa.int16(), [-(2**15), 0, 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "int64": (pa.int64(), [MIN_KEY, -1, 0, 1, MAX_KEY]),
    "uint8": (pa.uint8(), [0, 127, 128, 255]),
    "uint16": (pa.uint16(), [0, 2**15, 2**16 - 1]),
    "uint32": (pa.uint32(), [0, 2**31, 2**32 - 1]),
    "float32": (pa.float32(), [-inf, -1.5, -1e-45, 0.0, 1e-45, 0.1, 3.4e38, inf, nan]),
    "float64": (pa.float64(), DOUBLES),
    "decimal": (pa.decimal128(18, 2), [Decimal(text) for text in
                ("-9999999999999999.99", "-1.00", "-0.01", "0", "0.01", "9999999999999999.99")]),
    "decimal256": (pa.decimal256(18, 2), [Decimal("-1.00"), Decimal("0.00"), Decimal("1.00")]),
    "decimal, no digits behind": (pa.decimal128(5, 0), [Decimal(-99999), Decimal(0), Decimal(1)]),
    "date32": (pa.date32(), DAYS),
    "date64": (pa.date64(), DAYS),
    "timestamp s": (pa.timestamp("s"), MOMENTS),
    "timestamp ms": (pa.timestamp("ms"), MOMENTS),
    "timestamp us": (pa.timestamp("us"), MOMENTS),
    "timestamp ns": (pa.timestamp("ns"), NANO_MOMENTS),
    "timestamp with zone": (pa.timestamp("us", "Europe/Berlin"),
                            [moment.replace(tzinfo=UTC) for moment in MOMENTS[1:]]),
    "duration": (pa.duration("ms"), [timedelta(-3), timedelta(0), timedelta(milliseconds=1)]),
    "time32 s": (pa.time32("s"), [time(0), time(0, 0, 1), time(23, 59, 59)]),
    "time32 ms": (pa.time32("ms"), [time(0), time(0, 0, 0, 1000), time(23, 59, 59)]),
    "time64 us": (pa.time64("us"), [time(0), time(0, 0, 0, 1), time(23, 59, 59, 999999)]),
    "time64 ns": (pa.time64("ns"), [time(0), time(0, 0, 0, 1), time(23, 59, 59, 999999)]),
}  # fmt: skip
every_type = pytest.mark.parametrize(("kind", "values"), ASCENDING.values(), ids=ASCENDING.keys())


@every_type
def test_keys_ascend_as_the_values_do(kind, values):
    keys = encode(pa.array(values, kind))
    assert keys.dtype == np.int64
    assert np.all(keys[:-1] < keys[1:])


@every_type
def test_equal_values_have_equal_keys(kind, values):
    once = encode(pa.array(values, kind))
    assert np.array_equal(encode(pa.array(values * 2, kind)), np.concatenate([once, once]))


@every_type
def test_slices_with_an_offset(kind, values):
    keys = encode(pa.array(values, kind))
    array = pa.array([values[0], *values, values[-1]], kind)
    assert np.array_equal(encode(array.slice(1, len(values))), keys)
    assert np.array_equal(encode(array.slice(2)), encode(pa.array([*values[1:], values[-1]], kind)))


@every_type
def test_nulls_change_no_other_key(kind, values):
    keys = encode(pa.array(values, kind))
    array = pa.array([None, *(each for value in values for each in (value, None))], kind)
    assert np.array_equal(encode(array)[1::2], keys)
    assert np.array_equal(encode(array.slice(3))[0::2], keys[1:])
    assert encode(pa.array([None, None], kind)).size == 2


@every_type
def test_no_rows(kind, values):
    assert encode(pa.array([], kind)).size == 0
    assert encode(pa.array(values, kind).slice(1, 0)).size == 0


@every_type
def test_every_listed_type_has_a_key(kind, values):
    assert key_type(kind) is not None


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.binary(), pa.uint64(), pa.decimal128(19, 2), pa.list_(pa.int8()), pa.null()],
    ids=str,
)
def test_types_that_no_int64_orders(kind):
    assert key_type(kind) is None


@pytest.mark.parametrize(
    ("kind", "per_unit", "per_second"),
    [
        (pa.int32(), 1, None),
        (pa.decimal128(10, 3), 1000, None),
        (pa.date32(), 1, Fraction(1, 86_400)),
        (pa.timestamp("s"), 1, 1),
        (pa.timestamp("ns"), 1, 10**9),
        (pa.duration("ms"), 1, 1000),
    ],
    ids=str,
)
def test_units_of_a_key(kind, per_unit, per_second):
    assert key_type(kind).per_unit == per_unit
    assert key_type(kind).per_second == per_second


def test_exact_keys_keep_differences():
    assert np.diff(encode(pa.array([date(1969, 12, 30), date(1970, 1, 2)]))).tolist() == [3]
    cents = pa.array([Decimal("-0.03"), Decimal("1.50")], pa.decimal128(10, 2))
    assert encode(cents).tolist() == [-3, 150]
    ticks = pa.array([datetime(1969, 12, 31, 23, 59, 59)], pa.timestamp("ms"))
    assert encode(ticks).tolist() == [-1000]


def test_every_nan_is_one_key_and_the_zeros_are_equal():
    payloads = np.array([0x7FF8000000000001, -0x0007FFFFFFFFFFFF, 0x7FF0000000000001], np.int64)
    assert encode(pa.array(payloads.view(np.float64))).tolist() == [NAN] * 3
    assert encode(pa.array([-0.0, 0.0])).tolist() == [0, 0]
    assert encode(pa.array([-inf, inf])).tolist() == [NEGATIVE_INFINITY, POSITIVE_INFINITY]


@given(st.lists(st.floats(), min_size=1, max_size=30))
def test_the_kernel_encodes_a_double_like_the_array_function(values):
    keys = encode_doubles(np.array(values))
    for value, key in zip(values, keys, strict=True):
        assert encode_double(value) == key
        assert repr(float(decode_double(key)) + 0.0) == repr(float(value) + 0.0).lstrip("+")


@settings(max_examples=200)
@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_doubles_compare_like_their_keys(one, other):
    first, second = encode(pa.array([one, other])).tolist()
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)


@given(st.lists(st.one_of(st.none(), st.decimals(-(10**12), 10**12, places=4)), max_size=20))
def test_decimals_have_their_unscaled_value(values):
    keys = encode(pa.array(values, pa.decimal128(18, 4)))
    for key, value in zip(keys.tolist(), values, strict=True):
        assert value is None or key == int(value.scaleb(4))
