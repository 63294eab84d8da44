"""SplitJoin: two cores against one, the price of order, and the paper's figures 12 to 19.

Nested loops run over windows of 2^17 rows and BI-Sort over windows of 2^20, filled, both streams
coming in turns; joined rows are gathered. *One core* is the same executor with one core, all its
threads on one processor; on two, its source and its consumer have the second to themselves. Rates
are rows of both streams a second, medians of runs that took turns.

The paper had 32 processors and this suite takes what there is: everything up to two cores is
measured; what is simulated is labelled so.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from benchmarks.harness.figures import Figure
from benchmarks.harness.machine import limit_processors
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series
from benchmarks.harness.turns import take_turns
from benchmarks.splitjoin.beds import SECONDS, Bed, Form, Load
from benchmarks.splitjoin.latency import measure_latencies
from benchmarks.splitjoin.rivals import race_rivals
from streamjoin.options.values import Ordered

RATE = "M rows/s, both streams"
FASTER, LOST = 1.6, 0.10
PRECISIONS = [1 << shift for shift in (0, 3, 6, 9, 12, 15)]
SELECTIVITIES = [0.125, 0.5, 2.0, 8.0, 32.0]
LARGER = [1, 2, 4, 8, 16]  # than an eighth of the window
NESTED = Sized(full=Load("scan", 1 << 17, 1 << 12), quick=Load("scan", 1 << 14, 512))
BI_SORT = Sized(Load("bi_sort", 1 << 20, 1 << 17), quick=Load("bi_sort", 1 << 17, 1 << 14))
ROUNDS = Sized(full=5, quick=2)
POINT_SECONDS = Sized(full=1.0, quick=0.05)  # of a run that is a point in a figure
EVERY = Sized(full=1, quick=2)  # so many points of a figure's line are measured once
Forms = dict[str, tuple[int, Ordered, Form]]  # cores, order, form
ONE, TWO, ROOMY = "one core", "two cores", "one core, two processors"
ORDERS: dict[str, Ordered] = {"outer order": "outer", "no order": "none"}
OTHERS: Forms = {
    "plain join, one thread": (1, "none", "plain"),
    "plain join, two threads": (2, "none", "plain"),
    "two cores, turns of one row": (2, "none", "round robin"),
}


def pick_loads(scale: Scale) -> list[Load]:
    """Return the loads of the nested loop and of BI-Sort."""
    return [scale.pick(NESTED), scale.pick(BI_SORT)]


def pick_small_batches(scale: Scale) -> list[Load]:
    """Return the same loads in batches for low latency."""
    nested, bi_sort = pick_loads(scale)
    few = min(nested.batch, 1024)
    return [replace(nested, batch=few), replace(bi_sort, batch=4 * few)]


def run(report: Report, scale: Scale) -> None:
    """Run the suite; a quick run uses an eighth of the sizes."""
    loads, small = pick_loads(scale), pick_small_batches(scale)
    names = dict(zip(("nested_loop", "bi_sort"), map(str, loads), strict=True))
    report.settings.update(**names, seconds=scale.pick(SECONDS))
    for load in loads:
        report.seed(str(load), load.seed)
    with report.step("compiling"):
        compile_all()
    measure_two_cores(report, scale)
    measure_outer_order(report, scale)
    measure_precision(report, scale)
    measure_selectivity(report, scale)
    measure_window_sizes(report, scale)
    timed = [replace(load, timed=True) for load in small]
    measure_latencies(report, [*small, *timed], scale)
    race_rivals(report, small, scale)


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


def race(load: Load, forms: Forms, rounds: int, seconds: float) -> tuple[dict[str, Series], float]:
    """Measure some forms of a join in turns; return M rows/s of each, and the matches of a row."""
    beds = {name: Bed(load, *each) for name, each in forms.items()}

    def rate(name: str) -> float:
        with limit_processors(1 if name == ONE else None):  # threads stay where they are started
            return beds[name].rate(seconds) / 1e6

    rates = take_turns({name: partial(rate, name) for name in forms}, rounds, warmup=1)
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


def measure_two_cores(report: Report, scale: Scale) -> None:
    """Claim that two cores do what one does in little more than half the time."""
    for load in pick_loads(scale):
        for each in (load, replace(load, timed=True)):
            for name, ordered in ORDERS.items():
                compare_cores(report, each, name, ordered, scale.pick(ROUNDS), scale.pick(SECONDS))
            with report.step(f"other forms: {each}"):
                others, _ = race(each, OTHERS, 2, scale.pick(POINT_SECONDS))
            report.add(*others.values())
            report.detail(
                f"other forms: {each}, M rows/s",
                {name: found.median for name, found in others.items()},
            )
        small = replace(load, batch=load.batch // 4)
        rounds = max(scale.pick(ROUNDS) // 2, 1)
        compare_cores(report, small, "no order", "none", rounds, scale.pick(POINT_SECONDS), False)


def compare_cores(
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
        series, matches = race(load, forms, repeats, seconds)
    one, two, roomy = (series[each] for each in forms)
    if claims:
        title, note = f"two cores vs one: {about}", f"{matches:.2f} matches a row"
        report.rate_ratio(title, two, one, FASTER, note)
    report.add(*series.values())
    ratios = {ONE: two.median / one.median, ROOMY: two.median / roomy.median}
    report.detail(f"two cores: {about}, times as fast as", ratios)


def measure_outer_order(report: Report, scale: Scale) -> None:
    """Claim that strict outer order costs little."""
    forms: Forms = {"no order": (2, "none", "split"), "outer order": (2, "outer", "split")}
    for load in pick_loads(scale):
        with report.step(f"outer order: {load}"):
            series, matches = race(load, forms, scale.pick(ROUNDS), scale.pick(SECONDS))
        none, outer = series["no order"], series["outer order"]
        lost = 1 - outer.median / none.median
        note = f"part of the throughput; {matches:.2f} matches a row"
        report.at_most(f"outer order costs, two cores: {load}", lost, LOST, outer, none, note)


def measure_precision(report: Report, scale: Scale) -> None:
    """Figure 19: the order of the matches of one row, in groups of p rows of the other stream."""
    for load in pick_loads(scale):
        figure = Figure(
            f"fig19_{load.slug}",
            f"{load}, 2 cores, {load.matches:g} matches a row",
            "precision: rows in a group",
            RATE,
            ("log", "linear"),
        )
        orders: dict[str, Ordered] = {"none": "none", "outer": "outer"}
        forms: Forms = {name: (2, order, "split") for name, order in orders.items()}
        precisions = PRECISIONS[:: scale.pick(EVERY)]
        forms |= {str(each): (2, each, "split") for each in precisions}
        with report.step(f"figure 19: {load}"):
            series, _ = race(load, forms, 2, scale.pick(POINT_SECONDS))
        for each in precisions:
            figure.add("inner order", each, series[str(each)].median)
            for name in orders:
                label = "no order" if name == "none" else "outer order only"
                figure.add(label, each, series[name].median)
        report.figures.append(figure)


def measure_selectivity(report: Report, scale: Scale) -> None:
    """Figure 17: more matches a row."""
    figure = Figure("fig17", "two cores, outer order", "matches of a row", RATE)
    measure_points(
        report,
        figure,
        [
            replace(load, matches=matches)
            for load in pick_loads(scale)
            for matches in SELECTIVITIES[:: scale.pick(EVERY)]
        ],
        {"": (2, "outer", "split")},
        "matches",
        scale.pick(POINT_SECONDS),
    )


def measure_window_sizes(report: Report, scale: Scale) -> None:
    """Figure 16: count windows of several sizes."""
    figure = Figure("fig16", "count windows, outer order", "rows in a window", RATE)
    loads = [
        replace(load, window=load.window // 8 * larger)
        for load in pick_loads(scale)
        for larger in LARGER[:: scale.pick(EVERY)]
    ]
    forms: Forms = {", one core": (1, "outer", "split"), ", two cores": (2, "outer", "split")}
    measure_points(report, figure, loads, forms, "window", scale.pick(POINT_SECONDS))


def measure_points(
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
            series, matches = race(load, forms, 2, seconds)
        x = matches if across == "matches" else float(getattr(load, across))
        for name, each in series.items():
            figure.add(load.name + name, x, each.median)
    report.figures.append(figure)
