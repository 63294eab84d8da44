"""How long tuples wait when they come at a steady rate, and a shared index is merged meanwhile.

An open loop: chunks of tuples are due by a schedule, at a share of the rate that two threads reach,
whether or not the ones before are through. A chunk's latency is the time from when it was due to
when its last tuple's results were delivered, so it has all that delays it: a source that wakes up
late, threads that sleep, a queue. For merges, only chunks count that were due during one::

    due      | | | | | | | | | | | | | | |          each | a chunk
    merge          |-----------|                    counted: those from | to |

Merges are far apart, so entries pass as fast as they go until one is near (figure 10d needs none).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, sleep

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale, Sized
from benchmarks.harness.series import Series
from benchmarks.harness.turns import take_turns
from benchmarks.pimtree.shared_runs import SharedRun, Way
from benchmarks.pimtree.sizes import MIDDLE_WINDOW, WINDOWS
from benchmarks.pimtree.threads import TASKS
from benchmarks.pimtree.workloads import make_square
from streamjoin.indexes.trees.pim_tree import MERGE_RATIO
from streamjoin.joins.shared.shared_window import edge_of
from streamjoin.joins.shared.work_queue import NEVER, Entries

TUPLES = 64  # of a chunk
LOAD = 0.2  # of what two threads can do, which leaves a source that sends small chunks its time
AROUND = Sized((0.2, 0.8), (0.05, 0.15))  # seconds before a merge is due, and behind
TASK_SECONDS = Sized(full=0.5, quick=0.1)
NONBLOCKING = 0.2  # of the latency with blocking merges
MERGES = {MERGE_RATIO: Sized(full=9, quick=1), 1.0: Sized(full=2, quick=1)}  # by merge ratio
KINDS = {"nonblocking": Way(2), "blocking": Way(2, blocking=True)}

Seconds = NDArray[np.float64]


@dataclass
class Waits:
    """What was measured of one way to merge."""

    during: list[Seconds] = field(default_factory=list)  # latencies of chunks due in a merge
    otherwise: list[Seconds] = field(default_factory=list)
    merges: list[float] = field(default_factory=list)  # how long they took

    def summary(self) -> dict[str, float]:
        """Milliseconds: median, p99 and maximum."""
        numbers = {"merges": float(len(self.merges))}
        if self.merges:
            numbers["a merge takes, ms"] = 1e3 * float(np.median(self.merges))
        for name, parts in (("in merges", self.during), ("otherwise", self.otherwise)):
            waits = 1e3 * np.concatenate([*parts, np.empty(0)])
            if waits.size:
                p50, p99 = np.percentile(waits, (50, 99))
                numbers |= {
                    f"{name}: chunks": float(waits.size),
                    f"{name}: p50, ms": float(p50),
                    f"{name}: p99, ms": float(p99),
                    f"{name}: max, ms": float(waits.max()),
                }
        return numbers


def follow_schedule(run: SharedRun, entries: Entries, rate: float) -> tuple[Seconds, Seconds]:
    """Publish chunks when they are due, tuples a second; return when that was, and latencies."""
    run.join.wait()
    run.times.clear()
    chunks, before = len(entries) // TUPLES, run.delivered
    due: Seconds = np.arange(chunks, dtype=np.float64)
    due *= TUPLES / rate
    due += perf_counter() + 0.01
    sent = 0
    while sent < chunks:
        if (ahead := due[sent] - perf_counter()) > 0:
            sleep(ahead)
        ready = max(int(np.searchsorted(due, perf_counter(), "right")), sent + 1)
        run.join.publish(entries.part(sent * TUPLES, ready * TUPLES))
        sent = ready
    run.join.wait()
    moments: Seconds = np.array([moment for moment, _ in run.times])
    ends = before + (1 + np.arange(chunks)) * TUPLES
    through = np.searchsorted([count for _, count in run.times], ends)
    return due, moments[through] - due


def count_entries_to_merge(run: SharedRun) -> int:
    """Return how many entries come before an index is merged."""
    sides = range(len(run.windows))
    limits = [int(limit) for limit in run.join.limits[: len(run.windows)]]
    rows = (
        limits[each] - edge_of(run.join.windows[each]) for each in sides if limits[each] < NEVER
    )
    return max(min(rows), 0) * len(run.windows)


def wait_in_merge(
    run: SharedRun, way: Way, rate: float, around: tuple[float, float], waits: Waits
) -> None:
    """Go on until a merge is near, then follow the schedule until it is over."""
    run.change(way)
    before, behind = (int(seconds * rate) for seconds in around)
    if (far := (count_entries_to_merge(run) - before) // 2 * 2) > 0:
        run.pass_through(run.draw(far))
    while run.join._merging.locked():
        sleep(0.001)
    run.join.merge_times.clear()
    entries = Entries.concatenate(run.draw((before + behind) // TUPLES * TUPLES))
    due, latencies = follow_schedule(run, entries, rate)
    while run.join._merging.locked():
        sleep(0.001)
    inside = np.zeros(due.size, bool)
    for begin, end in run.join.merge_times:
        inside |= (due >= begin) & (due <= end)
        waits.merges.append(end - begin)
    waits.during.append(latencies[inside])
    waits.otherwise.append(latencies[~inside])


def measure_merges(report: Report, scale: Scale) -> None:
    """Latency while an index is merged: in two phases, and all at once."""
    window = scale.pick(WINDOWS)[-1] // 2
    for ratio, merges in MERGES.items():
        label = f"merge ratio {ratio:g}, windows of {window:,}"
        with report.step(f"latency in merges, {label}"):
            run = SharedRun(make_square(window), ratio=ratio)
            if ratio < 1:
                run.rate(Way(2))  # the first merges find less memory than the others
            rate = LOAD * 1e6 * max(run.rate(Way(2), 1 << 18) for _ in range(3))
            waits = {name: Waits() for name in KINDS}
            around = scale.pick(AROUND)
            rivals = {
                name: partial(wait_in_merge, run, way, rate, around, waits[name])
                for name, way in KINDS.items()
            }
            take_turns(rivals, scale.pick(merges))
            run.close()
        summaries = {name: each.summary() for name, each in waits.items()}
        report.detail(f"latency in merges, {label}", {"tuples/s": rate, **summaries})
        if ratio == MERGE_RATIO:
            claim_merges(report, label, waits)


def claim_merges(report: Report, label: str, waits: dict[str, Waits]) -> None:
    """Claim how much shorter the longest waits are when merges do not block.

    The p99 of all chunks decides, and a single stall of the machine is in it; the series beside it
    are the p99 of each merge.
    """
    every = {name: 1e3 * np.concatenate(each.during) for name, each in waits.items()}
    if not all(each.size for each in every.values()):
        return
    ours, theirs = (float(np.percentile(every[name], 99)) for name in KINDS)
    short, long = (
        Series(f"{name}, p99 of each merge, {label}", tuple(list_p99s(waits[name])), "ms")
        for name in KINDS
    )
    report.at_most(
        f"p99 latency in merges, nonblocking vs blocking, {label}",
        ours / theirs,
        NONBLOCKING,
        short,
        long,
        f"at {LOAD:.0%} load; {ours:.1f} and {theirs:.1f} ms",
    )


def list_p99s(waits: Waits) -> Iterator[float]:
    """Return the p99 of each merge."""
    return (1e3 * float(np.percentile(each, 99)) for each in waits.during if each.size)


def measure_task_sizes(report: Report, scale: Scale) -> None:
    """Figure 10d: the median latency by the size of a task."""
    window = scale.pick(MIDDLE_WINDOW)
    figure = Figure(
        "pim10d",
        f"2 threads, windows of {window:,}, load {LOAD:.0%}",
        "tuples of a task",
        "median latency, ms",
        ("log", "linear"),
    )
    with report.step(f"figure 10d: latency by task size, windows of {window:,}"):
        run = SharedRun(make_square(window))
        rate = LOAD * 1e6 * max(run.rate(Way(2)) for _ in range(3))
        for task in TASKS:
            run.change(Way(2, task=task))
            count = int(scale.pick(TASK_SECONDS) * rate) // TUPLES * TUPLES
            entries = Entries.concatenate(run.draw(count))
            _, latencies = follow_schedule(run, entries, rate)
            figure.add("2 threads", task, 1e3 * float(np.median(latencies)))
        run.close()
    report.figures.append(figure)
