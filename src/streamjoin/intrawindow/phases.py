"""The time that an algorithm spends in each of its phases (5.3)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

PHASES = ("partition", "build", "merge", "probe")  # "build" is sorting, too


class Phases:
    """Seconds so far, by phase."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        """Count what happens meanwhile."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += perf_counter() - begin


class Timed(Protocol):
    """Something that counts its seconds."""

    phases: Phases


def total_seconds(parts: Sequence[Timed]) -> dict[str, float]:
    """Return the seconds of all parts, by phase."""
    return {phase: sum(part.phases.seconds[phase] for part in parts) for phase in PHASES}
