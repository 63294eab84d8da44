"""Parses SQL text into a tree in which every column has its side and its exact name.

``qualify`` turns ``Price > r.price`` into ``l.price > r.price``. Like Spark by default, it ignores
the case of names; an exact match wins. A field of a struct, ``l.a.b``, becomes a `Dot` over the
column ``l.a``.
"""

import difflib
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from streamjoin.errors import ConditionError, SchemaError
from streamjoin.expressions.depth import balance, check_brackets, check_depth, retry_deep

SIDES = ("l", "r")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`""", re.DOTALL)


@retry_deep
def parse_expression(sql: str) -> exp.Expression:
    """The tree of a scalar SQL expression in Spark's dialect, the caller's to change."""
    return _parse(sql).copy()


@lru_cache(maxsize=256)  # a join reads its condition, and parts of it, some twenty times
def _parse(sql: str) -> exp.Expression:
    if not sql.strip():
        raise ConditionError("the expression is empty; write one such as abs(l.x - r.x) <= 5")
    check_brackets(sql)
    try:
        sql.encode()
        parsed: Any = sqlglot.parse_one(_QUOTED.sub(_escape_quotes, sql), dialect="spark")
    except SqlglotError as error:
        raise ConditionError(_unreadable(sql, error)) from None
    except UnicodeEncodeError as error:
        raise ConditionError(
            f"{sql!a} holds half a character, {error.object[error.start]!a}; write it whole"
        ) from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # sqlglot's own
        raise ConditionError(f"cannot read {sql!r}: {error}") from None
    if isinstance(parsed, exp.Query | exp.DDL | exp.DML | exp.Command | exp.Block):
        raise ConditionError(
            f"{sql!r} is not a scalar expression; write what would follow WHERE, such as l.x < r.x"
        )
    if isinstance(parsed, exp.Alias):
        raise ConditionError(f"{sql!r} names its result ({parsed.alias!r}); leave the name out")
    parsed = balance(parsed)
    check_depth(parsed)
    return _with_whole_intervals(parsed)


def _escape_quotes(quoted: re.Match[str]) -> str:
    r"""``'it''s'`` as ``'it\'s'``: sqlglot reads the first as two strings, Spark as one."""
    text = quoted.group()
    quote, inner = text[0], text[1:-1]
    return text if quote == "`" else f"{quote}{inner.replace(quote * 2, chr(92) + quote)}{quote}"


def _with_whole_intervals(expression: exp.Expression) -> exp.Expression:
    """``t - interval 1 hour 30 minutes`` with parentheses around the interval.

    sqlglot reads such an interval as a sum and would write it back without them, as
    ``t - interval 1 hour + interval 30 minutes``.
    """
    for node in list(expression.find_all(exp.Add)):
        parent = node.parent
        if _is_interval(node) and isinstance(parent, exp.Binary) and not _is_interval(parent):
            node.replace(exp.paren(node.copy()))
    return expression


def _is_interval(node: Any) -> bool:
    """Whether it is an interval, or a sum of nothing but intervals."""
    if isinstance(node, exp.Add):
        return _is_interval(node.this) and _is_interval(node.expression)
    return isinstance(node, exp.Interval)


def _unreadable(sql: str, error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        reason = re.sub(r"\x1b\[\d*m", "", str(error)).splitlines()[0]
        return f"cannot read {sql!r}: {reason}"
    first = details[0]
    place = f"at line {first['line']}, column {first['col']}, near {first['highlight']!r}"
    return f"cannot read {sql!r} {place}: {_in_plain_words(first['description'])}"


def _in_plain_words(description: str) -> str:
    """Say what is wrong without the parser's jargon."""
    if description.startswith("Required keyword"):  # an operator lacks an operand
        return "a value is missing beside it"
    if "Unexpected token" in description:
        return "this is not allowed here; combine conditions by and, or, not"
    if missing := re.fullmatch(r"Expecting (\S+)", description):
        return f"a {missing[1]} is missing"
    return re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", description)


def qualify(
    expression: exp.Expression, left: pa.Schema | None, right: pa.Schema | None
) -> exp.Expression:
    """A copy whose columns are ``l.name`` or ``r.name``, as the schemas spell them.

    A schema of None is unknown: columns of that side stay as they are written.
    """
    schemas = {"l": left, "r": right}

    def resolve(node: exp.Expression) -> exp.Expression:
        return _resolved(node, schemas) if isinstance(node, exp.Column) else node

    return expression.copy().transform(resolve, copy=False)


@retry_deep
@lru_cache(maxsize=256)
def read_expression(sql: str, left: pa.Schema, right: pa.Schema) -> exp.Expression:
    """The tree of an expression, with its columns resolved; cached, so do not change it."""
    return qualify(_parse(sql), left, right)


def sides(expression: exp.Expression) -> frozenset[str]:
    """Which of "l" and "r" the columns of a qualified expression belong to."""
    return frozenset(side for side, _ in columns(expression))


def columns(expression: exp.Expression) -> list[tuple[str, str]]:
    """The (side, column name) pairs of a qualified expression, each once, in order."""
    found = ((column.table, column.name) for column in expression.find_all(exp.Column, bfs=False))
    return list(dict.fromkeys(found))


def _resolved(column: exp.Column, schemas: dict[str, pa.Schema | None]) -> exp.Expression:
    if isinstance(column.this, exp.Star):
        raise ConditionError("* stands for no single value; name the column")
    parts = [part.name for part in column.parts]
    if len(parts) > 1 and parts[0].lower() in SIDES:
        side, parts = parts[0].lower(), parts[1:]
    else:
        side = _side_of(parts, schemas)
    schema = schemas[side]
    name = parts[0] if schema is None else _exact_name(parts[0], side, schema)
    resolved: exp.Expression = exp.column(_identifier(name), table=side)
    for field in parts[1:]:
        resolved = exp.Dot(this=resolved, expression=_identifier(field))
    return resolved


@lru_cache(maxsize=1024)
def _needs_quotes(name: str) -> bool:
    """Whether ``l.name`` would mean something else without quotes, as for ``select`` or ``a.b``."""
    try:
        tree: Any = sqlglot.parse_one(f"l.{name}", dialect="spark")
    except SqlglotError:
        return True
    return tree != exp.column(exp.Identifier(this=name, quoted=False), table="l")


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=_needs_quotes(name))


def _side_of(parts: list[str], schemas: dict[str, pa.Schema | None]) -> str:
    """The side of a column that is written without an alias."""
    name = parts[0]
    known = {side: schema for side, schema in schemas.items() if schema is not None}
    holders = [side for side, schema in known.items() if _matches(name, schema)]
    unknown = [side for side in SIDES if side not in known]
    if len(holders) == 2 or (holders and unknown) or len(unknown) == 2:
        raise SchemaError(
            f"column {name!r} is ambiguous: it may be of either side; write l.{name} or r.{name}, "
            f"or l.{name} = r.{name} to compare the two"
        )
    if holders:
        return holders[0]
    if unknown and len(parts) == 1:
        return unknown[0]
    if len(parts) > 1:
        raise SchemaError(
            f"{'.'.join(parts)!r}: {name!r} is neither an alias nor a column; the left input is l, "
            "the right one is r"
        )
    every = [known_name for schema in known.values() for known_name in schema.names]
    raise SchemaError(f"column {name!r} is in neither input{_hint(name, every)}")


def _matches(name: str, schema: pa.Schema) -> list[str]:
    """The columns the name may mean: the exact one, or else those that differ only in case."""
    exact = [known for known in schema.names if known == name]
    return exact or [known for known in schema.names if known.lower() == name.lower()]


def _exact_name(name: str, side: str, schema: pa.Schema) -> str:
    found = _matches(name, schema)
    if len(found) == 1:
        return found[0]
    input_name = "left" if side == "l" else "right"
    if found:
        raise SchemaError(
            f"{side}.{name} is ambiguous: the {input_name} input has the columns "
            f"{', '.join(map(repr, found))}; rename one"
        )
    raise SchemaError(
        f"the {input_name} input has no column {name!r}{_hint(name, list(schema.names))}"
    )


def _hint(name: str, known: list[str]) -> str:
    lowered = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=1)
    suggestion = f"; did you mean {lowered[close[0]]!r}?" if close else ""
    return f"; known columns: {', '.join(dict.fromkeys(known)) or '(none)'}{suggestion}"
