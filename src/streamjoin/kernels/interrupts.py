"""Ctrl-C and other signals: noted while a call works, and raised where the state is whole.

Python runs the handler of a signal between any two instructions of the main thread, wherever that
is: half-way through an insert, or inside Numba's dispatcher, which then gives a ``SystemError``. So
a public call *holds* signals: their handlers are replaced by one that only notes them, and the
original ones run where nothing is half done::

    push     prepare . search . . . . . . . | commit  store, expire |
    signals  noted, raised at a checkpoint  | noted, until the end  | raised, with the results
    state    as before the push             |                       | as after the push

A handler may do anything: raise ``KeyboardInterrupt``, cancel a task as that of asyncio does, set a
flag. If it raises nothing, the call goes on as if nothing had been.

Invariants:

1. A checkpoint raises only before the commit, and once: what undoes the call is not interrupted.
2. Only the thread that entered the hold, the main one, runs handlers. Those that work for it
   (`Lent`) stop at their next checkpoint when a handler has raised, and not before.
3. When a hold ends, the handlers are those of before.

Cost: 5 microseconds a hold, mostly to look who handles which signal; a checkpoint 0.1. Kernels work
in slices of at most a few tenths of a second, with a checkpoint between them.
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

# Those that people raise exceptions from. SIGINT is put back last: whoever presses Ctrl-C twice
# may be heard while the others are.
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
    if hasattr(signal, name)
)
# The functions that `signal` wraps: to make numbers enums and back takes ten times as long.
plain: Any = import_module("_signal")
PATIENCE = 0.1  # seconds that a thread which holds signals waits for another without a checkpoint


class Stopped(BaseException):
    """The call that this thread works for was interrupted; nobody wants its results."""


class Holder(Protocol):
    """What tells a thread whether to go on."""

    def check(self) -> None:
        """Raise if the call is to end here."""
        ...


class Hold:
    """The signals of one call in the main thread; see the module docstring."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.noted: list[int] = []
        self.is_committed = False  # checkpoints raise nothing
        self.is_provisional = False  # nothing that is changed is anybody's state yet
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
        """Let the original handlers run again."""
        try:
            for number, handler in reversed(self.handlers.items()):
                plain.signal(number, handler)
        except BaseException:  # by one that is back already
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
        """Let the original handlers know of the signals that were noted."""
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
    """A hold as seen by a thread that works for the one which has it."""

    def __init__(self, hold: Hold) -> None:
        self.hold = hold

    def check(self) -> None:
        """Stop if the call has been interrupted."""
        if self.hold.has_stopped:
            raise Stopped


class Current(threading.local):
    """What each thread works under."""

    holder: Holder | None = None
    given: Any = None  # by the last hold, on its way to who made the call


current = Current()


class hold_signals:  # noqa: N801 - reads as the verb that it is: ``with hold_signals() as call``
    """Hold signals during a call; inside another hold, or beside the main thread, do nothing.

    What the call gives is passed through `give`, so that a signal which is raised at its end can
    carry it: as ``results``, like the errors of this package.
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
    """Let an exception carry what the call would have returned, unless it has something."""
    if results is not None and getattr(raised, "results", None) is None:
        with suppress(AttributeError):  # an exception with slots
            raised.results = results  # type: ignore[attr-defined]


def checkpoint() -> None:
    """Raise here what a signal raises, if one has come; nothing may be half done."""
    holder = current.holder
    if holder is not None:
        holder.check()


def commit() -> None:
    """Note that the state changes from now on: the call is carried out to its end."""
    holder = current.holder
    if isinstance(holder, Hold) and not holder.is_provisional:
        holder.is_committed = True


@contextmanager
def shield() -> Iterator[None]:
    """Raise nothing meanwhile."""
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
    """Take no commit for one: what is changed meanwhile is nobody's state yet."""
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
    """Let handlers run at once: somebody else's code may wait for ever, and nothing is changed."""
    holder = current.holder
    if not isinstance(holder, Hold) or holder.is_committed:
        yield
        return
    holder.is_open = True
    try:
        holder.check()
        yield
    except Exception as error:  # Arrow makes one of its own of what a reader raises
        if holder.raised is not None:
            raise holder.raised from error
        raise
    finally:
        holder.is_open = False


def lend() -> Lent | None:
    """Return what a thread needs in order to work for this one."""
    holder = current.holder
    if isinstance(holder, Hold):
        # After a handler has raised, threads help to undo the call, and must not stop.
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
    """Return how many seconds to wait for others before the next checkpoint; None: any number."""
    return None if current.holder is None else PATIENCE
