"""SplitJoin against the handshake join (figures 12 and 13), measured and simulated.

One and two cores are measured, and four and eight that share this machine's two processors. More
are simulated, with a processor for each node and costs that are measured here (`rehearsal`);
their labels say so. What the simulation is worth is seen at one and two cores, where it runs on
two processors and must come within a quarter of what was measured, in throughput and in latency.

SplitJoin's results have the outer order, as in the paper, or none, as the handshake join's: then
the two differ in nothing but the way that batches take.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series
from benchmarks.harness.turns import take_turns
from benchmarks.splitjoin.beds import SECONDS, Bed, Form, Load, name_cores
from benchmarks.splitjoin.handshake import credits_of
from benchmarks.splitjoin.latency import SHARES, Stages, count_batches, divide_times
from benchmarks.splitjoin.rehearsal import (
    Curve,
    measure_costs,
    measure_curve,
    measure_hop,
    measure_hot,
)
from benchmarks.splitjoin.simulated_flows import (
    HandshakeFlow,
    SplitFlow,
    run_closed_loop,
    run_open_loop,
    turn_length,
)
from benchmarks.splitjoin.simulation import Costs, Flow, Machine
from streamjoin.joins.split.executor import CHANNEL_DEPTH, FANOUT
from streamjoin.options.values import Ordered

REHEARSED = [1, 2, 4, 16, 64]  # cores
PROCESSORS = 2
ERROR = 0.25
SHARED_CORES = Sized([4, 8], quick=list[int]())  # that share the processors
SIMULATED_CORES = Sized(full=[1, 2, 4, 16, 64, 256, 1024], quick=[1, 2, 8, 64])
MESSAGES = Sized(full=120, quick=40)  # in a simulation
ROUNDS = Sized(full=3, quick=1)  # in which what is simulated and what is measured take turns
RIVALS: dict[str, tuple[Form, Ordered]] = {
    "SplitJoin": ("split", "outer"),
    "SplitJoin, no order": ("split", "none"),
    "handshake join": ("handshake", "none"),
}
Curves = dict[str, Curve]


def race_rivals(report: Report, loads: Sequence[Load], scale: Scale) -> None:
    """Compare the two flows, and the simulation with what was measured."""
    seconds = scale.pick(SECONDS)
    with report.step("costs of a hop"):
        hop = measure_hop()
    report.detail("simulation: a hop, ms", 1e3 * hop)
    for load in loads:
        curves: dict[Ordered, Curve] = {}
        for order in ("outer", "none"):
            about = f"{load}, {order} order"
            with report.step(f"costs: {about}"):
                curve = measure_curve(load, order, REHEARSED, hop, seconds / 2)
            costs = {cores: vars(each) for cores, each in curve.measured.items()}
            report.detail(f"simulation: costs in seconds, {about}", costs)
            curves[order] = curve
        check_simulation(report, load, hop, scale)
        each = {name: curves[order] for name, (_, order) in RIVALS.items()}
        compare_flows(report, load, each, scale)


def check_simulation(report: Report, load: Load, hop: float, scale: Scale) -> None:
    """Claim that the simulation gives what is measured, with as many processors as there are.

    Costs, throughput and latency are measured in turns, so that they share bad moments. Throughput
    is that of a join which never rests. Latency is taken at half the rate, so its costs are
    measured with rests: a thread that has slept wakes late, and finds little of its data in the
    caches.
    """
    seconds = scale.pick(SECONDS)
    for cores in (1, 2):
        about = f"{load}, {name_cores(cores)}"
        rates, latencies = Pairs(), Pairs()
        with report.step(f"simulation vs measured: {about}"):
            bed = Bed(load, cores, "outer")
            bed.rate(seconds / 4)
            for _ in range(scale.pick(ROUNDS)):
                hot = replace(measure_hot(load, cores, "outer", seconds / 2), hop=hop)
                actual = bed.rate(seconds / 2)
                batches = simulate_rate("SplitJoin", load, hot, cores, scale, PROCESSORS)
                rates.add(load.batch * batches, actual)
                rate = SHARES[0] * actual
                passages = bed.paced(rate, count_batches(bed, rate, seconds / 2))
                rested = measure_costs(load, cores, "outer", seconds / 2, cores, rests=True)
                simulated = simulate_stages(
                    "SplitJoin", load, replace(rested, hop=hop), cores, rate, scale, PROCESSORS
                )
                latencies.add(
                    *(median_latency(each) for each in (simulated, divide_times(passages)))
                )
            bed.close()
        rates.claim(report, f"simulated vs measured throughput: {about}", "rows/s")
        latencies.claim(report, f"simulated vs measured latency: {about}", "s")


@dataclass(frozen=True)
class Pairs:
    """What was simulated, and what was measured beside it."""

    simulated: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)

    def add(self, simulated: float, measured: float) -> None:
        """Add a pair."""
        self.simulated.append(simulated)
        self.measured.append(measured)

    def claim(self, report: Report, name: str, unit: str) -> None:
        """Claim that the medians differ little."""
        ours = Series(f"{name}, simulated", tuple(self.simulated), unit)
        theirs = Series(f"{name}, measured", tuple(self.measured), unit)
        error = abs(ours.median / theirs.median - 1)
        report.at_most(name, error, ERROR, ours, theirs, "relative error of the medians")


def median_latency(stages: Sequence[Stages]) -> float:
    """Return the median latency."""
    return median(each.total for each in stages)


def compare_flows(report: Report, load: Load, curves: Curves, scale: Scale) -> None:
    """Figures 12 and 13."""
    seconds = scale.pick(SECONDS)
    about = f"{load}, batches of {load.batch:,}"
    rates = Figure(f"fig12_{load.slug}", about, "cores", "rows/s, both streams")
    visits = Figure(f"fig13_{load.slug}", about, "cores", "visiting latency, ms")
    stages = Figure(f"fig18_{load.slug}_simulated", about, "cores", "median latency, ms")
    for cores in (1, 2, *scale.pick(SHARED_CORES)):
        with report.step(f"figures 12 and 13: {load}, {name_cores(cores)}"):
            shared = "" if cores <= PROCESSORS else f", threads on {PROCESSORS} processors"
            beds = {name: Bed(load, cores, order, form) for name, (form, order) in RIVALS.items()}
            rated = {name: partial(bed.rate, seconds / 2) for name, bed in beds.items()}
            found = take_turns(rated, rounds=3)
            rate = SHARES[0] * min(median(each) for each in found.values())
            for name, bed in beds.items():
                rates.add(name + shared, cores, median(found[name]))
                passages = bed.paced(rate, count_batches(bed, rate, seconds))
                visiting = median(each.visiting for each in divide_times(passages))
                visits.add(name + shared, cores, 1e3 * visiting)
                bed.close()
    for cores in scale.pick(SIMULATED_CORES):
        with report.step(f"simulating {load}, {name_cores(cores)}"):
            costs = {name: curve.at(cores) for name, curve in curves.items()}
            simulated = {
                name: simulate_rate(name, load, costs[name], cores, scale) for name in RIVALS
            }
            rate = load.batch * SHARES[0] * min(simulated.values())
            for name, batches in simulated.items():
                label = f"{name} (simulated)"
                rates.add(label, cores, batches * load.batch)
                each = simulate_stages(name, load, costs[name], cores, rate, scale)
                visits.add(label, cores, 1e3 * median(one.visiting for one in each))
                if name == "SplitJoin":
                    for stage in ("distribution", "execution", "gathering", "total"):
                        value = median(getattr(one, stage) for one in each)
                        stages.add(f"{stage} (simulated)", cores, 1e3 * value)
    report.figures += [rates, visits, stages]


def make_flow(name: str, load: Load, costs: Costs, cores: int, processors: int | None) -> Flow:
    """Return a flow to simulate."""
    turn, machine = turn_length(load.window, load.batch, cores), Machine(processors)
    form, order = RIVALS[name]
    if form == "handshake":
        return HandshakeFlow(cores, costs, turn, machine)
    up = cores if order == "none" else FANOUT  # without order, all put into one channel
    return SplitFlow(cores, costs, turn, (FANOUT, up), machine)


def simulate_rate(
    name: str, load: Load, costs: Costs, cores: int, scale: Scale, processors: int | None = None
) -> float:
    """Return the batches a second of a closed loop, with as many on their way as channels hold."""
    at_once = credits_of(cores if RIVALS[name][0] == "handshake" else 0, CHANNEL_DEPTH)
    flow = make_flow(name, load, costs, cores, processors)
    return run_closed_loop(flow, scale.pick(MESSAGES), at_once)


def simulate_stages(
    name: str,
    load: Load,
    costs: Costs,
    cores: int,
    rate: float,
    scale: Scale,
    processors: int | None = None,
) -> list[Stages]:
    """Return where batches spend their time when rows come at a rate."""
    flow = make_flow(name, load, costs, cores, processors)
    passed = run_open_loop(flow, scale.pick(MESSAGES), rate / load.batch)
    return [Stages.of(each.scheduled, each.spans, each.gathered) for each in passed]
