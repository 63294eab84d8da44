"""A bounded queue between two threads that can be closed from either end.

Putting into a full channel waits, so a slow consumer slows the source down and memory does not
grow; closing the channel wakes both ends. Waiting for an item can be interrupted. In a forked
process nothing goes through: the thread at the other end does not exist there.
"""

import os
from collections import deque
from threading import Condition
from typing import Generic, TypeVar

from streamjoin.kernels.forks import is_here, refuse_elsewhere
from streamjoin.kernels.interrupts import checkpoint, patience

T = TypeVar("T")


class ClosedError(Exception):
    """The channel is closed: nothing more goes through."""


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
        """Wake all waiting threads; drop what is still inside."""
        if not is_here(self._process):
            return
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()
