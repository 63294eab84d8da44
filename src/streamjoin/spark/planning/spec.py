"""What Spark sends to the workers: one join, described once and bound in each process once.

It travels sealed, beside the version of the package that made it: a worker with another version
says so, and does not open what it may misunderstand.

A query's number of partitions is known for certain in its tasks only (`tasks`), so each task places
the cores of its spec on the partitions that there are.
"""

import pickle
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin import __version__
from streamjoin.errors import StreamJoinError
from streamjoin.joins.build import make_closed_rows, make_engine, make_plan
from streamjoin.joins.engine import Engine
from streamjoin.joins.lives import LifeObserver
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivery, Names, gather
from streamjoin.joins.sliding.manager import Manager
from streamjoin.kernels.compile import Keys
from streamjoin.keys.hashing import FIXED
from streamjoin.keys.key_ranges import Range
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.how import LEFT, RIGHT
from streamjoin.options.ordering import Ordering
from streamjoin.plans.plan import SIDES, JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.spark.cores.ordered_rows import OrderedManager
from streamjoin.spark.planning.computed_keys import KEY
from streamjoin.spark.planning.results import list_sides, result_schema
from streamjoin.spark.routing.hints import SavedTable
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.session import PARTITIONS
from streamjoin.spark.state.join_facts import (
    COLUMNS,
    CONDITION,
    Facts,
    Request,
    describe_columns,
)
from streamjoin.spark.tasks import choose_labels, state_partitions

FORMAT = 2  # of the state
HOME = f"{KEY}home"  # a column that tells whether a row is at home, or a guest


@dataclass(frozen=True)
class JoinSpec:
    """A join as its cores need it; equal specs are bound to keys once per process."""

    config: JoinOptions  # of one core's engine, which knows of no order
    left: pa.Schema  # of the rows that reach the cores: the user's columns, then computed keys
    right: pa.Schema
    columns: tuple[tuple[str, ...], tuple[str, ...]]  # the user's, of each side
    routing: str
    route_part: int | None
    labels: tuple[int, ...]  # of the cores
    name: str
    request: Request
    ordering: Ordering | None = None  # of the results
    has_fixed_cores: bool = True  # otherwise there are as many cores as partitions
    saved_table: SavedTable | None = None  # of the checkpoint that the stream continues from
    # Makes who gets to know, in one attempt of a core, what becomes of each row; see `joins.lives`.
    observe: Callable[[int], LifeObserver] | None = None

    def __hash__(self) -> int:
        return hash((self.config, self.routing, self.labels, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return unseal_spec, (__version__, pickle.dumps(vars(self)))

    def place(self) -> "JoinSpec":
        """Return the spec for the partitions that the query of this task has."""
        partitions = state_partitions()
        return self if partitions is None else self.place_on(partitions)

    def place_on(self, partitions: int) -> "JoinSpec":
        """Return the spec for a query with this number of partitions."""
        if self.has_fixed_cores and self.cores > partitions:
            raise StreamJoinError(
                f"cores={self.cores} is more than the {partitions} partitions with which this "
                f"checkpoint began ({PARTITIONS}={partitions} at the time), and Spark keeps that "
                f"number; ask for cores={partitions} or leave cores out, or start with a new "
                "checkpointLocation"
            )
        cores = self.cores if self.has_fixed_cores else partitions
        return replace(self, labels=choose_labels(cores, partitions))

    @property
    def schemas(self) -> dict[Side, pa.Schema]:
        """The schema of each side's rows."""
        return {"left": self.left, "right": self.right}

    @property
    def core_schemas(self) -> dict[Side, pa.Schema]:
        """The schema of each side's rows in an engine, which knows guests."""
        if not self.has_guests:
            return self.schemas
        return {
            side: each.append(pa.field(HOME, pa.bool_())) for side, each in self.schemas.items()
        }

    @property
    def cores(self) -> int:
        """How many cores there are."""
        return len(self.labels)

    @property
    def counted(self) -> bool:
        """Whether the window counts rows."""
        return self.config.is_counted

    @property
    def numbered(self) -> bool:
        """Whether every core sees all rows, to number them, and stores every n-th of them."""
        return self.counted or self.ordering is not None

    @property
    def confined(self) -> frozenset[Side]:
        """The sides whose rows go to their home alone, where all of their matches are found."""
        follows = self.config.how.follows
        if self.waits:
            return LEFT if follows <= LEFT else frozenset()
        return follows if len(follows) == 1 else frozenset()

    @property
    def waits(self) -> bool:
        """Whether all pairs of a left row count together, so that it has to meet all at home."""
        return self.config.keep != "all" or bool(self.config.aggregate)

    @property
    def replicated(self) -> frozenset[Side]:
        """The sides whose rows are stored wherever others may look for them.

        Where a left row stays at home, all right rows come to it; where the fates of both sides
        count, rows meet at the homes of both. A row is a guest where it has no home.
        """
        if self.confined:
            return frozenset(OTHER[side] for side in self.confined)
        if self.config.how.follows:
            return LEFT | RIGHT
        return RIGHT if self.closes else frozenset()

    @property
    def has_guests(self) -> bool:
        """Whether it counts of some rows whether they match, but not at every core that has them.

        Equal rows are all at home in one core, where they are routed by hash.
        """
        is_full = len(self.config.how.follows) == 2
        return is_full and self.cores > 1 and not self.is_hashed

    @property
    def keeps_marks(self) -> bool:
        """Whether the state tells which rows are settled.

        If windows are joined when they close, all is found out then.
        """
        is_open = not self.closes or self.config.emit != "close"
        return is_open and bool(self.plan().marked)

    def gives_unable(self, side: Side) -> bool:
        """Whether rows that cannot match may have to be given."""
        how = self.config.how
        return side in how.alone or (self.config.late == "keep" and side in list_sides(self.config))

    @property
    def gives_early(self) -> bool:
        """Whether rows are given as ones without a match before it is known that they are."""
        return self.config.unmatched == "early"

    @property
    def keeps_ordinals(self) -> bool:
        """Whether rows keep their ordinals in the state."""
        return self.numbered or self.observe is not None

    @property
    def adapts(self) -> bool:
        """Whether the routing follows the data."""
        if self.cores == 1 or self.closes:
            return False
        return not self.keeps_table if self.is_hashed else self.routing != "split"

    @property
    def keeps_table(self) -> bool:
        """Whether the first table that the data have given stays.

        All matches of a row have to be found at its home, so that must not move.
        """
        return bool(self.config.how.follows) or self.waits

    @property
    def follows_order(self) -> bool:
        """Whether the order of rows within a task decides: about numbers, or which keys it samples.

        Cores that saw the rows in different orders would then not agree with each other.
        """
        return self.numbered or (self.adapts and self.is_hashed)

    @property
    def is_hashed(self) -> bool:
        """Whether rows are routed by the hash of their equalities."""
        return self.routing == "hash"

    @property
    def closes(self) -> bool:
        """Whether rows wait until their window closes: equal ones must be in one core then."""
        return self.config.joins_apart(self.plan())

    @property
    def facts(self) -> Facts:
        """What must not change while there is state; shown to users if it does."""
        request, config = self.request, self.config
        facts = {
            "format": FORMAT,
            CONDITION: request.on,
            "window": str(config.window),
            "time": request.time and list(request.time),
            "order": config.order and list(config.order),
            **{
                name: describe_columns(schema, request)
                for name, schema in zip(COLUMNS, (self.left, self.right), strict=True)
            },
            "routing": self.routing,
            "ordered": self.ordering and str(self.ordering),
            "cores": self.cores,
            "emit": config.emit if self.closes else None,
            **request.given,
            **dict(request.settings),
        }
        return {name: value for name, value in facts.items() if value is not None}

    def plan(self) -> JoinPlan:
        """Return the plan, bound once per process, whose hashes are that process's secret."""
        return plan_of(self)

    def routing_plan(self) -> JoinPlan:
        """Return the plan by which rows are dealt out, whose hashes are alike in all processes."""
        return routing_plan_of(self)

    @property
    def _deliver(self) -> Callable[[Found, pa.Schema], Iterator[Delivery]]:
        return partial(_gather, names=self.names, schema=self.result_schema, ordering=self.ordering)

    def make_manager(self, engine: Engine) -> Manager:
        """Return what joins tables, with the result of an engine."""
        outcome, schema = engine.outcome, self.result_schema

        def deliver(found: Found) -> Iterator[Delivery]:
            return self._deliver(found, schema) if outcome.is_inner else outcome.gather(found)

        return make_closed_rows(self.config, engine.plan, deliver).make_manager(engine.plan, 1)

    def make_observer(self, core: int) -> LifeObserver | None:
        """Return who gets to know what becomes of a core's rows, in one attempt."""
        return None if self.observe is None else self.observe(core)

    def make_engine(self, observer: LifeObserver | None = None, has_state: bool = True) -> Engine:
        """Return an engine without rows, with a result of the user's columns.

        With ``has_state`` it tells which rows are settled, for whoever keeps that, and its rows
        tell whether they are guests. Tables need neither.
        """
        deliver, ordering = self._deliver, self.ordering
        manager = Manager if ordering is None else partial(OrderedManager, ordering=ordering)
        engine = make_engine(
            self.config,
            self.core_schemas if has_state else self.schemas,
            deliver=deliver,
            numbers=self.numbered,
            manager=manager,
            observer=observer,
            names=self.names,
            names_settled=has_state and self.keeps_marks,
        )
        engine.outcome.schema = self.result_schema
        engine.outcome.home = HOME if has_state and self.has_guests else None
        engine.sees_all = False
        return engine

    @property
    def names(self) -> Names:
        """The columns of each side that users know."""
        return dict(zip(SIDES, self.columns, strict=True))

    @property
    def result_schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return result_schema(self.config, self.schemas, self.names, self.ordering)

    def route_keys(self, batch: Prepared) -> Keys:
        """Return the key by which each row is stored."""
        assert batch.plan.seed == FIXED, "rows are dealt out by `routing_plan`"
        if self.is_hashed:
            return batch.plan.hash_equalities(batch.keys)
        if self.route_part is None:
            return np.zeros(len(batch), np.int64)
        return batch.keys.ranges[self.route_part]

    def route_ranges(self, batch: Prepared, keys: Keys) -> list[Range]:
        """Return the ranges of keys that each row probes."""
        if self.is_hashed or self.route_part is None:
            return [(keys, keys)]
        return batch.part_ranges(self.route_part)

    def first_table(self) -> RoutingTable | None:
        """Return the routing table that needs no data; None if the routing needs some."""
        if self.adapts:
            return None
        is_even = self.is_hashed and (self.closes or self.keeps_table)
        return RoutingTable.even(self.cores) if is_even else RoutingTable.split(self.cores)


def unseal_spec(version: str, state: bytes) -> JoinSpec:
    """Open a spec in a worker, if it has the version of the package that sealed it."""
    if version != __version__:
        raise StreamJoinError(
            f"the driver runs streamjoin {version}, and this worker has streamjoin {__version__} "
            f"({sys.executable} on {platform.node()}); install the driver's version there: pip "
            f"install 'streamjoin[spark]=={version}', and start the application again"
        )
    return JoinSpec(**pickle.loads(state))


def _gather(
    found: Found, _: pa.Schema, names: Names, schema: pa.Schema, ordering: Ordering | None
) -> Iterator[Delivery]:
    return gather(found, schema, names, ordering)


@lru_cache(maxsize=32)
def plan_of(spec: JoinSpec) -> JoinPlan:
    """Bind a spec, with hashes that are this process's secret."""
    plan = make_plan(spec.config, spec.schemas)
    return replace(
        plan,
        names_rows=spec.observe is not None,
        follows=spec.config.how.follows,
        defers=spec.waits and not spec.config.closes,
    )


@lru_cache(maxsize=32)
def routing_plan_of(spec: JoinSpec) -> JoinPlan:
    """Bind a spec, with hashes that are alike in all processes."""
    return plan_of(spec).seeded(FIXED)
