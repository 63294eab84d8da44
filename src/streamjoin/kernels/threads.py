"""Shares work among several threads, including the caller's.

Kernels release the GIL, so threads run them in parallel. Waking a thread takes a tenth of a
millisecond, and more if no processor is idle. So the caller works too: with two threads, only one
has to wake, on the idle processor. Each thread takes the next item when it is ready; helpers that
never got one are cancelled, so shared work may itself share work. Between items, each thread checks
whether the call has been interrupted (`interrupts`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from streamjoin.kernels.forks import call_in_child
from streamjoin.kernels.interrupts import Lent, checkpoint, lend, patience, work_for

S = TypeVar("S")
R = TypeVar("R")
ALONE_TUPLES = 1 << 12  # up to this many, one thread is done before another has woken


@lru_cache(maxsize=1)
def helpers() -> ThreadPoolExecutor:
    """Return the threads that help, made when first needed."""
    return ThreadPoolExecutor(thread_name_prefix="streamjoin")


call_in_child(helpers.cache_clear)  # a child makes its own


def threads_for(tuples: int, threads: int) -> int:
    """Return how many threads share the work for ``tuples`` tuples.

    >>> threads_for(100, 4), threads_for(100_000, 4)
    (1, 4)
    """
    return threads if tuples > ALONE_TUPLES else 1


def share(function: Callable[[S], R], items: Sequence[S], threads: int) -> list[R]:
    """Apply a function to all items, with at most ``threads`` threads; return the results.

    >>> share(lambda number: number * number, [1, 2, 3], threads=2)
    [1, 4, 9]
    """
    if threads < 2 or len(items) < 2:
        return [apply(function, item) for item in items]
    results: dict[int, R] = {}
    numbers, lock = iter(range(len(items))), Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            results[number] = apply(function, items[number])

    def help_with(holder: Lent | None) -> None:
        with work_for(holder):
            work()

    count = min(threads, len(items)) - 1
    futures = [helpers().submit(help_with, lend()) for _ in range(count)]
    try:
        work()
        await_all([future for future in futures if not future.cancel()])
    finally:
        started = [future for future in futures if not future.cancel()]
        errors = [future.exception() for future in started]  # waits
    for error in errors:
        if error is not None:
            raise error
    return [results[number] for number in range(len(items))]


def apply(function: Callable[[S], R], item: S) -> R:
    """Apply a function, unless the call has been interrupted."""
    checkpoint()
    return function(item)


def await_all(futures: Sequence[Future[Any]]) -> None:
    """Wait for helpers, unless the call is interrupted meanwhile."""
    seconds = patience()
    while seconds is not None and wait(futures, seconds).not_done:
        checkpoint()
