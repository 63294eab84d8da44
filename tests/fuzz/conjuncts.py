"""Draws conjuncts: comparisons in every spelling that recognition knows, and some it does not.

A `Term` is an expression in Spark's SQL, which streamjoin reads too, and the same for DuckDB where
that can be said without knowing what Spark would do: whole numbers as HUGEINT, decimals as
DECIMAL(38, 12), which hold the results exactly, and times as whole nanoseconds. What Spark rounds,
shortens or casts by rules of its own has no text for DuckDB, and only Spark judges it; columns that
Spark does not have are DuckDB's alone.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random

from .rows import FACTORS, Column, Measures

SCALE = 12
OPERATORS = ["<", "<=", ">", ">="]
OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}
WAYS = [1, 1, 3, 2, 2, 2, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1]  # weights of the spellings in `draw_band`
WHOLE_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
HAS_EQUALITY = re.compile(r"<>|(?<![<>])=")  # be it within NOT, which may meet another
MICROSECONDS = {"week": 7 * 86_400_000_000, "day": 86_400_000_000, "hour": 3_600_000_000,
                "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000,
                "microsecond": 1}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """A value: its text for Spark and for DuckDB, None where only the other can say."""

    sql: str | None
    duck: str | None
    kind: str  # integer, decimal, float, double, moment, date, span, text, ...
    digits: tuple[int, int] = (0, 0)  # precision and scale of integers and decimals
    text: str = ""  # as streamjoin reads it; else `sql`
    overflows: bool = False  # whether Spark may raise over extreme values

    @property
    def read(self) -> str:
        return self.text or self.sql or ""

    @property
    def is_exact(self) -> bool:
        return self.kind in ("integer", "decimal")

    def as_decimal(self) -> str | None:
        if self.duck is None or self.digits[1] > SCALE or self.digits[0] - self.digits[1] > 25:
            return None
        return f"({self.duck})::DECIMAL(38,{SCALE})"

    def as_double(self) -> str | None:
        if self.duck is None or self.kind == "double":
            return self.duck
        if self.kind == "float":
            return f"({self.duck})::DOUBLE"
        return f"({self.duck})::VARCHAR::DOUBLE"  # rounds once; a decimal's own cast may twice


@dataclass(frozen=True)
class Conjunct:
    """A condition that is part of a conjunction, as templates with ``{l0}`` for a column."""

    text: str
    spark: str | None
    duck: str | None
    columns: tuple[str, ...]
    is_equality: bool = False  # written as = or <=> between the sides: it cuts sessions
    overflows: bool = False  # whether Spark may raise over extreme values
    distance: Term | None = None  # what keep="nearest" goes by if this is the only range
    is_simple: bool = False  # a column against another or a value: nothing to go by beside others


def both(form: str, *terms: str | None) -> str | None:
    return None if None in terms else form.format(*terms)


def column(each: Column) -> Term:
    """A column, as it reaches the oracles: temporal ones as whole numbers for DuckDB."""
    hole = "{" + each.key + "}"
    kind, type = "text" if each.kind == "digits" else each.kind, each.type
    if kind == "integer":
        digits = WHOLE_DIGITS[type.bit_width]
        return Term(hole, f"{hole}::HUGEINT", kind, (digits, 0))
    if kind == "decimal":
        term = Term(hole, hole, kind, (type.precision, type.scale))
        return Term(hole, term.as_decimal(), kind, term.digits)
    if kind in ("timestamp", "duration", "time"):
        duck = f"({hole}::HUGEINT * {FACTORS[type.unit]})"
        finer = type.unit == "ns" or kind == "time"
        name = {"timestamp": "moment", "duration": "span", "time": "clock"}[kind]
        return Term(None if finer else hole, duck, name, text=hole)
    if kind == "date":
        return Term(hole, f"({hole}::HUGEINT * {FACTORS['us'] * 86_400_000_000})", "date")
    return Term(hole, hole, kind)


def literal(dice: Random, value: Decimal) -> Term:
    """A number in one of the ways to write it."""
    whole = value == value.to_integral_value()
    number = int(value) if whole else 0
    sign = "-" if value < 0 else ""
    plain = f"{value:f}"
    digits = len(plain.lstrip("-").replace(".", "").lstrip("0")) or 1
    decimals = value.as_tuple().exponent
    assert isinstance(decimals, int)  # it is finite
    scale = max(0, -decimals)
    exact = (max(digits, scale), scale)
    double = f"{float(value)!r}::DOUBLE"
    _, figures, exponent = value.normalize().as_tuple()
    scientific = f"{sign}{''.join(map(str, figures))}e{exponent}"
    wide = (20 if abs(value) >= 2**31 else 10, 0)
    ways: list[Callable[[], Term]] = [
        lambda: Term(scientific, double, "double"),
        lambda: Term(f"{plain}D", double, "double"),
        lambda: Term(f"cast({plain} as double)", double, "double"),
        lambda: Term(f"{plain}F", None, "float"),
        lambda: Term(f"{plain}BD", f"{plain}::DECIMAL(38,{SCALE})", "decimal", exact),
    ]
    if whole:
        duck = f"{number}::HUGEINT"
        ways += [
            lambda: Term(str(number), duck, "integer", wide),
            lambda: Term(str(number), duck, "integer", wide),
            lambda: Term(f"{number}L", duck, "integer", (20, 0)),
            lambda: Term(f"({number - 1} + 1)", duck, "integer", wide),
            lambda: Term(f"{number}.0", f"{number}.0::DECIMAL(38,{SCALE})", "decimal", (21, 1)),
            lambda: Term(f"{sign}({abs(number)})", duck, "integer", wide),
            lambda: Term(f"({2 * number} / 2)", double, "double"),
        ]
    else:
        duck = f"{plain}::DECIMAL(38,{SCALE})"
        ways += [
            lambda: Term(plain, duck, "decimal", exact),
            lambda: Term(plain, duck, "decimal", exact),
            lambda: Term(plain + "0", duck, "decimal", (exact[0] + 1, exact[1] + 1)),
            lambda: Term(f"({value - 1:f} + 1)", duck, "decimal", (exact[0] + 3, exact[1])),
        ]
    return dice.choice(ways)()


def interval(dice: Random, microseconds: int) -> Term:
    """A duration in one of the ways to write it; DuckDB gets its nanoseconds."""
    size, sign = abs(microseconds), "-" if microseconds < 0 else ""
    units = [unit for unit, length in MICROSECONDS.items() if size % length == 0]
    unit = dice.choice(units)
    amount = f"{sign}{size // MICROSECONDS[unit]}"
    days, rest = divmod(size, 86_400_000_000)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds = f"{rest // 1_000_000:02d}.{rest % 1_000_000:06d}"
    ways = [
        f"interval '{amount}' {unit}",
        f"interval {amount} {unit}s",
        f"interval '{amount} {unit}s'",
        f"interval '{sign}{days} days {sign}{hours} hours {sign}{minutes} minutes "
        f"{sign}{seconds} seconds'",
        f"interval '{sign}{days} {hours:02d}:{minutes:02d}:{seconds}' day to second",
    ]
    kind = "span"
    text = dice.choice(ways[:3] if dice.random() < 0.7 else ways)
    if unit in ("day", "week") and "hours" not in text and "to second" not in text:
        kind = "days"  # a date plus whole days is a date
    if microseconds and dice.random() < 0.1:
        text = f"interval {-int(amount)} {unit}s"
        return Term(f"(- {text})", f"{microseconds * 1000}", "span")
    return Term(text, f"{microseconds * 1000}", kind)


def arithmetic(sign: str, a: Term, b: Term) -> Term:
    """``a + b`` or ``a - b``."""
    sql, text = both(f"{{}} {sign} {{}}", a.sql, b.sql), f"{a.read} {sign} {b.read}"
    if a.kind in ("moment", "date", "span", "days", "clock"):
        kind = a.kind if b.kind in ("span", "days", "integer") else "span"
        if a.kind == "date" and b.kind == "span":
            kind = "moment"
        duck = both(f"({{}} {sign} {{}})", a.duck, b.duck)
        return Term(sql, duck, kind, text=text)
    if a.is_exact and b.is_exact:
        scale = max(a.digits[1], b.digits[1])
        digits = max(a.digits[0] - a.digits[1], b.digits[0] - b.digits[1]) + scale + 1
        if a.kind == b.kind == "integer":
            duck = both(f"({{}} {sign} {{}})", a.duck, b.duck)
            return Term(sql, duck, "integer", (20, 0), text, overflows=True)
        duck = both(f"({{}} {sign} {{}})", a.as_decimal(), b.as_decimal()) if digits <= 38 else None
        return Term(sql, duck, "decimal", (min(digits, 38), scale), text, digits > 38)
    if a.kind == b.kind == "float":
        return Term(sql, both(f"({{}} {sign} {{}})", a.duck, b.duck), "float", text=text)
    if "double" in (a.kind, b.kind) and {a.kind, b.kind} <= {
        "double",
        "float",
        "integer",
        "decimal",
    }:
        return Term(
            sql, both(f"({{}} {sign} {{}})", a.as_double(), b.as_double()), "double", text=text
        )
    return Term(sql, None, "other", text=text)


def absolute(a: Term) -> Term:
    sql = both("abs({})", a.sql)
    return Term(sql, both("abs({})", a.duck), a.kind, a.digits, f"abs({a.read})", a.overflows)


def comparable(a: Term, b: Term) -> tuple[str | None, str | None]:
    """Both for DuckDB, in the type that Spark compares them in; None if that is Spark's to say."""
    times = ("moment", "date")
    if a.kind == b.kind or {a.kind, b.kind} <= {"span", "days"} or {a.kind, b.kind} <= {*times}:
        if a.kind == "decimal":
            whole = max(a.digits[0] - a.digits[1], b.digits[0] - b.digits[1])
            if whole + max(a.digits[1], b.digits[1]) > 38:
                return None, None
            return a.as_decimal(), b.as_decimal()
        return a.duck, b.duck
    if a.is_exact and b.is_exact:
        return a.as_decimal(), b.as_decimal()
    numbers = ("integer", "decimal", "double", "float")
    if a.kind in numbers and b.kind in numbers:
        return a.as_double(), b.as_double()
    return None, None


def compare(operator: str, a: Term, b: Term) -> Conjunct:
    one, other = comparable(a, b)
    duck = both(f"({{}} {operator} {{}})", one, other)
    if operator == "<=>":
        duck = both("({} is not distinct from {})", one, other)
    sql = both(f"({{}} {operator} {{}})", a.sql, b.sql)
    overflows = a.overflows or b.overflows
    return Conjunct(f"{a.read} {operator} {b.read}", sql, duck, (), overflows=overflows)


def between(a: Term, low: Term, high: Term, negated: bool = False) -> Conjunct:
    first, second = compare(">=", a, low), compare("<=", a, high)
    word = "not between" if negated else "between"
    duck = both("({} and {})", first.duck, second.duck)
    return Conjunct(
        f"{a.read} {word} {low.read} and {high.read}",
        both(f"({{}} {word} {{}} and {{}})", a.sql, low.sql, high.sql),
        both("(not {})", duck) if negated else duck,
        (),
        overflows=first.overflows or second.overflows,
    )


def combine(form: str, *parts: Conjunct) -> Conjunct:
    """Several conditions in one, by a form that Spark and DuckDB read alike."""
    return Conjunct(
        form.format(*(part.text for part in parts)),
        both(form, *(part.spark for part in parts)),
        both(form, *(part.duck for part in parts)),
        (),
        overflows=any(part.overflows for part in parts),
    )


def draw_conjunct(dice: Random, left: Column, right: Column, measures: Measures) -> Conjunct:
    """A conjunct about a column of each side."""
    kind = family(left.kind), family(right.kind)
    if kind == ("number", "number"):
        drawn = draw_band(dice, left, right, lambda: draw_number(dice, measures))
    elif left.kind == right.kind == "date":
        drawn = draw_band(dice, left, right, lambda: draw_days(dice), lambda: draw_shift(dice))
    elif kind in (("moment", "moment"), ("duration", "duration")):
        drawn = draw_band(dice, left, right, lambda: interval(dice, draw_span(dice, measures)))
    elif kind == ("text", "text") and dice.random() < 0.4:
        drawn = draw_text(dice, left, right)
    else:
        drawn = draw_plain(dice, left, right)
    if dice.random() < 0.12:
        drawn = draw_combination(dice, drawn, draw_conjunct(dice, left, right, measures))
    return replace(drawn, columns=(left.key, right.key))


def draw_combination(dice: Random, one: Conjunct, other: Conjunct) -> Conjunct:
    """Both in one; what holds an equality is no conjunct with AND, lest it cut sessions unseen."""
    forms = ["({} or {})", "(not ({} and {}))", "(case when {} then {} else false end)",
             "(coalesce({}, false) or {})"]  # fmt: skip
    if not any(part.is_equality or HAS_EQUALITY.search(part.text) for part in (one, other)):
        forms += ["(not {} and {})", "({} and not {})"]
    return combine(dice.choice(forms), one, other)


def family(kind: str) -> str:
    if kind in ("integer", "decimal", "double", "float"):
        return "number"
    return {"timestamp": "moment", "date": "moment", "digits": "text"}.get(kind, kind)


def draw_number(dice: Random, measures: Measures) -> Term:
    if dice.random() < 0.25:
        return literal(dice, Decimal(0))
    return literal(
        dice, dice.choice([*measures.steps, *measures.steps, Decimal(0), -measures.steps[0]])
    )


def draw_span(dice: Random, measures: Measures) -> int:
    if dice.random() < 0.25:
        return 0
    return dice.choice([*measures.spans, *measures.spans, 0, -measures.spans[0]])


def draw_days(dice: Random) -> Term:
    """What two dates differ by."""
    return interval(dice, dice.choice([0, 1, 2, -1]) * 86_400_000_000)


def draw_shift(dice: Random) -> Term:
    """What a date is moved by."""
    if dice.random() < 0.5:
        return draw_days(dice)
    days = dice.choice([0, 1, 2, -1])
    return Term(str(days), f"{days * 86_400_000_000_000}", "integer", (10, 0))


def draw_band(
    dice: Random,
    left: Column,
    right: Column,
    limit: Callable[[], Term],
    shift: Callable[[], Term] | None = None,
) -> Conjunct:
    """Two columns whose difference is bounded, in one of many spellings."""
    shift = shift or limit
    a, b = column(left), column(right)
    if dice.random() < 0.4:
        a, b = b, a
    operator, way = dice.choice(OPERATORS), dice.choices(range(16), WAYS)[0]
    shifted = arithmetic(dice.choice("+-"), b, shift())
    if way == 0:
        return replace(equality(dice.choice(["=", "=", "<=>"]), a, b), is_simple=True)
    if way == 1:
        return equality("=", a, shifted)
    if way == 2:
        return replace(compare(operator, a, b), distance=difference(a, b))
    if way in (3, 4):
        return replace(compare(operator, a, shifted), distance=difference(a, shifted))
    if way in (5, 6):
        operator = dice.choice(["<=", "<=", "<", ">", ">=", "=", "<>"])
        near = absolute(arithmetic("-", a, b))
        if dice.random() < 0.2:
            band = compare(OPPOSITE[operator], limit(), near)
        else:
            band = compare(operator, near, limit())
        return band if operator == "<>" else replace(band, distance=difference(a, b))
    if way == 7:
        operator = dice.choice([*OPERATORS, "=", "<>"])
        band = compare(operator, arithmetic("-", a, b), limit())
        return band if operator == "<>" else replace(band, distance=difference(a, b))
    if way == 8:
        is_negated = dice.random() < 0.2
        band = between(arithmetic("-", a, b), limit(), limit(), is_negated)
        return band if is_negated else replace(band, distance=difference(a, b))
    if way in (9, 10, 11):
        low, high = arithmetic("-", b, shift()), arithmetic("+", b, shift())
        is_negated = dice.random() < 0.15
        band = between(a, low, high, is_negated)
        return band if is_negated else replace(band, distance=difference(a, b))
    if way == 12:
        return compare("<>", a, b if dice.random() < 0.6 else shifted)
    if way == 13:
        moved = arithmetic("+", a, shift())
        return replace(compare(operator, moved, shifted), distance=difference(moved, shifted))
    if way == 14:
        other = compare(dice.choice(OPERATORS), a, arithmetic("+", b, shift()))
        return combine("({} or {})", compare(operator, a, shifted), other)
    if dice.random() < 0.5:
        return replace(negate(compare("<>", a, b)), is_equality=True)
    return negate(compare(operator, a, shifted))


def difference(a: Term, b: Term) -> Term | None:
    """How far two sides of a comparison are apart, as far as DuckDB can tell."""
    one, other = comparable(a, b)
    if one is None or other is None or "float" in (a.kind, b.kind):
        return None
    return Term(None, f"abs({one} - {other})", "", text=f"abs({a.read} - {b.read})")


def draw_distance(dice: Random, left: Column, right: Column) -> Term | None:
    """What keep="nearest" is told to go by: the difference of two columns, or one of these."""
    kinds = {family(left.kind), family(right.kind)}
    if kinds not in ({"number"}, {"moment"}, {"duration"}) or {left.kind, right.kind} == {
        "date",
        "timestamp",
    }:
        return None
    a, b = column(left), column(right)
    if "moment" not in kinds and dice.random() < 0.1:
        chosen = dice.choice([a, b])
    else:
        chosen = arithmetic("-", *dice.sample([a, b], 2))
        chosen = absolute(chosen) if dice.random() < 0.85 else chosen
    return None if chosen.duck is None else chosen


def negate(part: Conjunct) -> Conjunct:
    return combine("not ({})", part)


def equality(operator: str, a: Term, b: Term) -> Conjunct:
    return replace(compare(operator, a, b), is_equality=True)


def draw_plain(dice: Random, left: Column, right: Column) -> Conjunct:
    """A comparison without arithmetic, of types that may differ."""
    a, b = column(left), column(right)
    if dice.random() < 0.3:
        a, b = b, a
    operator = dice.choice(["=", "=", "<=>", "<>", *OPERATORS])
    if operator in ("=", "<=>"):
        return equality(operator, a, b)
    return compare(operator, a, b)


def draw_text(dice: Random, left: Column, right: Column) -> Conjunct:
    """Functions of text."""
    a, b = column(left), column(right)
    sql, is_equality = dice.choice([
        ("length({}) = length({})", True),
        ("upper({}) = upper({})", True),
        ("length({}) - length({}) between -1 and 1", False),
        ("substring({}, 1, 2) = substring({}, 1, 2)", True),
        ("length({}) < length({}) + 2", False),
        ("startswith({}, {})", False),
        ("{} || {} like 'a%'", False),
        ("concat({}, {}) <> 'aa'", False),
        ("lower({}) < {}", False),
    ])  # fmt: skip
    text = sql.format(a.sql, b.sql)
    return Conjunct(text, text, None, (), is_equality)


def draw_filter(dice: Random, each: Column, measures: Measures) -> Conjunct:
    """A condition on one side."""
    a = column(each)
    ways = [Conjunct(f"{a.read} is not null", both("({} is not null)", a.sql),
                     both("({} is not null)", a.duck), ())]  # fmt: skip
    ways.append(Conjunct(f"{a.read} is null", both("({} is null)", a.sql),
                         both("({} is null)", a.duck), ()))  # fmt: skip
    if family(each.kind) == "number":
        value = dice.choice(measures.bases)
        ways += 3 * [compare(dice.choice([*OPERATORS, "=", "<>"]), a, literal(dice, value))]
    if each.kind == "text":
        ways.append(
            Conjunct(f"{a.sql} like 'a%'", f"({a.sql} like 'a%')", f"({a.sql} like 'a%')", ())
        )
        ways.append(Conjunct(f"{a.sql} in ('a', 'ab')", f"({a.sql} in ('a', 'ab'))",
                             f"({a.sql} in ('a', 'ab'))", ()))  # fmt: skip
    if each.kind == "boolean":
        ways += [
            Conjunct(a.sql or "", a.sql, a.duck, ()),
            negate(Conjunct(a.sql or "", a.sql, a.duck, ())),
        ]
    if each.kind == "double":
        ways.append(
            Conjunct(f"isnan({a.sql})", f"isnan({a.sql})", f"coalesce(isnan({a.sql}), false)", ())
        )
    drawn = dice.choice(ways)
    return replace(drawn, columns=(each.key,), is_simple=True)
