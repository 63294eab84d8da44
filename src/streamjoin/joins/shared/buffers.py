"""Buffers for matches: a worker fills one, and it is free again when all of them have gone out."""

from dataclasses import dataclass
from threading import Lock

import numpy as np

from streamjoin.joins.shared.work_queue import NEVER
from streamjoin.kernels.compile import RowIds

MATCHES = 1 << 16  # that a buffer has room for, at least


@dataclass
class Buffer:
    """Matches that a worker has found."""

    number: int
    found: RowIds
    last: int = NEVER  # behind the last entry that has matches here, once that is known


class Buffers:
    """All buffers of a join, by number; workers take and give them side by side."""

    def __init__(self, matches: int = MATCHES) -> None:
        self.matches = matches
        self.all: list[Buffer] = []
        self._free: list[Buffer] = []
        self._lock = Lock()

    def take(self, least: int = 1) -> Buffer:
        """Return a buffer with room for so many matches."""
        with self._lock:
            for buffer in self._free:
                if buffer.found.size >= least:
                    self._free.remove(buffer)
                    return buffer
            buffer = Buffer(len(self.all), np.empty(max(self.matches, least), np.int32))
            self.all.append(buffer)
            return buffer

    def give(self, buffer: Buffer, last: int) -> None:
        """Give a buffer back, whose matches are of entries before ``last``."""
        buffer.last = last

    def collect(self, head: int) -> None:
        """Let buffers be taken again whose entries are all before ``head``."""
        with self._lock:
            for buffer in self.all:
                if buffer.last <= head:
                    buffer.last = NEVER
                    self._free.append(buffer)
