"""Functions of strings. Positions and lengths count characters, comparisons are by UTF-8 bytes."""

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.errors import ConditionError
from streamjoin.expressions.casts import cast
from streamjoin.expressions.datatypes import INT32, STRING, kind, name
from streamjoin.expressions.values import (
    NoAnswerError,
    TypeMismatchError,
    Value,
    from_numbers,
    nulls_of,
    numbers,
    typed,
)


def as_string(value: Value) -> pa.Array:
    """Any value that has a text form, as string."""
    return cast(value.array, STRING)


def map_distinct(function: Callable[[str], str]) -> Callable[[Value], Value]:
    """A function of one string, computed once for each distinct value."""

    def operate(a: Value) -> Value:
        encoded = as_string(a).dictionary_encode()
        words = pa.array([function(word) for word in encoded.dictionary.to_pylist()], STRING)
        return typed(words.take(encoded.indices))

    return operate


def length(a: Value) -> Value:
    """``length(a)``: characters of a string, bytes of a binary."""
    if kind(a.type) == "binary":
        return typed(pc.binary_length(a.array))
    return typed(pc.utf8_length(as_string(a)).cast(INT32))


def concat(*values: Value) -> Value:
    """``concat(...)`` and ``||``: NULL if a part is NULL."""
    if any(kind(value.type) == "binary" for value in values):
        raise TypeMismatchError(
            "binary values are not concatenated in process; cast them to string"
        )
    parts = [as_string(value) for value in values]
    return typed(pc.binary_join_element_wise(*parts, "", null_handling="emit_null"))


def substring(a: Value, start: Value, size: Value | None = None) -> Value:
    """``substring(a, start, size)``: 1 is the first character, -1 the last; 0 counts as 1."""
    words = as_string(a)
    arguments = [start] if size is None else [start, size]
    for argument in arguments:
        if kind(argument.type) not in ("integer", "null"):
            raise TypeMismatchError(f"substring takes integer positions, not {name(argument.type)}")
    first = numbers(cast(start.array, INT32)).tolist()
    count = [2**31 - 1] * len(words) if size is None else numbers(cast(size.array, INT32)).tolist()
    pieces = [
        None if word is None else _slice(word, begin, length)
        for word, begin, length in zip(words.to_pylist(), first, count, strict=True)
    ]
    missing = nulls_of(words, *(argument.array for argument in arguments))
    return typed(pc.if_else(pa.array(missing), pa.scalar(None, STRING), pa.array(pieces, STRING)))


def _slice(word: str, start: int, size: int) -> str:
    # A start before the first character still counts from there: ('abc', -5, 3) is 'a'.
    begin = start - 1 if start > 0 else start + len(word) if start < 0 else 0
    end = begin + size
    return word[max(begin, 0) : max(end, 0)]


def compare_rows(function: Callable[[str, str], bool]) -> Callable[[Value, Value], Value]:
    """startswith, endswith, contains, like: both arguments may be columns."""

    def operate(a: Value, b: Value) -> Value:
        words, parts = as_string(a), as_string(b)
        pairs = zip(words.to_pylist(), parts.to_pylist(), strict=True)
        found = [x is not None and y is not None and function(x, y) for x, y in pairs]
        return typed(from_numbers(np.array(found, dtype=np.bool_), nulls_of(words, parts)))

    return operate


def like(a: Value, pattern: str) -> Value:
    """``a LIKE pattern``: % is any text, _ one character, a backslash takes either literally."""
    regex = rf"(?s)\A{like_regex(pattern)}\z"
    return typed(pc.match_substring_regex(as_string(a), regex))


def is_like(text: str, pattern: str) -> bool:
    """``text LIKE pattern``, for a pattern that is a value."""
    try:
        return _compile_like(pattern).fullmatch(text) is not None
    except ConditionError as error:
        raise NoAnswerError(str(error)) from None


@lru_cache(maxsize=1024)
def _compile_like(pattern: str) -> re.Pattern[str]:
    return re.compile(like_regex(pattern), re.DOTALL)


def like_regex(pattern: str) -> str:
    """The regular expression, of RE2 and of Python, of what a LIKE pattern matches as a whole."""
    pieces, position = [], 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
            character = pattern[position : position + 1]
            if character not in ("%", "_", "\\"):
                raise ConditionError(
                    f"LIKE {pattern!r}: a backslash stands before %, _ or a backslash only"
                )
            pieces.append(re.escape(character))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
        position += 1
    return "".join(pieces)
