"""One call at a time: several threads may use a join, and their calls follow one another.

A call that arrives while another runs waits for it, so the results are those of the calls in some
order. A call from *within* another one, made by an object that `push` reads or by a signal handler,
cannot wait and would find the state half changed, so it is refused. Each step of `stream` is one
call; while `stream` reads ahead of its results, all other calls are refused.

A process forked while another thread is inside inherits a half-changed state and a lock that
nobody releases, so its guard refuses all calls (`forks`). If no thread is inside, the child has a
copy of the join that it can use.

Cost: less than a microsecond per call; a push of one row takes about a hundred.
"""

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from streamjoin.errors import StreamJoinError
from streamjoin.kernels.forks import FORKED, call_in_child, is_here
from streamjoin.kernels.interrupts import current, hand_over

P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """Lets one thread at a time into a join: take ``lock``, then call `check`."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.process = os.getpid()
        self.is_inside = False  # whether the thread that holds the lock is in a call
        self.is_torn = False  # whether the process was forked with another thread inside
        _guards.add(self)

    def check(self) -> None:
        """Refuse a call made inside another one, or after a fork that lost one half-way."""
        if self.is_torn:
            raise StreamJoinError(FORKED.format(self.process, os.getpid()))
        if self.is_inside:
            raise StreamJoinError(
                "this join was called from within another of its calls, by what that one reads or "
                "by a signal handler; make the call when the other has returned"
            )

    @property
    def is_here(self) -> bool:
        """Whether this process made the join."""
        return is_here(self.process)

    def note_fork(self) -> None:
        """Note in a child whether another thread was inside."""
        if self.lock.acquire(blocking=False):
            self.lock.release()
        else:
            self.lock, self.is_torn = RLock(), True


_guards: WeakSet[Guard] = WeakSet()


def _note_fork() -> None:
    for guard in list(_guards):
        guard.note_fork()


call_in_child(_note_fork)


class Guarded(Protocol):
    """An object that only one thread at a time may use."""

    _guard: Guard


G = TypeVar("G", bound=Guarded)


def exclusive(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Decorate a method so that it runs only while no other method decorated so does."""

    @wraps(method)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        guard = self._guard
        try:
            with guard.lock:
                guard.check()
                current.given = None
                try:
                    guard.is_inside = True
                    results = method(self, *args, **kwargs)
                finally:
                    guard.is_inside = False
        except BaseException as error:  # maybe a signal, between the end of the call and here
            hand_over(current.given, error)
            current.given = None
            raise
        current.given = None
        return results

    return call
