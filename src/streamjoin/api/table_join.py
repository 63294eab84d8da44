"""What users call to join two finite tables."""

from collections.abc import Iterator
from typing import Any, Unpack

import pyarrow as pa

from streamjoin.api.results import Results
from streamjoin.conditions import Condition
from streamjoin.errors import StreamJoinError
from streamjoin.joins.build import make_closed_rows, make_engine
from streamjoin.joins.engine import Engine
from streamjoin.joins.executor import Clock, Deliver
from streamjoin.joins.lives import LifeObserver
from streamjoin.joins.outcomes.outcome import leftovers
from streamjoin.joins.outcomes.reduction import reduce_set
from streamjoin.joins.pairs.deliver import leave_and_name
from streamjoin.kernels.interrupts import hold_signals, pass_signals
from streamjoin.keys.operands import Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.options import TABLES, TableOptions
from streamjoin.options.signatures import show_options
from streamjoin.options.values import ColumnPair
from streamjoin.plans.batches import as_batch, check_unique
from streamjoin.plans.prepared import Prepared
from streamjoin.windows import Window

Batches = dict[Side, pa.RecordBatch]


@show_options(TABLES)
def join_tables(
    left: Any,
    right: Any,
    on: str | Condition,
    window: Window | str | None = None,
    time: ColumnPair = None,
    **options: Unpack[TableOptions],
) -> pa.Table:
    """Join two finite tables by any condition, with or without a window.

    All rows are known from the start, so algorithms for rows that keep coming (``"shj_jm"`` and
    the like) are refused.

    {options}

    >>> trades = pa.table({"price": [10.0, 20.0]})
    >>> quotes = pa.table({"price": [10.02, 15.0]})
    >>> join_tables(trades, quotes, on="abs(l.price - r.price) <= 0.05").to_pylist()
    [{'price': 10.0, 'price_right': 10.02}]
    """
    config = JoinOptions.check_given(on, window, time, TABLES.read(options), is_finite=True)
    with hold_signals(provisional=True):
        engine, batches = _open(config, left, right)
        try:
            parts = list(_join(config, engine, batches, engine.outcome.fetch_whole))
        except MemoryError as error:
            raise StreamJoinError(
                f"the joined rows of {batches['left'].num_rows:,} and "
                f"{batches['right'].num_rows:,} rows do not fit into memory ({error}); "
                "find_matches takes the same arguments and leaves the matches where they are, to "
                "be counted, or fetched a batch at a time"
            ) from error
        return pa.Table.from_batches([rows for part in parts for rows in part.rows], engine.schema)


@show_options(TABLES)
def find_matches(
    left: Any,
    right: Any,
    on: str | Condition,
    window: Window | str | None = None,
    time: ColumnPair = None,
    **options: Unpack[TableOptions],
) -> Results:
    """Join two finite tables like `join_tables`, without building the joined table.

    Use it when the matches may not fit into memory: count them, or fetch the joined rows a batch at
    a time.

    {options}

    >>> trips = pa.table({"distance": [3, 1, 2], "fare": [10, 30, 20]})
    >>> found = find_matches(trips, trips, on="l.distance > r.distance and l.fare < r.fare")
    >>> found.count()
    3
    >>> sum(batch.num_rows for batch in found)
    3
    """
    config = JoinOptions.check_given(on, window, time, TABLES.read(options), is_finite=True)
    with hold_signals(provisional=True):
        engine, batches = _open(config, left, right)
        fetch = engine.outcome.fetch
        deliver = leave_and_name if engine.outcome.how.gives_pairs else fetch
        found = list(_join(config, engine, batches, deliver))
        return Results(found, engine.schema, fetch, threads=config.threads)


def _join(config: JoinOptions, engine: Engine, batches: Batches, deliver: Deliver) -> Iterator[Any]:
    """Join two tables; ``deliver`` turns matches into what is returned."""
    push = engine.prepare(batches, config.threads)
    engine.arrive(push)
    followed = engine.follow_rows(push.prepared)
    if config.is_counted:  # arrival decides
        items = _probe_counted(engine, followed, deliver)
    else:
        for batch in followed.values():
            batch.arrival = None  # all of the other table's rows
        if engine.executor.closing is not None:
            items = engine.executor.closing.join_all(followed, deliver)
        else:
            closed = make_closed_rows(config, engine.plan, deliver, reduction=engine.reduction)
            items = closed.join(followed, deliver)
    for item in items:
        yield engine.take(item)
    yield from engine.give_left_out(push)
    for alone in leftovers(followed):
        yield engine.take(alone)
    engine.end_lives(Clock({}, is_over=True))


def _probe_counted(
    engine: Engine, followed: dict[Side, Prepared], deliver: Deliver
) -> Iterator[Any]:
    """Find the matches of tables in a count window, or what they are reduced to."""
    if engine.reduction is None:
        return engine.manager.search(followed, engine.numbers, deliver)

    def find(sides: dict[Side, Prepared], reduce: Deliver) -> Iterator[Any]:
        return engine.manager.search(sides, engine.numbers, reduce)

    return reduce_set(engine.reduction, followed, find, deliver)


def _open(
    config: JoinOptions, left: Any, right: Any, observer: LifeObserver | None = None
) -> tuple[Engine, Batches]:
    """Bind a configuration to two tables."""
    with pass_signals():  # they may be readers that wait for more
        batches: Batches = {"left": as_batch(left), "right": as_batch(right)}
    for side, batch in batches.items():
        check_unique(batch.schema, side)
    schemas = {side: each.schema for side, each in batches.items()}
    return make_engine(config, schemas, observer=observer), batches
