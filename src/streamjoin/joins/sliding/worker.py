"""A worker: carries out the commands of a manager, and keeps what it finds until it is asked for.

In one process all workers see all subwindows, so a probe is cut by rows: each worker takes a part
of the key range, and looks into every subwindow (PanJoin III-G3). On Spark a worker is a join core,
with the subwindows of its share of the rows.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from streamjoin.joins.candidates import Found
from streamjoin.joins.sliding.commands import Command, Create, Expire, Insert, Probe
from streamjoin.joins.sliding.whole_window import WholeWindow
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.plans.plan import Layout

T = TypeVar("T")


def carry_out(command: Command, deliver: Callable[[Found], Iterator[T]]) -> Iterator[T]:
    """Carry out a command; what a probe finds goes through ``deliver``, as it is asked for."""
    match command:
        case Probe():
            yield from probe(command, deliver)
        case Insert():
            insert(command)
        case Create():
            create(command)
        case Expire():
            expire(command)


def create(command: Create) -> None:
    """Seal the newest subwindow and put an empty one behind it."""
    chain = command.chain
    if chain.subwindows:
        chain.subwindows[-1].seal()
    chain.subwindows.append(chain.make_subwindow(command.capacity, command.start))


def insert(command: Insert) -> None:
    """Add rows to their subwindow."""
    chain = command.chain
    late = command.late
    if late is None:
        chain.subwindows[-1].insert(command.batch)
    else:
        late.insert_late(command.batch, lambda: chain.make_index(late.structure, 0))


def expire(command: Expire) -> None:
    """Drop a subwindow, or some of its rows."""
    chain = command.chain
    if command.before is not None:
        assert isinstance(command.subwindow, WholeWindow)
        command.subwindow.forget(command.before)
        return
    chain.subwindows = [held for held in chain.subwindows if held is not command.subwindow]


def probe(command: Probe, deliver: Callable[[Found], Iterator[T]]) -> Iterator[T]:
    """Search the subwindows for the rows that the command names."""
    batch, rows = command.batch, slice(command.first, command.last)
    asked: dict[Layout, Any] = {}
    for subwindow, checks in command.targets:
        layout = subwindow.layout
        order = batch.ordered(layout.orders[-1]).order[rows]
        if layout not in asked:
            asked[layout] = subwindow.ask(batch, rows)
        for matches in subwindow.search(asked[layout]):
            checkpoint()
            yield from deliver(Found(batch, subwindow, matches, order, checks, command.mirrored))
