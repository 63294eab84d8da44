"""SplitJoin: two cores against one, the price of order, and the paper's figures 12 to 19.

Nested loops run over windows of 2^17 rows and BI-Sort over windows of 2^20, filled, both streams
coming in turns; joined rows are gathered. *One core* is the same executor with one core, all its
threads on one processor; on two, its source and its consumer have the second to themselves. Rates
are rows of both streams a second, medians of runs that took turns.

The paper had 32 processors and this suite takes what there is: everything up to two cores is
measured; what is simulated is labelled so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.harness.figures import Figure
from benchmarks.harness.machine import processors
from benchmarks.harness.report import Report, Series
from benchmarks.splitjoin.latency import Extent, latencies
from benchmarks.splitjoin.rivals import rivals
from benchmarks.splitjoin.streams import Bed, Form, Load
from streamjoin.options.values import Ordered

RATE = "M rows/s, both streams"
FASTER, LOST = 1.6, 0.10
PRECISIONS = [1 << shift for shift in (0, 3, 6, 9, 12, 15)]
SELECTIVITIES = [0.125, 0.5, 2.0, 8.0, 32.0]
LARGER = [1, 2, 4, 8, 16]  # than an eighth of the window
Forms = dict[str, tuple[int, Ordered, Form]]  # cores, order, form
ONE, TWO, ROOMY = "one core", "two cores", "one core, two processors"
ORDERS: dict[str, Ordered] = {"outer order": "outer", "no order": "none"}
OTHERS: Forms = {
    "plain join, one thread": (1, "none", "plain"),
    "plain join, two threads": (2, "none", "plain"),
    "two cores, turns of one row": (2, "none", "round robin"),
}


@dataclass(frozen=True)
class Scale:
    """How large the windows are, and how long is measured."""

    nested: Load
    bi_sort: Load
    repeats: int
    seconds: float  # of a run that counts for a claim
    short: float  # of one that is a point in a figure
    every: int  # so many points of a figure's line are measured once
    extent: Extent

    @property
    def loads(self) -> list[Load]:
        """Nested loop and BI-Sort."""
        return [self.nested, self.bi_sort]

    @property
    def small_batches(self) -> list[Load]:
        """The same with batches for low latency."""
        few = self.nested.batch if self.nested.batch < 1024 else 1024
        return [replace(self.nested, batch=few), replace(self.bi_sort, batch=4 * few)]


def scale_of(quick: bool) -> Scale:
    """Return the sizes; ``quick`` uses an eighth, and little time."""
    if quick:
        extent = Extent(0.1, 2, [], [1, 2, 8, 64], messages=40, rounds=1)
        nested = Load("scan", 1 << 14, 512)
        return Scale(nested, Load("bi_sort", 1 << 17, 1 << 14), 2, 0.1, 0.05, 2, extent)
    extent = Extent(2.0, 4, [4, 8], [1, 2, 4, 16, 64, 256, 1024], messages=120, rounds=3)
    nested = Load("scan", 1 << 17, 1 << 12)
    return Scale(nested, Load("bi_sort", 1 << 20, 1 << 17), 5, 2.0, 1.0, 1, extent)


def run(report: Report, quick: bool) -> None:
    """Run the suite; ``quick`` uses an eighth of the sizes."""
    scale = scale_of(quick)
    report.settings.update(
        nested_loop=str(scale.nested), bi_sort=str(scale.bi_sort), seconds=scale.seconds
    )
    for load in scale.loads:
        report.seed(str(load), load.seed)
    with report.step("compiling"):
        compile_all()
    two_cores(report, scale)
    outer_order(report, scale)
    precision(report, scale)
    selectivity(report, scale)
    window_sizes(report, scale)
    timed = [replace(load, timed=True) for load in scale.small_batches]
    latencies(report, [*scale.small_batches, *timed], scale.extent)
    rivals(report, scale.small_batches, scale.extent)


def compile_all() -> None:
    """Compile what is going to be measured."""
    for algorithm in ("scan", "bi_sort"):
        for timed in (False, True):
            load = Load(algorithm, 1 << 12, 1 << 10, timed=timed)
            forms: list[tuple[int, Ordered, Form]] = [
                (1, "none", "plain"),
                (2, "outer", "split"),
                (2, 1, "split"),
            ]
            for form in forms:
                bed = Bed(load, *form)
                bed.rate(0.02)
                bed.close()


def alternate(
    load: Load, forms: Forms, repeats: int, seconds: float
) -> tuple[dict[str, Series], float]:
    """Measure some forms of a join in turns; return M rows/s of each, and the matches of a row."""
    beds = {name: Bed(load, *each) for name, each in forms.items()}
    rates: dict[str, list[float]] = {name: [] for name in forms}
    for number in range(repeats + 1):
        for name, bed in beds.items():
            with processors(1 if name == ONE else None):  # threads stay where they are started
                rate = bed.rate(seconds if number else seconds / 2)
            if number:
                rates[name].append(rate / 1e6)
    series = {
        name: Series(
            f"{load}, batches of {load.batch:,}, ordered {forms[name][1]}: {name}",
            tuple(values),
            "M rows/s",
        )
        for name, values in rates.items()
    }
    found, rows = (sum(getattr(bed, each) for bed in beds.values()) for each in ("found", "rows"))
    for bed in beds.values():
        bed.close()
    return series, found / rows


def two_cores(report: Report, scale: Scale) -> None:
    """Claim that two cores do what one does in little more than half the time."""
    for load in scale.loads:
        for each in (load, replace(load, timed=True)):
            for name, ordered in ORDERS.items():
                compare(report, each, name, ordered, scale.repeats, scale.seconds)
            with report.step(f"other forms: {each}"):
                others, _ = alternate(each, OTHERS, 2, scale.short)
            report.add(*others.values())
            report.detail(
                f"other forms: {each}, M rows/s",
                {name: found.median for name, found in others.items()},
            )
        small = replace(load, batch=load.batch // 4)
        compare(report, small, "no order", "none", max(scale.repeats // 2, 1), scale.short, False)


def compare(
    report: Report,
    load: Load,
    name: str,
    ordered: Ordered,
    repeats: int,
    seconds: float,
    claims: bool = True,
) -> None:
    """Compare two cores with one, on one processor and on two."""
    forms: Forms = {
        ONE: (1, ordered, "split"),
        TWO: (2, ordered, "split"),
        ROOMY: (1, ordered, "split"),
    }
    about = f"{load}, batches of {load.batch:,}, {name}"
    with report.step(f"two cores: {about}"):
        series, matches = alternate(load, forms, repeats, seconds)
    one, two, roomy = (series[each] for each in forms)
    if claims:
        title, note = f"two cores vs one: {about}", f"{matches:.2f} matches a row"
        report.at_least(title, two.median / one.median, FASTER, two, one, note)
    report.add(*series.values())
    ratios = {ONE: two.median / one.median, ROOMY: two.median / roomy.median}
    report.detail(f"two cores: {about}, times as fast as", ratios)


def outer_order(report: Report, scale: Scale) -> None:
    """Claim that strict outer order costs little."""
    forms: Forms = {"no order": (2, "none", "split"), "outer order": (2, "outer", "split")}
    for load in scale.loads:
        with report.step(f"outer order: {load}"):
            series, matches = alternate(load, forms, scale.repeats, scale.seconds)
        none, outer = series["no order"], series["outer order"]
        lost = 1 - outer.median / none.median
        note = f"part of the throughput; {matches:.2f} matches a row"
        report.at_most(f"outer order costs, two cores: {load}", lost, LOST, outer, none, note)


def precision(report: Report, scale: Scale) -> None:
    """Figure 19: the order of the matches of one row, in groups of p rows of the other stream."""
    for load in scale.loads:
        figure = Figure(
            f"fig19_{load.slug}",
            f"{load}, 2 cores, {load.matches:g} matches a row",
            "precision: rows in a group",
            RATE,
            ("log", "linear"),
        )
        orders: dict[str, Ordered] = {"none": "none", "outer": "outer"}
        forms: Forms = {name: (2, order, "split") for name, order in orders.items()}
        precisions = PRECISIONS[:: scale.every]
        forms |= {str(each): (2, each, "split") for each in precisions}
        with report.step(f"figure 19: {load}"):
            series, _ = alternate(load, forms, 2, scale.short)
        for each in precisions:
            figure.add("inner order", each, series[str(each)].median)
            for name in orders:
                label = "no order" if name == "none" else "outer order only"
                figure.add(label, each, series[name].median)
        report.figures.append(figure)


def selectivity(report: Report, scale: Scale) -> None:
    """Figure 17: more matches a row."""
    figure = Figure("fig17", "two cores, outer order", "matches of a row", RATE)
    points(
        report,
        figure,
        [
            replace(load, matches=matches)
            for load in scale.loads
            for matches in SELECTIVITIES[:: scale.every]
        ],
        {"": (2, "outer", "split")},
        "matches",
        scale.short,
    )


def window_sizes(report: Report, scale: Scale) -> None:
    """Figure 16: count windows of several sizes."""
    figure = Figure("fig16", "count windows, outer order", "rows in a window", RATE)
    loads = [
        replace(load, window=load.window // 8 * larger)
        for load in scale.loads
        for larger in LARGER[:: scale.every]
    ]
    forms: Forms = {", one core": (1, "outer", "split"), ", two cores": (2, "outer", "split")}
    points(report, figure, loads, forms, "window", scale.short)


def points(
    report: Report,
    figure: Figure,
    loads: Sequence[Load],
    forms: Forms,
    across: str,
    seconds: float,
) -> None:
    """Measure loads, each a point of its algorithm's line for each form."""
    for load in loads:
        with report.step(f"{figure.name}: {load}, {load.matches:g} matches"):
            series, matches = alternate(load, forms, 2, seconds)
        x = matches if across == "matches" else float(getattr(load, across))
        for name, each in series.items():
            figure.add(load.name + name, x, each.median)
    report.figures.append(figure)
