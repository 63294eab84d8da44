"""Competitors take turns, so that a minute in which the machine is slow is slow for all of them.

Every suite measures through `take_turns`::

    take_turns({"ours": f, "theirs": g}, rounds=3, warmup=1)

    warm-up   round 1   round 2   round 3
    f g       f g       f g       f g       ->  {"ours": [., ., .], "theirs": [., ., .]}

A competitor is a function, and what it returns is its measurement: a rate, an outcome, the progress
of a query. `time_turns` measures functions that return what they compute: it takes their seconds.
"""

import gc
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.harness.series import Series, make_series

Name = TypeVar("Name", bound=Hashable)
Measurement = TypeVar("Measurement")


def take_turns(
    rivals: Mapping[Name, Callable[[], Measurement]],
    rounds: int,
    warmup: int = 0,
    seconds: float = 0.0,
    most: int | None = None,
    limits: Mapping[Name, int] | None = None,
) -> dict[Name, list[Measurement]]:
    """Call each rival once per round; return what its calls gave, in their order.

    There are at least ``rounds`` rounds, then more until ``seconds`` have passed, but no more than
    ``most``. Before them come ``warmup`` rounds that do not count. A rival that is too slow for
    every round takes part in the first few of them, as ``limits`` says, and has no warm-up.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; measure at least once")
    limits = limits or {}
    for _ in range(warmup):
        for name, measure in rivals.items():
            if name not in limits:
                measure()
    measured: dict[Name, list[Measurement]] = {name: [] for name in rivals}
    begin, done = perf_counter(), 0
    while done < rounds or (perf_counter() - begin < seconds and (most is None or done < most)):
        for name, measure in rivals.items():
            if done < limits.get(name, done + 1):
                measured[name].append(measure())
        done += 1
    return measured


def repeat(
    measure: Callable[[], Measurement],
    rounds: int,
    warmup: int = 0,
    seconds: float = 0.0,
    most: int | None = None,
) -> list[Measurement]:
    """Measure one thing alone; the arguments are those of `take_turns`."""
    return take_turns({None: measure}, rounds, warmup, seconds, most)[None]


def time_turns(
    functions: Mapping[str, Callable[[], object]], rounds: int = 5, warmup: int = 1
) -> dict[str, Series]:
    """Time several functions in turns."""
    rivals = {name: partial(_time_cleanly, function) for name, function in functions.items()}
    return make_series(take_turns(rivals, rounds, warmup), "s")


def time_call(function: Callable[..., object], *arguments: Any) -> float:
    """Return the seconds that a call takes."""
    begin = perf_counter()
    result = function(*arguments)
    seconds = perf_counter() - begin
    del result  # freeing the result is not part of producing it
    return seconds


def _time_cleanly(function: Callable[[], object]) -> float:
    gc.collect()  # no function pays for the garbage of the one before
    return time_call(function)


def check_agreement(found: Mapping[str, int], expected: int | None = None) -> None:
    """Assert that all competitors found as many matches, and as many as expected if that is known.

    >>> check_agreement({"ours": 3, "theirs": 4})
    Traceback (most recent call last):
    AssertionError: matches differ: {'ours': 3, 'theirs': 4}
    """
    counts = set(found.values())
    assert len(counts) == 1, f"matches differ: {dict(found)}"
    assert expected in (None, *counts), f"{expected} matches expected: {dict(found)}"
