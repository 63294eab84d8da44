"""Limits: how much a join does at a time, and from how much on it does something else.

None of them changes a result, only when things happen: when a subwindow is full, when a batch is
cut, when what is left is copied. As they are, they suit windows of millions of rows. Tests make
them tiny, so that all of it happens within a few rows::

    with use_limits(Limits(least_counted_rows=4, slice_rows=2)):
        join = StreamJoin(...)

A plan keeps the limits that it was made with, and everything that joins has a plan. No option of a
join gives other limits, and tests and the fuzzer go in by the public API; so there are limits in
use, which are those of the context. A `StreamJoin` takes them when it is made, since the thread of
a source, which has a context of its own, may be the one that makes its engine.

Not here: what belongs to one index or algorithm alone, which has it beside its kernels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """See the module docstring."""

    least_counted_rows: int = 1 << 10
    """Rows that a subwindow of a count window takes, however short the window is."""

    most_counted_rows: int = 1 << 26
    """Rows at which a subwindow of a count window is full, however long the window is."""

    least_timed_rows: int = 1 << 14
    """Rows that a subwindow of a time window takes, however much time they span."""

    most_timed_rows: int = 1 << 23
    """Rows at which a subwindow of a time window is full, however little time they span."""

    large_batch_rows: int = 1 << 17
    """Rows of a batch that are stored at once in a time window, and make a merge expensive."""

    least_rows_per_choice: int = 64
    """Rows that come between two choices of a structure, for a window that is almost empty."""

    slice_rows: int = 1 << 13
    """Rows that a thread probes, at least; with fewer, threads mostly wait for the GIL."""

    most_slice_rows: int = 1 << 20
    """Rows that probe before the next checkpoint: in most structures some tenths of a second."""

    least_expired_rows: int = 1 << 10
    """Rows that leave a whole window of time together, at least."""

    small_piece_rows: int = 1 << 12
    """Rows of a window that a piece may always have, and values that a column may always waste."""

    small_batch_rows: int = 1 << 12
    """Rows of a batch below which it is put together with others that wait for their windows."""

    most_gone: int = 1 << 10
    """Sessions, and rows of sessions, that may always be gone before the others are copied."""

    join_bytes: int = 1 << 30
    """Bytes of windows that are joined together when they close, unless one has more."""

    block_pairs: int = 1 << 18
    """Candidates that are checked at a time."""

    ordered_candidates: int = 1 << 20
    """Candidates of a step whose joined rows are put in order at once, unless one row has more."""

    part_matches: int = 1 << 18
    """Matches that a join core sends on together, where they need no order."""


DEFAULT_LIMITS = Limits()
_in_use: ContextVar[Limits] = ContextVar("limits", default=DEFAULT_LIMITS)


def limits_in_use() -> Limits:
    """Return the limits that plans are made with here."""
    return _in_use.get()


@contextmanager
def use_limits(limits: Limits) -> Iterator[None]:
    """Let the joins that are made inside have other limits."""
    before = _in_use.set(limits)
    try:
        yield
    finally:
        _in_use.reset(before)
