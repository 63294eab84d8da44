"""SplitJoin against the handshake join (figures 12 and 13), measured and simulated.

One and two cores are measured, and four and eight that share this machine's two processors. More
are simulated, with a processor for each node and costs that are measured here (`split_costs`);
their labels say so. What the simulation is worth is seen at one and two cores, where it runs on
two processors and must come within a quarter of what was measured, in throughput and in latency.

SplitJoin's results have the outer order, as in the paper, or none, as the handshake join's: then
the two differ in nothing but the way that batches take.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report, Series
from benchmarks.splitjoin.costs import Curve, measure_costs, measure_curve, measure_hop, measure_hot
from benchmarks.splitjoin.handshake import credits_of
from benchmarks.splitjoin.latency import SHARES, Extent, Stages, batches_in, stages_of
from benchmarks.splitjoin.simulated_flows import (
    HandshakeFlow,
    SplitFlow,
    closed_loop,
    open_loop,
    turn_of,
)
from benchmarks.splitjoin.simulation import Costs, Flow, Machine
from benchmarks.splitjoin.streams import Bed, Form, Load, in_words
from streamjoin.joins.split.executor import DEPTH, FANOUT
from streamjoin.options.values import Ordered

REHEARSED = [1, 2, 4, 16, 64]  # cores
PROCESSORS = 2
ERROR = 0.25
RIVALS: dict[str, tuple[Form, Ordered]] = {
    "SplitJoin": ("split", "outer"),
    "SplitJoin, no order": ("split", "none"),
    "handshake join": ("handshake", "none"),
}
Curves = dict[str, Curve]


def rivals(report: Report, loads: Sequence[Load], extent: Extent) -> None:
    """Compare the two flows, and the simulation with what was measured."""
    with report.step("costs of a hop"):
        hop = measure_hop()
    report.detail("simulation: a hop, ms", 1e3 * hop)
    for load in loads:
        curves: dict[Ordered, Curve] = {}
        for order in ("outer", "none"):
            about = f"{load}, {order} order"
            with report.step(f"costs: {about}"):
                curve = measure_curve(load, order, REHEARSED, hop, extent.seconds / 2)
            costs = {cores: vars(each) for cores, each in curve.measured.items()}
            report.detail(f"simulation: costs in seconds, {about}", costs)
            curves[order] = curve
        reproduce(report, load, hop, extent)
        each = {name: curves[order] for name, (_, order) in RIVALS.items()}
        compare(report, load, each, extent)


def reproduce(report: Report, load: Load, hop: float, extent: Extent) -> None:
    """Claim that the simulation gives what is measured, with as many processors as there are.

    Costs, throughput and latency are measured in turns, so that they share bad moments. Throughput
    is that of a join which never rests. Latency is taken at half the rate, so its costs are
    measured with rests: who has slept wakes late, and finds little of its data in the caches.
    """
    for cores in (1, 2):
        about = f"{load}, {in_words(cores)}"
        rates, latencies = Pairs(), Pairs()
        with report.step(f"simulation vs measured: {about}"):
            bed = Bed(load, cores, "outer")
            bed.rate(extent.seconds / 4)
            for _ in range(extent.rounds):
                hot = replace(measure_hot(load, cores, "outer", extent.seconds / 2), hop=hop)
                actual = bed.rate(extent.seconds / 2)
                batches = simulated_rate("SplitJoin", load, hot, cores, extent, PROCESSORS)
                rates.add(load.batch * batches, actual)
                rate = SHARES[0] * actual
                passages = bed.paced(rate, batches_in(bed, rate, extent.seconds / 2))
                rested = measure_costs(load, cores, "outer", extent.seconds / 2, cores, rests=True)
                simulated = simulated_stages(
                    "SplitJoin", load, replace(rested, hop=hop), cores, rate, extent, PROCESSORS
                )
                latencies.add(*(middle(each) for each in (simulated, stages_of(passages))))
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


def middle(stages: Sequence[Stages]) -> float:
    """Return the median latency."""
    return median(each.total for each in stages)


def compare(report: Report, load: Load, curves: Curves, extent: Extent) -> None:
    """Figures 12 and 13."""
    about = f"{load}, batches of {load.batch:,}"
    rates = Figure(f"fig12_{load.slug}", about, "cores", "rows/s, both streams")
    visits = Figure(f"fig13_{load.slug}", about, "cores", "visiting latency, ms")
    stages = Figure(f"fig18_{load.slug}_simulated", about, "cores", "median latency, ms")
    for cores in (1, 2, *extent.shared):
        with report.step(f"figures 12 and 13: {load}, {in_words(cores)}"):
            shared = "" if cores <= PROCESSORS else f", threads on {PROCESSORS} processors"
            beds = {name: Bed(load, cores, order, form) for name, (form, order) in RIVALS.items()}
            found: dict[str, list[float]] = {name: [] for name in beds}
            for _ in range(3):
                for name, bed in beds.items():
                    found[name].append(bed.rate(extent.seconds / 2))
            rate = SHARES[0] * min(median(each) for each in found.values())
            for name, bed in beds.items():
                rates.add(name + shared, cores, median(found[name]))
                passages = bed.paced(rate, batches_in(bed, rate, extent.seconds))
                visiting = median(each.visiting for each in stages_of(passages))
                visits.add(name + shared, cores, 1e3 * visiting)
                bed.close()
    for cores in extent.simulated:
        with report.step(f"simulating {load}, {in_words(cores)}"):
            costs = {name: curve.at(cores) for name, curve in curves.items()}
            simulated = {
                name: simulated_rate(name, load, costs[name], cores, extent) for name in RIVALS
            }
            rate = load.batch * SHARES[0] * min(simulated.values())
            for name, batches in simulated.items():
                label = f"{name} (simulated)"
                rates.add(label, cores, batches * load.batch)
                each = simulated_stages(name, load, costs[name], cores, rate, extent)
                visits.add(label, cores, 1e3 * median(one.visiting for one in each))
                if name == "SplitJoin":
                    for stage in ("distribution", "execution", "gathering", "total"):
                        value = median(getattr(one, stage) for one in each)
                        stages.add(f"{stage} (simulated)", cores, 1e3 * value)
    report.figures += [rates, visits, stages]


def flow_of(name: str, load: Load, costs: Costs, cores: int, processors: int | None) -> Flow:
    """Return a flow to simulate."""
    turn, machine = turn_of(load.window, load.batch, cores), Machine(processors)
    form, order = RIVALS[name]
    if form == "handshake":
        return HandshakeFlow(cores, costs, turn, machine)
    up = cores if order == "none" else FANOUT  # without order, all put into one channel
    return SplitFlow(cores, costs, turn, (FANOUT, up), machine)


def simulated_rate(
    name: str, load: Load, costs: Costs, cores: int, extent: Extent, processors: int | None = None
) -> float:
    """Return the batches a second of a closed loop, with as many on their way as channels hold."""
    at_once = credits_of(cores if RIVALS[name][0] == "handshake" else 0, DEPTH)
    flow = flow_of(name, load, costs, cores, processors)
    return closed_loop(flow, extent.messages, at_once)


def simulated_stages(
    name: str,
    load: Load,
    costs: Costs,
    cores: int,
    rate: float,
    extent: Extent,
    processors: int | None = None,
) -> list[Stages]:
    """Return where batches spend their time when rows come at a rate."""
    flow = flow_of(name, load, costs, cores, processors)
    passed = open_loop(flow, extent.messages, rate / load.batch)
    return [Stages.of(each.scheduled, each.spans, each.gathered) for each in passed]
