"""Ctrl-C and other signals: noted while a call works, and raised where the state is consistent.

Python runs a signal handler between any two instructions of the main thread, wherever that is:
half-way through an insert, or inside Numba's dispatcher, which then raises a ``SystemError``. So a
public call *holds* signals: a handler that only notes them replaces the original ones, which run
later, where nothing is half done::

    push     prepare . search . . . . . . . | commit  store, expire |
    signals  noted, raised at a checkpoint  | noted, until the end  | raised, with the results
    state    as before the push             |                       | as after the push

A handler may do anything: raise ``KeyboardInterrupt``, cancel a task as asyncio's does, set a flag.
If it raises nothing, the call goes on as if nothing had happened.

Invariants:

1. A checkpoint raises only before the commit, and only once: undoing the call is not interrupted.
2. Only the thread that entered the hold, the main one, runs handlers. Threads that work for it
   (`Lent`) stop at their next checkpoint once a handler has raised, and not before.
3. When a hold ends, the original handlers are back.

Cost: 5 microseconds per hold, mostly to look up the handlers; 0.1 per checkpoint. Kernels work in
slices of at most a few tenths of a second, with a checkpoint between them.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]

# Those whose handlers commonly raise. SIGINT is restored last, so that a second Ctrl-C may still be
# noted while the others are restored.
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
    if hasattr(signal, name)
)
# The functions that `signal` wraps: converting numbers to enums and back takes ten times as long.
plain: Any = import_module("_signal")
PATIENCE = 0.1  # seconds that a thread holding signals waits for another without a checkpoint


class Stopped(BaseException):
    """The call that this thread works for was interrupted; its results are not needed."""


class Holder(Protocol):
    """Says whether a thread should go on."""

    def check(self) -> None:
        """Raise if the call must end here."""
        ...


class Hold:
    """The signals of one call in the main thread; see the module docstring."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.noted: list[int] = []
        self.is_committed = False  # checkpoints raise nothing
        self.is_provisional = False  # what changes is not part of any join's state yet
        self.is_open = False  # handlers run at once
        self.raised: BaseException | None = None  # by a handler that ran at once
        self.has_stopped = False  # a handler has raised at a checkpoint

    def take_over(self) -> None:
        """Note signals from now on, where they have a handler in Python."""
        try:
            for number in SIGNALS:
                handler = plain.getsignal(number)
                if callable(handler):
                    self.handlers[number] = handler
                    plain.signal(number, self.note)
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Restore the original handlers."""
        try:
            for number, handler in reversed(self.handlers.items()):
                plain.signal(number, handler)
        except BaseException:  # raised by a handler that is already restored
            for number, handler in reversed(self.handlers.items()):
                plain.signal(number, handler)
            raise

    def note(self, number: int, frame: FrameType | None) -> None:
        if not self.is_open:
            self.noted.append(number)
            return
        try:
            self.handlers[number](number, frame)
        except BaseException as error:
            self.raised = error
            raise

    def deliver(self) -> None:
        """Run the original handlers for the signals that were noted."""
        while self.noted:
            number = self.noted.pop(0)
            self.handlers[number](number, None)

    def check(self) -> None:
        """Deliver what was noted, unless the state is changing."""
        if self.noted and not self.is_committed:
            try:
                self.deliver()
            except BaseException:
                self.has_stopped = self.is_committed = True
                raise


class Lent:
    """A hold as seen by a thread that works for its owner."""

    def __init__(self, hold: Hold) -> None:
        self.hold = hold

    def check(self) -> None:
        """Stop if the call has been interrupted."""
        if self.hold.has_stopped:
            raise Stopped


class Current(threading.local):
    """The hold that each thread works under."""

    holder: Holder | None = None
    given: Any = None  # by the last hold, on its way to who made the call


current = Current()


class hold_signals:  # noqa: N801 - reads as the verb that it is: ``with hold_signals() as call``
    """Hold signals during a call; inside another hold, or outside the main thread, do nothing.

    Results of the call pass through `give`, so that an exception raised by a signal at its end can
    carry them, as ``results``, like the errors of this package.
    """

    def __init__(self, provisional: bool = False) -> None:
        self.hold: Hold | None = None
        self.provisional = provisional
        self.results: Any = None

    def __enter__(self) -> Self:
        if current.holder is None and threading.current_thread() is threading.main_thread():
            hold = Hold()
            hold.is_provisional = self.provisional
            hold.take_over()
            self.hold = current.holder = hold
        return self

    def give(self, results: T) -> T:
        """Note what the call returns."""
        self.results = results
        return results

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hold, self.hold = self.hold, None
        if hold is None:
            return
        if kind is None:
            current.given = self.results
        try:
            hold.give_back()
            current.holder = None
            hold.deliver()
        except BaseException as raised:
            hand_over(self.results, raised)
            raise
        finally:
            current.holder = None


def hand_over(results: Any, raised: BaseException) -> None:
    """Let an exception carry what the call would have returned, unless it has results already."""
    if results is not None and getattr(raised, "results", None) is None:
        with suppress(AttributeError):  # an exception with slots
            raised.results = results  # type: ignore[attr-defined]


def checkpoint() -> None:
    """Run noted handlers here, which may raise; nothing may be half done."""
    holder = current.holder
    if holder is not None:
        holder.check()


def commit() -> None:
    """Note that the state changes from now on: the call will run to its end."""
    holder = current.holder
    if isinstance(holder, Hold) and not holder.is_provisional:
        holder.is_committed = True


@contextmanager
def shield() -> Iterator[None]:
    """Raise nothing inside this block."""
    holder = current.holder
    if not isinstance(holder, Hold):
        yield
        return
    before, holder.is_committed = holder.is_committed, True
    try:
        yield
    finally:
        holder.is_committed = before


@contextmanager
def ignore_commits() -> Iterator[None]:
    """Ignore commits: what changes inside this block is not part of any join's state yet."""
    holder = current.holder
    if not isinstance(holder, Hold):
        yield
        return
    before, holder.is_provisional = holder.is_provisional, True
    try:
        yield
    finally:
        holder.is_provisional = before


@contextmanager
def pass_signals() -> Iterator[None]:
    """Let handlers run at once: the user's code may wait for ever, and nothing has changed yet."""
    holder = current.holder
    if not isinstance(holder, Hold) or holder.is_committed:
        yield
        return
    holder.is_open = True
    try:
        holder.check()
        yield
    except Exception as error:  # Arrow wraps what a reader raises
        if holder.raised is not None:
            raise holder.raised from error
        raise
    finally:
        holder.is_open = False


def lend() -> Lent | None:
    """Return what another thread needs to work for this one."""
    holder = current.holder
    if isinstance(holder, Hold):
        # Once a handler has raised, threads help to undo the call, and must not stop.
        return None if holder.has_stopped else Lent(holder)
    return holder if isinstance(holder, Lent) else None


@contextmanager
def work_for(to_this_thread: Lent | None) -> Iterator[None]:
    """Work for another thread."""
    before = current.holder
    current.holder = to_this_thread
    try:
        yield
    finally:
        current.holder = before


def patience() -> float | None:
    """Return how many seconds to wait before the next checkpoint; None means without limit."""
    return None if current.holder is None else PATIENCE
