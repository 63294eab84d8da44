"""Lets conditions be long or deeply nested: a thousand brackets or ORs are allowed.

Parsers and evaluators recurse for each level, with some twenty calls per level in sqlglot's parser,
and Python stops at a thousand calls. Two measures help:

* A chain of ANDs or ORs is a tree that leans to the left, as deep as it is long. `balance` reduces
  that to its logarithm, keeps the order of the operands, and removes brackets inside brackets.
* What is really nested is computed again, on a thread with a large stack, if Python's own stack
  runs out (`retry_deep`). So ordinary conditions pay nothing.
"""

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sqlglot import exp

from streamjoin.errors import ConditionError

MOST_LEVELS = 1000  # of brackets, functions and the like inside one another
CALLS = 60 * MOST_LEVELS  # more than parsing that many levels takes
STACK_BYTES = 1 << 29  # of address space; only what is used takes memory

P = ParamSpec("P")
T = TypeVar("T")

_NAME = "streamjoin-deep"
_deepening = threading.Lock()  # the recursion limit and the stack size are global to Python


def retry_deep(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function without side effects: if the stack overflows, rerun on a larger one."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            if threading.current_thread().name == _NAME:
                raise
        return _call_deeply(lambda: function(*args, **kwargs))

    return call


def _call_deeply(function: Callable[[], T]) -> T:
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    with _deepening:
        calls, stack = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        try:
            sys.setrecursionlimit(max(calls, CALLS))
            thread = threading.Thread(target=run, name=_NAME)
            thread.start()
        finally:
            threading.stack_size(stack)
        try:
            thread.join()
        finally:
            sys.setrecursionlimit(calls)
    result, error = outcome[0]
    if isinstance(error, RecursionError):
        raise too_deep(f"more than {MOST_LEVELS:,}")
    if error is not None:
        raise error
    return result


def too_deep(levels: str) -> ConditionError:
    """Return the error for a condition that is nested too deeply."""
    return ConditionError(
        f"the condition is nested {levels} levels deep, and at most {MOST_LEVELS:,} are read; "
        "compute parts of it as columns before the join"
    )


def check_brackets(text: str) -> None:
    """Refuse text whose brackets are nested too deeply, before a parser tries."""
    deepest = depth = 0
    for character in text if text.count("(") > MOST_LEVELS else "":
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    if deepest > MOST_LEVELS:
        raise too_deep(f"{deepest:,}")


def check_depth(tree: exp.Expression) -> None:
    """Refuse a tree of too many levels."""
    deepest, level = 0, [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in node.iter_expressions()]
    # A level of the text is up to four of the tree: CASE, IF, the comparison, the column's name.
    if deepest > 4 * MOST_LEVELS:
        raise too_deep(f"{deepest // 4:,} or more")


def balance(tree: Any) -> Any:
    """Make chains of ANDs or ORs shallow, and drop repeated brackets; in place."""
    holder = exp.Paren(this=tree)
    pending: list[exp.Expression] = [holder]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            _unwrap(node)
        if isinstance(node, exp.And | exp.Or):
            operands = _operands(node)
            if len(operands) > 2:
                halved = _halve(type(node), operands)
                node.set("this", halved.this)
                node.set("expression", halved.expression)
            pending += operands
        else:
            pending += node.iter_expressions()
    return holder.this


def _unwrap(node: exp.Paren) -> None:
    """Drop all but one pair of brackets around the same thing."""
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    node.set("this", inner)


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """Return the operands of a chain of one operator, in order."""
    found, stack = [], [node]
    while stack:
        each = stack.pop()
        if type(each) is type(node):
            stack += [each.expression, each.this]
        else:
            found.append(each)
    return found


def _halve(kind: type[exp.Expression], operands: list[exp.Expression]) -> exp.Expression:
    """Connect operands as a tree of the least depth."""
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    return kind(this=_halve(kind, operands[:middle]), expression=_halve(kind, operands[middle:]))
