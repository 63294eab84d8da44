"""What an engine asks of what carries out its steps: probe, insert, close, expire.

A `Manager` holds both windows of a sliding join and does everything itself; a `SplitExecutor` hands
each step to several join cores, each with a part of the windows; a `TumblingJoin` and a
`SessionJoin` hold windows that close.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from streamjoin.choice.decision_tree import Decision
from streamjoin.joins.outcomes.outcome import Alone
from streamjoin.joins.outcomes.reduction import Store
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.sliding.chain import Chain
from streamjoin.kernels.compile import Keys
from streamjoin.keys.operands import Side
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared

if TYPE_CHECKING:
    from streamjoin.joins.sliding.manager import Manager

Deliver = Callable[[Found], Iterator[Any]]  # what becomes of matches
Batches = Mapping[Side, Prepared]


@dataclass(frozen=True)
class Clock:
    """How far the streams have come: the rows that arrived, and the watermark if there is one."""

    arrived: dict[Side, int]
    watermark: int | None = None
    is_over: bool = False  # no more rows are coming


@dataclass(frozen=True)
class Holdings:
    """What an executor holds."""

    rows: dict[Side, int]
    nbytes: int
    subwindows: int  # or windows that are open

    @classmethod
    def of(cls, parts: Sequence[Mapping[Side, Chain]]) -> "Holdings":
        """Add up chains; one that serves both sides counts once."""
        chains = {id(chain): chain for part in parts for chain in part.values()}.values()
        return cls(
            {side: sum(len(part[side]) for part in parts) for side in SIDES},
            sum(chain.nbytes for chain in chains),
            sum(len(chain.subwindows) for chain in chains),
        )


def time_items(
    items: Generator[Any, None, None], seconds: dict[str, float], phase: str
) -> Iterator[Any]:
    """Pass items on, and count the time that they take, not that of what is done with them."""
    with closing(items):  # at once, if no more are wanted
        begin = perf_counter()
        for item in items:
            seconds[phase] += perf_counter() - begin
            yield item
            begin = perf_counter()
        seconds[phase] += perf_counter() - begin


@dataclass(frozen=True)
class CoreReport:
    """What one join core holds, and for how long it has worked."""

    number: int
    is_alive: bool
    rows: dict[Side, int]
    busy_seconds: float


class Streaming(Protocol):
    """Threads that a source goes through, whose steps need not wait for each other."""

    def submit(self, batches: Batches, interleaved: bool, clock: Clock) -> None:
        """Send a step on its way, to probe and be inserted, and then let rows expire."""
        ...

    def expire(self, clock: Clock) -> None:
        """Drop what has left the window by now, at once or with the next step."""
        ...

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on, each core if there are several."""
        ...

    def submit_last(self) -> None:
        """Send an empty step: when it has been gathered, so have all before it."""
        ...

    def gathered(self) -> Iterator[Any]:
        """Yield the parts of results as they come, for ever."""
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

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for the matches of rows that come, as they are asked for; changes nothing."""
        ...

    def insert(self, batches: Batches) -> None:
        """Insert the batches, after all their matches have been taken."""
        ...

    @property
    def can_undo(self) -> bool:
        """Whether `undo` takes out rows that were inserted, until `expire` drops any."""
        ...

    def begin(self) -> None:
        """Begin something that can be undone from here on."""
        ...

    def undo(self) -> None:
        """Let all be as it was when that began."""
        ...

    def conclude(self) -> None:
        """Keep what was done, and forget how to undo it."""
        ...

    def would_expire(self, clock: Clock) -> bool:
        """Whether `expire` drops anything, so that there is no way back."""
        ...

    @property
    def is_lasting(self) -> bool:
        """Whether what was found stays where it is when rows are stored."""
        ...

    def close(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Look for what only the end of a window gives, where windows end by now; nothing changes.

        `expire` must follow. Sliding windows have no end, so nothing comes.
        """
        ...

    def take_due(self, clock: Clock) -> Iterator[Alone]:
        """Settle the rows that nothing can match any more by now; return those that were not.

        Those of windows that close come from `close`.
        """
        ...

    def take_early(self, bound: int) -> Iterator[Alone]:
        """Give the rows before a time that are not settled, each once; they stay as they are.

        They may still match, and are taken back then.
        """
        ...

    def expire(self, clock: Clock) -> None:
        """Drop what has left the window by now."""
        ...

    @property
    def holdings(self) -> Holdings:
        """What is held now."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that are held now."""
        ...

    def report(self) -> None:
        """Raise if a part of the windows was lost since the last time."""
        ...

    # What some executors have, and others answer with None or nothing.

    @property
    def is_self_join(self) -> bool:
        """Whether both sides are one stream, stored once."""
        ...

    @property
    def manager(self) -> "Manager | None":
        """What holds both windows, if they slide and are in one piece."""
        ...

    @property
    def closing(self) -> "ClosingExecutor | None":
        """The executor itself, if its windows close."""
        ...

    @property
    def streaming(self) -> Streaming | None:
        """The executor itself, if its steps need not wait for each other."""
        ...

    @property
    def chain_pairs(self) -> Sequence[dict[Side, Chain]]:
        """The chains of both sides, of each core if there are several."""
        ...

    @property
    def store(self) -> Store | None:
        """What left rows have found so far, where that is kept beside the windows."""
        ...

    @property
    def turns(self) -> dict[Side, dict[str, int]]:
        """Which core's turn it is to store, if there are several."""
        ...

    def restore_turns(self, saved: dict[Side, dict[str, int]]) -> None:
        """Go on with the turns of before."""
        ...

    def report_cores(self) -> Sequence[CoreReport]:
        """Tell what each of several cores does."""
        ...

    @property
    def decision(self) -> Decision | None:
        """How the last window that closed was joined, where that was left to us, and why."""
        ...

    def take_inserted(self) -> list[Prepared]:
        """Return what the last step has inserted, once."""
        ...


class ClosingExecutor(Executor, Protocol):
    """Windows that close, and the rows that wait in them."""

    inserted: list[Prepared]  # by the last step; see `take_inserted`

    @property
    def rows(self) -> dict[Side, list[Prepared]]:
        """All rows that are held, those of one window in the order of their arrival."""
        ...

    @property
    def saved(self) -> dict[str, Any]:
        """What `restore` needs beside the rows."""
        ...

    def restore(self, batches: Batches, saved: Mapping[str, Any] | None = None) -> None:
        """Take back rows that were inserted before, without looking for matches."""
        ...

    @property
    def is_restored(self) -> bool:
        """Whether no window lacks rows that it had before."""
        ...

    @property
    def has_runs(self) -> bool:
        """Whether it matters to any window how its rows were pushed."""
        ...

    @property
    def span(self) -> tuple[int, int] | None:
        """The earliest time that is held or can be, and when the first window ends."""
        ...

    def find_closed(self, clock: Clock) -> dict[Side, Keys]:
        """Return the ordinals of rows whose windows end by now, where no clock tells."""
        ...

    def take_lost(self) -> list[Prepared]:
        """Return the rows of windows that have failed, once, if rows are told."""
        ...

    def join_all(self, batches: Batches, deliver: Deliver | None = None) -> Iterator[Any]:
        """Join rows that are all there, beside what is held; nothing is inserted."""
        ...

    def decide_by_rows_alone(self) -> None:
        """Let no clock, and nothing seen before, decide how windows are joined."""
        ...


class OnePiece:
    """What an executor answers that is neither a self-join nor spread over cores."""

    @property
    def is_self_join(self) -> bool:
        """Whether both sides are one stream, stored once."""
        return False

    @property
    def manager(self) -> "Manager | None":
        """What holds both windows, if they slide and are in one piece."""
        return None

    @property
    def closing(self) -> ClosingExecutor | None:
        """The executor itself, if its windows close."""
        return None

    @property
    def streaming(self) -> Streaming | None:
        """The executor itself, if its steps need not wait for each other."""
        return None

    @property
    def store(self) -> Store | None:
        """What left rows have found so far, where that is kept beside the windows."""
        return None

    @property
    def turns(self) -> dict[Side, dict[str, int]]:
        """No turns: there are no cores."""
        return {}

    def restore_turns(self, saved: dict[Side, dict[str, int]]) -> None:
        """Do nothing: there are no turns."""

    def report_cores(self) -> Sequence[CoreReport]:
        """Tell of no cores."""
        return ()

    def report(self) -> None:
        """Do nothing: rows are lost only where cores can die."""


class SlidingExecutor(OnePiece):
    """What windows that slide answer alike: they have no end, and nothing is taken out again."""

    is_lasting = False  # an index moves its rows
    can_undo = False  # what is inserted
    decision: Decision | None = None

    def begin(self) -> None:
        """Do nothing: a probe changes nothing that others see."""

    def undo(self) -> None:
        """Do nothing: rows are inserted last."""

    def conclude(self) -> None:
        """Do nothing: there is nothing to keep for `undo`."""

    def would_expire(self, clock: Clock) -> bool:
        """Whether `expire` drops anything; it may."""
        return True

    def close(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Give nothing: a match is found as soon as both rows are there."""
        return iter(())
