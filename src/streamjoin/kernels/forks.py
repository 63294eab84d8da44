"""After a fork: the child has one thread, and whatever the others held or promised is gone.

What a join has begun with threads (cores, a source that is read, a merge) remembers the process it
began in. In a child it is refused, or forgotten where nothing depends on it, before anybody waits
for a thread that is not there, or for a lock that such a thread held.
"""

import os
from collections.abc import Callable

from streamjoin.errors import StreamJoinError

FORKED = (
    "this join belongs to process {}, whose threads were using it when process {} was forked, and "
    "a fork has none of them; take a snapshot() before the fork and restore() it here, or make "
    "the join here"
)


def is_here(process: int) -> bool:
    """Whether this is the process that something began in."""
    return process == os.getpid()


def refuse_elsewhere(process: int) -> None:
    """Raise in a process that was forked from the one that something began in."""
    if not is_here(process):
        raise StreamJoinError(FORKED.format(process, os.getpid()))


def call_in_child(act: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one, before anything else."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)
