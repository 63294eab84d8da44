"""What the steps of a join cost on this machine: the simulation's only input.

A rehearsal carries out the steps of a join on the calling thread, one stage after the other, and
takes the time of each: preparing at the source, searching and storing at every core, merging. No
channel is in the way and no thread waits. Two cores on two processors share memory and the
interpreter's lock; where that is to be simulated, two rehearsals of different data go on at once,
in ``company``. Otherwise there is one, as if every node had a processor of its own::

    hop         there and back through two channels, by two threads, halved
    search      mean over cores and steps, for some numbers of cores; between them a straight line
                over 1 / cores (a nested loop's search takes so long for each stored row, and
                besides a time that does not depend on them), beyond them the last such line
    extra       the core whose turn it is to store the other stream searches longer: it has begun
                a new subwindow of it, and has not yet dropped the oldest; likewise
    store       a batch, by the core whose turn it is; likewise
    tidy        all others, after a batch: sealing and expiring
    collect     a merger, for each of its inputs; from mergers with one input and with many
    crossing    the handshake join: comparing a batch with one that it has crossed in flight
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median
from threading import Thread
from time import perf_counter, sleep

import numpy as np

from benchmarks.harness.turns import time_call
from benchmarks.splitjoin.beds import Bed, Load
from benchmarks.splitjoin.handshake import ChainedCore, Expiry, whose_turn
from benchmarks.splitjoin.simulation import Costs
from streamjoin.joins.messages import Part, Work
from streamjoin.joins.split import gathering
from streamjoin.joins.split.executor import SplitExecutor
from streamjoin.joins.split.gathering import Combiner, Gatherer, Mixer
from streamjoin.kernels.channels import Channel, ClosedError
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.values import Ordered
from streamjoin.plans.plan import SIDES
from streamjoin.plans.prepared import Prepared

ROOM = 1 << 12  # parts of one step
ECHOES = 1000


@dataclass(frozen=True)
class Curve:
    """The costs of one load, measured for some numbers of cores."""

    measured: Mapping[int, Costs]

    def at(self, cores: int) -> Costs:
        """Return the costs of so many cores."""
        numbers = sorted(self.measured)
        nearest = max((each for each in numbers if each <= cores), default=numbers[0])
        return replace(
            self.measured[nearest],
            **{name: self._line(name, 1 / cores) for name in ("search", "extra", "store")},
        )

    def _line(self, name: str, share: float) -> float:
        """Return a cost of a core that has such a share of the windows."""
        points = sorted((1 / cores, getattr(costs, name)) for cores, costs in self.measured.items())
        shares, costs = zip(*points, strict=True)
        if share >= shares[0] or len(shares) == 1:
            return float(np.interp(share, shares, costs))
        slope = (costs[1] - costs[0]) / (shares[1] - shares[0])
        least = costs[0] * share / shares[0]  # were there nothing but the stored rows
        return float(np.clip(costs[0] - slope * (shares[0] - share), least, costs[0]))


def measure_curve(
    load: Load, ordered: Ordered, cores: list[int], hop: float, seconds: float
) -> Curve:
    """Rehearse a load with some numbers of cores."""
    chain = measure_chain(load)
    found = {number: measure_costs(load, number, ordered, seconds) for number in cores}
    few, many = min(cores), max(cores)
    # A rehearsal has one merger for all cores.
    growth = found[many].merge + found[many].finish - found[few].merge - found[few].finish
    own = {name: getattr(chain, name) for name in ("monitor", "crossing", "expire")}
    own |= {"hop": hop, "collect": max(growth, 0.0) / max(many - few, 1)}
    own |= {name: getattr(found[few], name) for name in ("merge", "finish", "prepare")}
    return Curve({number: replace(costs, **own) for number, costs in found.items()})


def measure_costs(
    load: Load,
    cores: int,
    ordered: Ordered,
    seconds: float,
    company: int = 1,
    rests: bool = False,
) -> Costs:
    """Rehearse a join, as many times at once as there is ``company``."""
    loads = [replace(load, seed=load.seed + number) for number in range(company)]
    beds = [Bed(each, cores, ordered) for each in loads]
    found: list[Costs] = []
    threads = [
        Thread(target=lambda bed=bed: found.append(rehearse(bed, seconds, rests))) for bed in beds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = ("prepare", "search", "extra", "store", "tidy", "merge", "finish")
    return Costs(hop=0.0, **{name: fmean(getattr(each, name) for each in found) for name in names})


def measure_hot(load: Load, cores: int, ordered: Ordered, seconds: float) -> Costs:
    """Return the costs in a closed loop, where another processor is busy a part of the time.

    That part is what all nodes have to do for a batch beyond what the busiest core does; between a
    rehearsal alone and one in company, costs are taken to grow in proportion.
    """
    alone = measure_costs(load, cores, ordered, seconds)
    crowded = measure_costs(load, cores, ordered, seconds, company=2)
    busiest = alone.search + alone.tidy + (alone.extra + alone.store) / cores
    others = alone.prepare + alone.merge + alone.finish + (cores - 1) * busiest
    part = min(others / busiest, 1.0)
    pairs = {name: (value, getattr(crowded, name)) for name, value in vars(alone).items()}
    return Costs(**{name: one + part * (two - one) for name, (one, two) in pairs.items()})


def rehearse(bed: Bed, seconds: float, rests: bool = False) -> Costs:
    """Carry out steps on this thread; return what each stage costs.

    A join that ``rests`` after each step as long as it took runs at half load; being late for the
    next is a part of preparing it then.
    """
    join, engine = bed.join, bed.engine
    assert isinstance(join, SplitExecutor)
    outlets = [Channel[Part](ROOM) for _ in join.cores]
    gatherer, merging = watch_root(join, outlets)
    prepare, search, extra, store, tidy, finish = (list[float]() for _ in range(6))
    begin = due = perf_counter()
    while len(finish) < 4 or perf_counter() - begin < seconds:
        sleep(max(due - perf_counter(), 0.0))
        awake = start = due if rests else perf_counter()
        batches = bed.source.next()
        coming = engine.prepare(batches)
        engine.count(coming)
        join.sort_batches(coming.prepared)
        step = join.next_step(coming.prepared, False, None, False)
        prepare.append(perf_counter() - start)
        work = Work(join.living, step, inserts=True, clock=engine.clock)
        [side] = batches
        holders = [turn_holder(join, each) for each in (OTHER[side], side)]
        spans, after = work_through(join, work, outlets)
        search.append(average_others(spans, holders[0], spans[0]))
        extra.append(spans[holders[0]] - search[-1])
        tidy.append(average_others(after, holders[1], 0.0))
        store.append(after[holders[1]] - tidy[-1])
        start = perf_counter()
        while not gatherer.take().ends:
            pass
        finish.append(perf_counter() - start)
        if bed.load.timed:
            engine.follow(0)
        due = perf_counter() + (perf_counter() - awake if rests else 0.0)
    merge = fmean(merging[1:]) if merging else 0.0
    return Costs(
        hop=0.0,
        prepare=median(prepare[1:]),
        search=fmean(search[1:]),
        extra=max(fmean(extra[1:]), 0.0),
        store=max(fmean(store[1:]), 0.0),
        tidy=fmean(tidy[1:]),
        merge=merge,
        finish=max(fmean(finish[1:]) - merge, 0.0),
    )


def work_through(
    join: SplitExecutor, work: Work, outlets: list[Channel[Part]]
) -> tuple[list[float], list[float]]:
    """Let one core after the other work; return how long each searched, and what came after."""
    spans, after = [], []
    for core, outlet in zip(join.cores, outlets, strict=True):
        start = perf_counter()
        for part in core.run_work(work):
            outlet.put(part)
        [span] = part.spans  # of the last part
        spans.append(span.ended - span.begun)
        after.append(perf_counter() - start - spans[-1])
    return spans, after


def average_others(times: list[float], holder: int, alone: float) -> float:
    """Return the mean time of all cores but one; ``alone`` if there is no other."""
    others = times[:holder] + times[holder + 1 :]
    return fmean(others) if others else alone


def turn_holder(join: SplitExecutor, side: Side) -> int:
    """Return the core that stores this stream's rows now."""
    return whose_turn(join.cores[0].turns[side].number, side, len(join.cores))


def watch_root(join: SplitExecutor, outlets: list[Channel[Part]]) -> tuple[Gatherer, list[float]]:
    """Return the root of a gathering tree of one level, and the list of times that it merges."""
    times: list[float] = []
    if join.ordering is None:
        inlet = outlets[0]
        outlets[:] = [inlet] * len(outlets)
        return Mixer(inlet, len(outlets)), times
    merger = gathering.Merger(outlets, join.ordering)
    take = merger.take

    def watched() -> Part:
        start = perf_counter()
        part = take()
        times.append(perf_counter() - start)
        return part

    merger.take = watched  # type: ignore[method-assign]
    return Combiner(merger, join.schema), times


def measure_chain(load: Load) -> Costs:
    """Return what the handshake join's own work costs: monitoring, crossing, expiring."""
    bed = Bed(load, 2, form="handshake")
    [core, *_] = bed.join.cores
    assert isinstance(core, ChainedCore)
    monitor, crossing, expire = (list[float]() for _ in range(3))
    for number in range(4):
        prepared: dict[Side, Prepared] = {}
        for _ in SIDES:
            coming = bed.engine.prepare(bed.source.next())
            bed.engine.count(coming)
            prepared |= coming.prepared
        left, right = prepared["left"], prepared["right"]
        for batch in (left, right):
            batch.sorted_rows(core.manager.chains["left"].layout)
        # Made once for all that were crossed.
        alone = core.manager.chains["left"].standalone_subwindow(left)
        crossing.append(time_call(list, core.manager.probe_targets([(right, [alone])])))
        for before, times in ((None, monitor), (0, expire)):
            times.append(time_call(list, core.take(Expiry(number, "left", before))))
    return Costs(
        0.0, 0.0, monitor=median(monitor), crossing=median(crossing), expire=median(expire)
    )


def measure_hop() -> float:
    """Return T_CL: how long it takes until what one thread puts is what another gets."""
    there, back = Channel[int](4), Channel[int](4)

    def echo() -> None:
        try:
            while True:
                back.put(there.get())
        except ClosedError:
            return

    Thread(target=echo, daemon=True).start()
    times = []
    for number in range(ECHOES):
        start = perf_counter()
        there.put(number)
        back.get()
        times.append((perf_counter() - start) / 2)
    there.close()
    return float(np.median(times))
