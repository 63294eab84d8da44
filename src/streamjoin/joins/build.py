"""From a configuration and two schemas to what joins: an engine, or rows that are all there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from streamjoin.choice.algorithm import Adviser
from streamjoin.choice.calibration_file import load_calibration
from streamjoin.conditions import Condition, is_symmetric
from streamjoin.expressions.depth import retry_deep
from streamjoin.indexes.catalogue import BY_EQUALITY, EAGER, LAZY
from streamjoin.joins.collector import Collector
from streamjoin.joins.engine import Engine
from streamjoin.joins.equality.algorithms import make_lazy
from streamjoin.joins.equality.protocol import Lazy
from streamjoin.joins.executor import Deliver, Executor
from streamjoin.joins.lives import LifeObserver, RowLives
from streamjoin.joins.outcomes.aggregates.aggregation import Aggregation
from streamjoin.joins.outcomes.aggregates.reduction import Aggregate
from streamjoin.joins.outcomes.keep.keep import Keep
from streamjoin.joins.outcomes.outcome import Outcome
from streamjoin.joins.outcomes.ranking.ranks import bind_ranking
from streamjoin.joins.outcomes.reduction import Reduction
from streamjoin.joins.pairs.candidates import Found
from streamjoin.joins.pairs.deliver import Delivery, Names, gather
from streamjoin.joins.sessions.join import SessionJoin
from streamjoin.joins.sliding.chain import Chain, make_chains
from streamjoin.joins.sliding.deferred import CountedManager, DeferredManager
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.sliding.self_join import SelfJoin
from streamjoin.joins.split.executor import SplitExecutor
from streamjoin.joins.tumbling.closed import ClosedRows
from streamjoin.joins.tumbling.eager_window import EagerWindow, Recipe
from streamjoin.joins.tumbling.join import TumblingJoin
from streamjoin.keys.hashing import process_seed
from streamjoin.keys.operands import Schemas, Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.rules import check_equality, check_key, check_ranges
from streamjoin.plans.binding import bind, bind_order
from streamjoin.plans.limits import Limits, limits_in_use
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared
from streamjoin.plans.times import ticks_within


@retry_deep
def make_plan(
    config: JoinOptions,
    schemas: dict[Side, pa.Schema],
    seed: int | None = None,
    limits: Limits | None = None,
) -> JoinPlan:
    """Bind a configuration to the schemas of both sides; refuse an algorithm that does not fit.

    ``seed`` is that of hashes, the secret of this process if None; ``limits`` are those in use if
    None.
    """
    condition = config.condition(schemas["left"], schemas["right"])
    plan = bind(condition, config.window, config.time, schemas)
    check_equality(config.algorithm, bool(plan.own_equalities), config.on)
    check_key(config.algorithm, plan.has_key, config.on)
    check_ranges(config.algorithm, len(plan.open_ranges), config.on)
    defers = config.reduces and not config.closes
    plan = replace(plan, limits=limits or limits_in_use(), defers=defers)
    if config.patience_us is not None:
        plan = replace(plan, patience=ticks_within(config.patience_us, plan))
    return plan.seeded(process_seed() if seed is None else seed)


@retry_deep
def make_engine(
    config: JoinOptions,
    schemas: dict[Side, pa.Schema],
    is_self: bool = False,
    deliver: Callable[[Found, pa.Schema], Iterator[Delivery]] = gather,
    numbers: bool = False,
    manager: Callable[..., Manager] = Manager,
    seed: int | None = None,
    observer: LifeObserver | None = None,
    limits: Limits | None = None,
    names: Names | None = None,
    names_settled: bool = False,
) -> Engine:
    """Make the engine that joins what a configuration describes.

    ``deliver`` is what becomes of matches, if not joined rows; with ``numbers`` rows are
    numbered even if nothing here asks for it; ``manager`` makes who holds the windows; ``seed`` is
    that of hashes, the secret of this process if None; ``observer`` gets to know what becomes of
    each row; ``limits`` are those in use if None; ``names`` are the columns of each side that are
    given, all if None; with ``names_settled``, `Outcome.told` names the rows that are settled.
    """
    plan, algorithm = make_plan(config, schemas, seed, limits), config.algorithm
    outcome = make_outcome(config, schemas, names)
    reduction = make_reduction(config, plan, outcome)
    plan = replace(
        plan,
        names_rows=observer is not None,
        follows=config.how.follows,
        names_settled=names_settled,
        ranked=frozenset() if reduction is None else reduction.parts,
    )
    if names_settled:
        outcome.told = {"left": [], "right": []}
    schema = outcome.schema
    ordering = config.ordering
    numbers = numbers or ordering is not None or observer is not None
    threads, chooses = config.threads_each, algorithm == "auto"

    def given(found: Found) -> Iterator[Delivery]:
        return deliver(found, schema) if outcome.is_inner else outcome.gather(found)

    def chains() -> dict[Side, Chain]:
        numbered = numbers or plan.counted is not None
        return make_chains(plan, config.window, config.algorithm, numbered, threads, config.cores)

    join: Executor
    symmetric = None
    if is_self and plan.same_keys and not plan.follows:
        symmetric = symmetry(config, config.condition(schemas["left"], schemas["right"]))
    if config.joins_apart(plan):
        join = make_closing(config, plan, given, reduction)
    elif config.is_split:
        managers = [Manager(plan, chains(), given, threads, chooses) for _ in range(config.cores)]
        join = SplitExecutor(managers, ordering, schema)
    elif reduction is not None:
        kind = DeferredManager if plan.counted is None else CountedManager
        join = kind(plan, chains(), given, threads, chooses, reduction=reduction)
    elif symmetric is not None:
        join = SelfJoin(plan, chains(), given, threads, chooses, symmetric)
    else:
        join = manager(plan, chains(), given, threads, chooses)
    order = None if config.order is None else bind_order(config.order, schemas)
    wait = None if config.batch_us is None else config.batch_us / 1e6
    collector = Collector(config.batch_rows, wait)
    lives = None if observer is None else RowLives(plan, observer)
    return Engine(plan, join, outcome, order, numbers, collector, lives, reduction)


def make_reduction(config: JoinOptions, plan: JoinPlan, outcome: Outcome) -> Reduction | None:
    """Return what becomes of all pairs of a left row together; None if each is given by itself."""
    if outcome.aggregation is not None:
        return Aggregate(outcome.aggregation, outcome)
    if config.keep == "all":
        return None
    schemas = plan.schemas
    condition = config.condition(schemas["left"], schemas["right"])
    return Keep(bind_ranking(config, condition, plan), config.k)


def make_outcome(config: JoinOptions, schemas: Schemas, names: Names | None = None) -> Outcome:
    """Make what gives pairs, and rows without one; ``names`` as in `make_engine`."""
    aggregation = None
    if config.aggregate:
        aggregation = Aggregation.bind(config.aggregate, schemas, config.time)
    keeps_late, retracts = config.late == "keep", config.unmatched == "early"
    return Outcome(config.how, schemas, config.indicator, keeps_late, retracts, aggregation, names)


def make_closing(
    config: JoinOptions, plan: JoinPlan, deliver: Deliver, reduction: Reduction | None = None
) -> TumblingJoin | SessionJoin:
    """Return what joins windows that close, without an index."""
    adviser = adviser_of(config)
    closed = make_closed_rows(config, plan, deliver, adviser, reduction)
    if plan.longest_pause is not None:
        return SessionJoin(plan, closed, deliver, config.emit == "eager", adviser)
    if config.emit == "close" or (config.emit == "auto" and config.algorithm in LAZY):
        return TumblingJoin(plan, closed, None, deliver, adviser)

    def open_window() -> EagerWindow | None:
        name = config.algorithm if config.algorithm in EAGER else adviser.choose_open()
        if name in LAZY:
            return None
        return EagerWindow(closed.within_one, Recipe(name, closed.threads, config.tuning))

    return TumblingJoin(plan, closed, open_window, deliver, adviser)


def make_closed_rows(
    config: JoinOptions,
    plan: JoinPlan,
    deliver: Deliver,
    adviser: Adviser | None = None,
    reduction: Reduction | None = None,
) -> ClosedRows:
    """Return what joins rows that are all there."""
    structure = "auto" if config.algorithm in BY_EQUALITY else config.algorithm
    judge = adviser or adviser_of(config)

    def make_manager(inner: JoinPlan, threads: int) -> Manager:
        chains = make_chains(inner, None, structure, plan.names_rows, threads, 1)
        return Manager(inner, chains, deliver, threads, structure == "auto")

    def choose(sides: Mapping[Side, Prepared], threads: int) -> Lazy | None:
        if config.algorithm in LAZY:
            return make_lazy(config.algorithm, threads, **dict(config.tuning))
        if structure != "auto" or sides["left"].plan.open_ranges:
            return None
        return make_lazy(judge.choose_closed(sides), threads)

    return ClosedRows(plan, make_manager, choose, config.threads, reduction)


def adviser_of(config: JoinOptions) -> Adviser:
    """Build the adviser that picks the algorithm where it is ``"auto"``."""
    decides, costs = config.algorithm == "auto", load_calibration().windows
    return Adviser(config.optimize, config.emit, config.threads, costs, decides)


def symmetry(config: JoinOptions, condition: Condition) -> bool | None:
    """Whether (a, b) matches whenever (b, a) does; None if one chain cannot serve both."""
    if len(set(config.order or ("",))) > 1:  # two orders need two chains
        return None
    band = None if config.window is None else config.window.shape.band_us
    return band is not None and band[0] == -band[1] and is_symmetric(condition)
