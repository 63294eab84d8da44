"""Constants: numbers, strings, intervals and the types named in a CAST.

Numbers get the types that Spark's parser gives them: ``0.05`` is decimal(2,2), ``1e3`` double, and
integers are int, bigint or decimal, depending on their size. (Suffixed literals such as ``5D``
arrive as casts.) An interval is an exact number of microseconds; months and years have no fixed
length and are refused.
"""

import re
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from streamjoin.errors import ConditionError, UnsupportedExpressionError
from streamjoin.expressions.datatypes import (
    DATE,
    DOUBLE,
    INSTANT,
    INT32,
    INT64,
    INTERVAL,
    MAX_PRECISION,
    NAIVE,
    STRING,
    integer_range,
)
from streamjoin.expressions.values import Scope, Value, typed

_Type = exp.DataType.Type
_TYPES = {
    _Type.TINYINT: pa.int8(), _Type.SMALLINT: pa.int16(), _Type.INT: INT32, _Type.BIGINT: INT64,
    _Type.FLOAT: pa.float32(), _Type.DOUBLE: DOUBLE, _Type.BOOLEAN: pa.bool_(),
    _Type.TEXT: STRING, _Type.DATE: DATE, _Type.BINARY: pa.binary(), _Type.TIMESTAMPTZ: INSTANT,
    _Type.TIMESTAMPLTZ: INSTANT, _Type.TIMESTAMP: INSTANT, _Type.TIMESTAMPNTZ: NAIVE,
}  # fmt: skip

_MICROS = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 1_000_000, "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
}  # fmt: skip
_CALENDAR = ("MONTH", "YEAR", "QUARTER")
_NUMBER = re.compile(r"\s*([+-]?)\s*([0-9]+(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\s*")
_SPAN_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_SPAN = re.compile(r"\s*([+-]?)((?:[0-9]+)(?:[ :][0-9]{1,2})*(?:\.[0-9]{1,9})?)\s*")


def number(text: str, negative: bool = False) -> tuple[pa.Scalar, int | None]:
    """A number in the type Spark's parser gives it, and its digits if it is an int or bigint."""
    if "e" in text.lower():
        return pa.scalar(-float(text) if negative else float(text), DOUBLE), None
    value = Decimal(text)
    value = value.copy_negate() if negative else value
    if "." not in text:
        for type in (INT32, INT64):
            low, high = integer_range(type)
            if low <= value <= high:
                return pa.scalar(int(value), type), len(str(abs(int(value))))
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    precision = max(len("".join(map(str, digits)).lstrip("0")), 1, scale)
    if precision > MAX_PRECISION:
        raise ConditionError(
            f"the number {text} has {precision} digits, a decimal at most {MAX_PRECISION}; "
            f"write it as a double: {text}D"
        )
    return pa.scalar(value, pa.decimal128(precision, scale)), None


def constant(scalar: pa.Scalar, scope: Scope) -> Value:
    """A scalar on all rows of the scope."""
    return typed(pa.repeat(scalar, scope.rows))


def literal(node: exp.Expression, scope: Scope, negative: bool = False) -> Value:
    """A number or string literal."""
    if node.is_string:
        return constant(pa.scalar(node.this, STRING), scope)
    scalar, digits = number(node.this, negative)
    return Value(pa.repeat(scalar, scope.rows), scalar.type, digits=digits)


def boolean(node: exp.Expression, scope: Scope) -> Value:
    """TRUE or FALSE."""
    return constant(pa.scalar(bool(node.this)), scope)


def null(node: exp.Expression, scope: Scope) -> Value:
    """NULL, which has no type yet."""
    return typed(pa.nulls(scope.rows))


def data_type(node: exp.DataType) -> pa.DataType:
    """The Arrow type that a CAST names."""
    if node.this == _Type.DECIMAL:
        parameters = [int(each.name) for each in node.expressions]
        precision, scale = (*parameters, 10, 0)[:2] if len(parameters) != 1 else (parameters[0], 0)
        if not 0 <= scale <= precision <= MAX_PRECISION:
            raise ConditionError(
                f"{node.sql(dialect='spark')} is not a decimal type; use at most {MAX_PRECISION} "
                "digits, including the scale"
            )
        return pa.decimal128(precision, scale)
    type = _TYPES.get(node.this)
    if type is None or node.expressions:
        raise UnsupportedExpressionError(
            f"casts to {node.sql(dialect='spark')} are not evaluated in process; "
            "docs/guide/conditions.md lists the types that are"
        )
    return type


def interval(node: exp.Expression, scope: Scope) -> Value:
    """``INTERVAL 5 MINUTES``, ``INTERVAL '1 02:03:04' DAY TO SECOND``."""
    micros, whole_days = interval_micros(node)
    if not -(1 << 63) <= micros < 1 << 63:
        raise ConditionError(
            f"{node.sql('spark')}: it is longer than the longest interval, about 290,000 years"
        )
    array = pa.repeat(pa.scalar(micros, INT64), scope.rows).cast(INTERVAL)
    return Value(array, INTERVAL, whole_days=whole_days)


def interval_micros(node: exp.Expression) -> tuple[int, bool]:
    """The length of an interval in microseconds, and whether Spark types it INTERVAL DAY."""
    written = node.sql(dialect="spark")
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal):
        raise UnsupportedExpressionError(
            f"{written}: an interval is a number and a unit, such as INTERVAL 5 MINUTES"
        )
    text = node.this.name
    if isinstance(unit, exp.IntervalSpan):
        return _span(text, unit.this.name.upper(), unit.expression.name.upper(), written)
    words = text.split() if unit is None else [text, unit.name]
    if not words or len(words) % 2:
        raise ConditionError(f"{written}: cannot read the interval; write e.g. INTERVAL 5 MINUTES")
    parts = [_quantity(*pair, written) for pair in zip(words[::2], words[1::2], strict=True)]
    return sum(micros for micros, _ in parts), all(whole_days for _, whole_days in parts)


def _quantity(size: str, unit: str, written: str) -> tuple[int, bool]:
    name = unit.upper().removesuffix("S")
    _refuse_calendar(name, written)
    match = _NUMBER.fullmatch(size)
    if name not in _MICROS or match is None:
        raise ConditionError(f"{written}: cannot read the interval; write e.g. INTERVAL 5 MINUTES")
    number = Decimal(match.group(1) + match.group(2))
    if name != "SECOND" and number != int(number):
        raise ConditionError(f"{written}: only seconds have a fraction; use a smaller unit")
    return int(number * _MICROS[name]), name in ("DAY", "WEEK")


def _refuse_calendar(name: str, written: str) -> None:
    if name in _CALENDAR:
        raise UnsupportedExpressionError(
            f"{written}: months and years differ in length and are not evaluated in process; "
            "use days"
        )


def _span(text: str, first: str, last: str, written: str) -> tuple[int, bool]:
    _refuse_calendar(first, written)
    match = _SPAN.fullmatch(text)
    fields = _SPAN_FIELDS
    if match is None or first not in fields or last not in fields:
        raise ConditionError(
            f"{written}: cannot read the interval; write e.g. INTERVAL '1 02:03:04' DAY TO SECOND"
        )
    sign, body = match.groups()
    names = fields[fields.index(first) : fields.index(last) + 1]
    parts = re.split(r"[ :]", body)
    if len(parts) != len(names):
        raise ConditionError(
            f"{written}: {len(parts)} fields given, {first} TO {last} needs {len(names)}"
        )
    micros = sum(Decimal(part) * _MICROS[name] for part, name in zip(parts, names, strict=True))
    return int(-micros if sign == "-" else micros), names == ("DAY",)
