"""The time that an algorithm spends in each of its phases (Zhang et al., 5.3)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from time import perf_counter
from typing import Protocol

from streamjoin.kernels.interrupts import checkpoint

PHASES = ("partition", "build", "merge", "probe")  # "build" includes sorting


class Phases:
    """Seconds so far, by phase, over all threads."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._adding = Lock()

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        """Count the time of this block for a phase."""
        checkpoint()
        begin = perf_counter()
        try:
            yield
        finally:
            spent = perf_counter() - begin
            with self._adding:
                self.seconds[phase] += spent


class Timed(Protocol):
    """Something that counts its seconds."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds so far, by phase."""
        ...


def total_seconds(parts: Sequence[Timed]) -> dict[str, float]:
    """Return the seconds of all parts, by phase."""
    return {phase: sum(part.seconds[phase] for part in parts) for phase in PHASES}
