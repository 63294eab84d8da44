"""``+ - * / % div``, negation and bits on numbers, as Spark computes them in ANSI mode.

Integers are computed in int64, whatever their width: where Spark raises because ``int + int`` does
not fit int, the answer here is the exact sum. Beyond int64 there is no answer. ``/`` is always
floating point or decimal; ``%`` takes the sign of the dividend. Kernels give NULL where there is no
answer, which is what ``try_add`` and its kin return; the plain operators raise.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.expressions import decimals
from streamjoin.expressions.casts import cast
from streamjoin.expressions.coercion import coerce, common_type
from streamjoin.expressions.datatypes import (
    DOUBLE,
    INT64,
    as_decimal,
    integer_range,
    is_numeric,
    kind,
    name,
)
from streamjoin.expressions.functions import temporal
from streamjoin.expressions.values import (
    Mask,
    Numbers,
    TypeMismatchError,
    Value,
    demand,
    from_numbers,
    nulls_of,
    numbers,
    typed,
)

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_PYTHON: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def binary(operator: str, safe: bool = False) -> Callable[[Value, Value], Value]:
    """The function of ``+ - * / %``; with ``safe``, of try_add and its kin."""

    def operate(a: Value, b: Value) -> Value:
        if not safe:
            answer = temporal.binary(operator, a, b)
            if answer is not None:
                return answer
        return calculate(operator, a, b, safe)

    return operate


def calculate(operator: str, a: Value, b: Value, safe: bool = False) -> Value:
    """``a operator b`` on numbers (and strings and NULL, which become numbers)."""
    a, b = operands(operator, a, b)
    kinds = {kind(a.type), kind(b.type)}
    if "floating" in kinds or (operator == "/" and "decimal" not in kinds):
        result = _floating(operator, a, b)
    elif "decimal" in kinds:
        x = coerce(a, as_decimal(a.type, a.digits))
        y = coerce(b, as_decimal(b.type, b.digits))
        result = typed(decimals.calculate(operator, x, y))
    else:
        result = _integers(operator, a, b, safe)
    if not safe:
        demand(result.array, [a.array, b.array], lambda row: _no_answer(operator, b.array, row))
    return result


def operands(operator: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Both as numbers: strings become bigint or double by the other side, NULL its type."""
    type = common_type(a.type, b.type)
    if type is not None and kind(type) in ("string", "null"):
        type = DOUBLE
    if type is None or not is_numeric(type):
        raise TypeMismatchError(
            f"{name(a.type)} {operator} {name(b.type)} is not defined; cast to a number"
        )

    def as_number(value: Value) -> Value:
        if is_numeric(value.type):
            return value
        return typed(coerce(value, type))

    return as_number(a), as_number(b)


def _floating(operator: str, a: Value, b: Value) -> Value:
    single = operator != "/" and a.type == b.type == pa.float32()
    type = pa.float32() if single else DOUBLE
    x, y = numbers(coerce(a, type)), numbers(coerce(b, type))
    missing = nulls_of(a.array, b.array)
    with np.errstate(all="ignore"):
        if operator in _PYTHON:
            return typed(from_numbers(_PYTHON[operator](x, y), missing))
        zero = y == 0
        values = x / y if operator == "/" else np.fmod(x, y)
    return typed(from_numbers(values, missing | zero))


def _integers(operator: str, a: Value, b: Value, safe: bool) -> Value:
    type = common_type(a.type, b.type)
    x, y = cast(a.array, INT64), cast(b.array, INT64)
    if operator == "%":
        return Value(_remainder(x, y), type)
    array = checked(operator, x, y)
    if safe and type != INT64:
        # try_add goes by the declared width: NULL, as in Spark, where int + int overflows int.
        low, high = integer_range(type)
        values = numbers(array)
        array = from_numbers(values, nulls_of(array) | (values < low) | (values > high))
    return Value(array, type)


def checked(operator: str, a: pa.Array, b: pa.Array) -> pa.Array:
    """``+ - *`` on int64 arrays; NULL where the result overflows."""
    try:
        return _CHECKED[operator](a, b)
    except pa.ArrowInvalid:
        exact = _PYTHON[operator](numbers(a).astype(object), numbers(b).astype(object))
        return _fitting(exact, nulls_of(a, b))


def _fitting(exact: Numbers, missing: Mask) -> pa.Array:
    """int64 from Python integers; NULL where one does not fit."""
    low, high = integer_range(INT64)
    outside = ((exact < low) | (exact > high)).astype(np.bool_)
    return from_numbers(np.where(outside, 0, exact).astype(np.int64), missing | outside)


def _remainder(a: pa.Array, b: pa.Array) -> pa.Array:
    divisor = numbers(b)
    zero = divisor == 0
    # -1 divides everything, and the least int64 % -1 is undefined in hardware.
    divisor = np.where(zero | (divisor == -1), 1, divisor)
    return from_numbers(np.fmod(numbers(a), divisor), nulls_of(a, b) | zero)


def integral_division(a: Value, b: Value) -> Value:
    """``a div b``: the quotient without its fraction, a bigint."""
    a, b = operands("div", a, b)
    if "floating" in (kind(a.type), kind(b.type)):
        raise TypeMismatchError("div takes integers and decimals; use floor(a / b) or cast")
    x, y = _exact_integers(a), _exact_integers(b)
    if kind(a.type) == "decimal" or kind(b.type) == "decimal":
        scale = max(as_decimal(a.type).scale, as_decimal(b.type).scale)
        x = _scaled(a, scale)
        y = _scaled(b, scale)
    zero = (y == 0).astype(np.bool_)
    divisor = np.where(zero, 1, y)
    size = np.abs(x) // np.abs(divisor)
    quotient = np.where((x < 0) == (divisor < 0), size, -size)
    array = _fitting(quotient, nulls_of(a.array, b.array) | zero)
    return typed(demand(array, [a.array, b.array], lambda row: _no_answer("/", b.array, row)))


def _exact_integers(value: Value) -> Numbers:
    if kind(value.type) == "decimal":
        return decimals.unscaled(value.array).astype(object)
    return numbers(value.array).astype(object)


def _scaled(value: Value, scale: int) -> Numbers:
    own = value.type.scale if kind(value.type) == "decimal" else 0
    scaled: Numbers = _exact_integers(value) * 10 ** (scale - own)
    return scaled


def _no_answer(operator: str, divisor: pa.Array, row: int) -> str:
    if operator in ("/", "%") and divisor[row].as_py() == 0:
        return (
            "division by zero; Spark raises here too. Use try_divide, or nullif on the divisor, "
            "to get NULL instead"
        )
    return (
        "the result overflows its type; Spark raises here too. Cast an operand to decimal(38,0) or "
        f"double, or use {_TRY[operator]} to get NULL instead"
    )


def negative(a: Value) -> Value:
    """``-a``."""
    return _signed(a, lambda values: -values, "-")


def absolute(a: Value) -> Value:
    """``abs(a)``."""
    return _signed(a, np.abs, "abs")


def positive(a: Value) -> Value:
    """``+a``."""
    return _signed(a, lambda values: values, "+")


def _signed(a: Value, change: Callable[[Numbers], Numbers], function: str) -> Value:
    family = kind(a.type)
    if family in ("string", "null"):
        a, family = typed(cast(a.array, DOUBLE)), "floating"
    missing = nulls_of(a.array)
    if family == "interval":
        ticks = numbers(a.array.cast(INT64))
        array = from_numbers(change(ticks), missing).cast(a.array.type)
        return Value(array, a.type, whole_days=a.whole_days)
    if family == "decimal":
        return typed(decimals.from_unscaled(change(decimals.unscaled(a.array)), missing, a.type))
    if family == "floating":
        return typed(from_numbers(change(numbers(a.array)), missing))
    if family != "integer":
        raise TypeMismatchError(
            f"{function} is not defined for {name(a.type)}; it takes a number or interval"
        )
    values = numbers(a.array).astype(np.int64)
    least = (values == integer_range(INT64)[0]) & ~missing
    array = from_numbers(change(values), missing | (least if function != "+" else False))
    return Value(demand(array, [a.array], lambda row: _no_answer("-", a.array, row)), a.type)


def bits(operation: Callable[[Numbers, Numbers], Numbers]) -> Callable[[Value, Value], Value]:
    """``& | ^`` on integers."""

    def operate(a: Value, b: Value) -> Value:
        type = common_type(a.type, b.type)
        if type is None or kind(type) != "integer":
            raise TypeMismatchError(
                f"bits of {name(a.type)} and {name(b.type)} do not combine; cast to bigint"
            )
        x, y = cast(a.array, INT64), cast(b.array, INT64)
        return Value(from_numbers(operation(numbers(x), numbers(y)), nulls_of(x, y)), type)

    return operate
