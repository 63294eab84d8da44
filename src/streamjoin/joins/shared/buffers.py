"""Buffers for matches: a worker fills one, and it is free again when its matches are delivered."""

from dataclasses import dataclass
from threading import Lock

import numpy as np

from streamjoin.joins.shared.work_queue import NEVER
from streamjoin.kernels.compile import RowIds

BUFFER_MATCHES = 1 << 16  # that a buffer has room for, at least


@dataclass
class Buffer:
    """Matches that a worker has found."""

    number: int
    found: RowIds
    last: int = NEVER  # one past the last entry with matches here, once that is known


class Buffers:
    """All buffers of a join, by number; workers take and return them concurrently."""

    def __init__(self, matches: int = BUFFER_MATCHES) -> None:
        self.matches = matches
        self.all: list[Buffer] = []
        self._free: list[Buffer] = []
        self._lock = Lock()

    def take(self, least: int = 1) -> Buffer:
        """Return a buffer with room for at least ``least`` matches."""
        with self._lock:
            for buffer in self._free:
                if buffer.found.size >= least:
                    self._free.remove(buffer)
                    return buffer
            buffer = Buffer(len(self.all), np.empty(max(self.matches, least), np.int32))
            self.all.append(buffer)
            return buffer

    def give(self, buffer: Buffer, last: int) -> None:
        """Return a buffer, whose matches are of entries before ``last``."""
        buffer.last = last

    def collect(self, head: int) -> None:
        """Free the buffers whose entries are all before ``head``."""
        with self._lock:
            for buffer in self.all:
                if buffer.last <= head:
                    buffer.last = NEVER
                    self._free.append(buffer)
