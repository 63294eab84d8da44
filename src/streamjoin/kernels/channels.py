"""A bounded queue between two threads that can be closed from either end.

A full channel makes the one who puts wait, so a slow consumer slows the source down and memory
does not grow; a closed one wakes both. Who takes may be interrupted while nothing has come. Nothing
goes through in a process that is forked meanwhile: whoever stood at the other end is not there.
"""

import os
from collections import deque
from threading import Condition
from typing import Generic, TypeVar

from streamjoin.kernels.forks import is_here, refuse_elsewhere
from streamjoin.kernels.interrupts import checkpoint, patience

T = TypeVar("T")


class ClosedError(Exception):
    """Nothing more goes through this channel."""


class Channel(Generic[T]):
    """First in, first out, at most ``depth`` at a time."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._items: deque[T] = deque()
        self._changed = Condition()
        self._closed = False
        self._process = os.getpid()

    def put(self, item: T) -> None:
        """Add an item, after waiting for room."""
        refuse_elsewhere(self._process)
        with self._changed:
            while len(self._items) >= self.depth and not self._closed:
                self._changed.wait()
            if self._closed:
                raise ClosedError
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> T:
        """Take the oldest item, after waiting for one."""
        refuse_elsewhere(self._process)
        with self._changed:
            while not self._items and not self._closed:
                self._changed.wait(patience())
                checkpoint()
            if self._closed:
                raise ClosedError
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Wake everybody who waits; what is still inside is dropped."""
        if not is_here(self._process):
            return
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()
