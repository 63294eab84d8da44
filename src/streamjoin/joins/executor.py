"""What an engine asks of those who carry out its steps.

A `Manager` holds both windows and does everything itself; `split.SplitExecutor` hands each step to
several join cores, each with a part of the windows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from streamjoin.joins.candidates import Found
from streamjoin.joins.chain import Chain
from streamjoin.joins.prepared import Prepared
from streamjoin.keys.operands import Side

Deliver = Callable[[Found], Iterator[Any]]  # what becomes of matches
Batches = Mapping[Side, Prepared]


@dataclass(frozen=True)
class Clock:
    """How far the streams have come: the rows that arrived, and the watermark if there is one."""

    arrived: dict[Side, int]
    watermark: int | None = None


@runtime_checkable
class Asynchronous(Protocol):
    """An executor whose steps need not wait for each other."""

    def submit(self, batches: Batches, interleaved: bool, clock: Clock) -> None:
        """Send a step on its way, to be searched and stored, and then let the clock advance."""
        ...


class Streaming(Asynchronous, Protocol):
    """Threads that a source goes through, and what comes out of them."""

    def advance(self, clock: Clock) -> None:
        """Drop what has left the window by now, at once or with the next step."""
        ...

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on, each core if there are several."""
        ...

    def submit_last(self) -> None:
        """Send an empty step: when it has been gathered, so have all before it."""
        ...

    def gathered(self) -> Iterator[Any]:
        """Yield whatever comes, for ever."""
        ...

    def wait(self) -> None:
        """Wait until everything has been done that was submitted."""
        ...

    def report(self) -> None:
        """Raise if a part of the windows was lost since the last time."""
        ...

    def release(self) -> None:
        """Note that nothing more is going to be submitted for now."""
        ...


class Executor(Protocol):
    """Two windows, wherever they are, and the steps over them."""

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on, each core if there are several."""
        ...

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds so far, by phase."""
        ...

    @property
    def commands(self) -> Mapping[str, int]:
        """Commands carried out so far, by kind."""
        ...

    @property
    def parts(self) -> Sequence[dict[Side, Chain]]:
        """The stored rows of both sides, part by part; nothing else may happen meanwhile."""
        ...

    def search(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for the matches of what comes, as they are asked for; changes nothing."""
        ...

    def store(self, batches: Batches) -> None:
        """Insert the batches, after all their matches have been taken."""
        ...

    def advance(self, clock: Clock) -> None:
        """Drop what has left the window by now."""
        ...

    def report(self) -> None:
        """Raise if a part of the windows was lost since the last time."""
        ...
