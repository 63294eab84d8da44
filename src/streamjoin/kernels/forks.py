"""After a fork: the child has one thread; what the others held or were doing is lost.

Whatever a join does with threads (cores, reading a source, a merge) remembers the process in which
it began. In a child it is refused, or dropped where nothing depends on it, before anything waits
for a thread that does not exist there, or for a lock that such a thread held.
"""

import os
from collections.abc import Callable

from streamjoin.errors import StreamJoinError

FORKED = (
    "this join belongs to process {}, whose threads were using it when process {} was forked, and "
    "a fork has none of these threads; take a snapshot() before the fork and restore() it here, or "
    "make the join here"
)


def is_here(process: int) -> bool:
    """Whether this process has the given id."""
    return process == os.getpid()


def refuse_elsewhere(process: int) -> None:
    """Raise in a process that was forked from the given one."""
    if not is_here(process):
        raise StreamJoinError(FORKED.format(process, os.getpid()))


def call_in_child(act: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one, before anything else."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)
