"""The manager of a sliding-window join: PanJoin's five steps and four commands (III-A).

::

    1  collecting      rows of both streams, until there is a batch of them       `Collector`
    2  preprocessing   keys; sort once; which subwindows are full, empty, met     `prepare`, chains
    3  sending         probe, then create and insert, then expire                 here
    4  processing      workers probe slices of a batch; a chain changes itself    threads, `Chain`
    5  feedback        matches, as ranges, rows or a count; what is full          ``deliver``

Four commands are all that ever happens to a subwindow::

    create    a chain gets an empty subwindow, the new newest; the one before is sealed
    insert    rows join a subwindow, or its late index if they come late
    probe     rows look for matches in subwindows of the other stream
    expire    a subwindow leaves its chain; of a whole window, some of the rows

A pair is found once, by the row that comes later; where a step has both batches, right probes left
too::

    probe      L -> right chain     R -> left chain     R -> L
    insert     L, R

Nothing is inserted before all matches are delivered, so a probe that fails has changed nothing, and
matches may stay where they are, as ranges, until they are read. What it has learnt of the rows, to
choose layouts by, is forgotten if these are not stored.

In one process all workers see all subwindows, so a probe is cut by rows: each worker takes a part
of the key range, and looks into every subwindow (III-G3). Workers are threads, and kernels run
without the GIL. On Spark a worker is a join core, with the subwindows of its share of the rows.
What becomes of the matches is up to ``deliver``, a function of `joins.pairs.deliver`: it gathers
their columns, counts them, or leaves them where they are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from streamjoin.choice.structure import Samples
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings, SlidingExecutor
from streamjoin.joins.outcomes.outcome import Alone, Settled, give_early
from streamjoin.joins.pairs.candidates import Check, Found, checks_of
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.kernels.threads import share
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.marks import Marks
from streamjoin.plans.plan import SIDES, JoinPlan, Layout
from streamjoin.plans.prepared import Prepared

AFTER_ALL = 2**64  # greater than any key
Target = tuple[Prepared, Iterable[Subwindow]]  # a batch, and where it looks for matches


@dataclass(frozen=True)
class ProbeSlice:
    """Rows ``first`` to ``last`` of a batch, in key order, which look for their matches."""

    batch: Prepared
    subwindows: list[tuple[Subwindow, list[Check]]]  # where to look, and what is left to check
    first: int
    last: int
    mirrored: bool = False  # self-joins: each match (a, b) stands for (b, a) too

    def probe(self, deliver: Deliver) -> Iterator[Any]:
        """Probe the subwindows; what is found goes through ``deliver``, as it is asked for."""
        batch, rows = self.batch, slice(self.first, self.last)
        ranges: dict[Layout, Any] = {}
        for subwindow, checks in self.subwindows:
            layout = subwindow.layout
            order = batch.sorted_rows(layout.orders[-1]).order[rows]
            if layout not in ranges:
                ranges[layout] = subwindow.ranges_for(batch, rows)
            for matches in subwindow.probe(ranges[layout]):
                checkpoint()
                yield from deliver(Found(batch, subwindow, matches, order, checks, self.mirrored))


class Manager(SlidingExecutor):
    """Two chains, and the steps over them; ``chooses`` lets samples choose their structures."""

    choosing: tuple[Side, ...] = SIDES  # whose chains look for the best layout
    symmetric = False  # self-joins: one probe finds the matches of both roles

    def __init__(
        self,
        plan: JoinPlan,
        chains: dict[Side, Chain],
        deliver: Deliver,
        threads: int = 1,
        chooses: bool = False,
    ) -> None:
        self.plan, self.chains, self.deliver, self.threads = plan, chains, deliver, threads
        self.chooses = chooses
        self.samples: Samples = {}  # of the latest batches
        self.seconds = {"sort": 0.0, "probe": 0.0, "insert": 0.0, "expire": 0.0}
        self.commands: Counter[str] = Counter()  # sent so far, by kind
        self.inserted: list[Prepared] = []  # by the last step
        self._learnt_before: tuple[Samples, list[Any]] | None = None  # until rows are stored

    @property
    def manager(self) -> "Manager":
        """The manager itself: both windows are here."""
        return self

    @property
    def chain_pairs(self) -> list[dict[Side, Chain]]:
        """The two chains."""
        self.undo()
        return [self.chains]

    def take_inserted(self) -> list[Prepared]:
        """Return what the last step has inserted, once."""
        inserted, self.inserted = self.inserted, []
        return inserted

    def learn(self, batches: Batches) -> None:
        """Let chains look which layout and structure are best now.

        A chain looks whenever its next subwindow is due, and one that keeps its window whole
        whenever as many rows have come as it holds.
        """
        self.undo()
        self._learnt_before = (
            dict(self.samples),
            [(chain, chain.choices) for chain in self.chains.values()],
        )
        for side, batch in batches.items():
            if len(batch):
                self.samples[side] = batch.keys.sample()
        if len(self.samples) < 2:
            return
        for side, prepared in batches.items():
            chain, coming = self.chains[side], prepared.stored_count
            if not coming or side not in self.choosing:
                continue
            chain.note(coming)
            if chain.begins_another(coming):
                if self.chooses:
                    chain.choose(side, self.samples, chain.typical_batch(coming))
                else:
                    chain.choose_order(side, self.samples)
            elif self.chooses and chain.may_switch:
                # The rows that are there are sorted by its layout.
                chain.choose_again(side, self.samples, chain.typical_batch(coming))

    def probe(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for the matches of rows that come; what they find is given now."""
        return self.search(batches, interleaved, deliver)

    def search(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for the matches of one batch of either stream, or of both, as they are asked for.

        Yields what ``deliver`` makes of them. ``interleaved`` tells that some rows of ``right``
        arrived before some of ``left``.
        """
        self.learn(batches)
        probing = {side: batch for side, batch in batches.items() if len(batch)}
        self.sort_batches(list(probing.values()))
        targets: list[Target] = [
            (batch, self.chains[OTHER[side]]) for side, batch in probing.items()
        ]
        if len(probing) == 2:
            left, right = probing["left"], probing["right"]
            if left.stored_count:
                own = self.chains["left"].standalone_subwindow(left.stored)
                targets.append((right, [own]))
            if interleaved and right.stored_count:
                own = self.chains["right"].standalone_subwindow(right.stored)
                targets.append((left, [own]))
        yield from self.probe_targets(targets, deliver)

    def insert(self, batches: Batches) -> None:
        """Insert the batches, after all their matches have been taken."""
        self._learnt_before = None
        self.insert_batches([batch.stored for batch in batches.values() if len(batch.stored)])

    def sort_batches(self, batches: Sequence[Prepared]) -> None:
        """Sort each batch by the layout of the chain that it is going to probe."""
        begin = perf_counter()
        share(
            lambda batch: batch.sort(self.chains[OTHER[batch.side]].layout),
            batches,
            self.threads,
        )
        self.seconds["sort"] += perf_counter() - begin

    def probe_targets(
        self, targets: Sequence[Target], deliver: Deliver | None = None, mirrored: bool = False
    ) -> Iterator[Any]:
        """Find matches and deliver them, in the order they are asked for.

        With one thread nothing is found before it is asked for, so memory stays bounded.
        """
        begin = perf_counter()
        deliver = deliver or self.deliver
        slices = [each for target in targets for each in self._cut_probe(*target, mirrored)]
        if self.threads == 1:
            for each in slices:
                checkpoint()
                for item in each.probe(deliver):
                    self.seconds["probe"] += perf_counter() - begin
                    yield item
                    begin = perf_counter()
        else:
            results = share(lambda each: list(each.probe(deliver)), slices, self.threads)
            self.seconds["probe"] += perf_counter() - begin
            yield from (item for items in results for item in items)
            begin = perf_counter()
        self.commands["probe"] += len(slices)
        self.seconds["probe"] += perf_counter() - begin

    def insert_batches(self, batches: Sequence[Prepared]) -> None:
        """Store each batch in its chain."""
        begin = perf_counter()
        chains = self.chains
        for done in share(lambda each: chains[each.side].insert(each), batches, self.threads):
            self.commands += done
        self.inserted = list(batches)
        self.seconds["insert"] += perf_counter() - begin

    def restore(self, batches: Batches) -> None:
        """Take back rows that were stored before, without looking for matches."""
        self.learn(batches)
        self._learnt_before = None
        self.insert_batches(list(batches.values()))
        self.inserted = []

    def undo(self) -> None:
        """Forget what a probe has learnt whose rows were not stored."""
        if self._learnt_before is not None:
            self.samples, choices = self._learnt_before
            for chain, before in choices:
                chain.choices = before
            self._learnt_before = None

    @property
    def holdings(self) -> Holdings:
        """What both chains hold."""
        return Holdings.of([self.chains])

    @property
    def nbytes(self) -> int:
        """Bytes that all chains hold."""
        return self.holdings.nbytes

    def expire(self, clock: Clock) -> None:
        """Drop the subwindows whose rows have all left the window."""
        self.expire_before(self.expiry_bounds(clock))

    def expiry_bounds(self, clock: Clock) -> dict[Side, int]:
        """Return before which time, or ordinal, rows have left the window by now."""
        window = self.plan.counted
        if window is not None and clock.is_over:
            return dict(clock.arrived)
        if window is not None:
            return {side: clock.arrived[side] - size for side, size in window.items()}
        return {} if clock.watermark is None else self.plan.needed_from(clock.watermark)

    def take_due(self, clock: Clock) -> Iterator[Alone]:
        """Settle the rows that nothing can match any more by now; return those that were not."""
        for side, bound in self.due_bounds(clock).items():
            if side in self.plan.follows:
                for held, rows in self.chains[side].take_due(bound):
                    assert held.marks is not None
                    given = rows[~held.marks.read_early(rows)].astype(np.int32)
                    yield Alone(side, held.rows.take(given), Settled(held.marks, rows))

    def take_early(self, bound: int) -> Iterator[Alone]:
        """Give the rows before a time that are not settled, each once."""
        for side in SIDES:
            if side in self.plan.follows:
                for held, rows, are_open in self.chains[side].take_early(bound):
                    assert isinstance(held.marks, Marks)
                    batch = held.rows.take(are_open.astype(np.int32))
                    yield give_early(side, batch, held.marks, rows)

    def due_bounds(self, clock: Clock) -> dict[Side, int]:
        """Return before which time, or ordinal, nothing can match rows any more by now."""
        watermark, part = clock.watermark, self.plan.window_part
        if clock.is_over or (watermark is not None and watermark > MAX_KEY):
            return dict.fromkeys(SIDES, AFTER_ALL)
        if part is None or watermark is None:
            return self.expiry_bounds(clock)
        number = int(part.numbers(np.array([max(watermark, MIN_KEY)]))[0])
        return dict.fromkeys(SIDES, part.start(number))

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on."""
        self.threads = threads

    def expire_before(self, bounds: Mapping[Side, int]) -> None:
        """Drop the subwindows whose rows all have times, or ordinals, before these."""
        begin = perf_counter()
        for side, bound in bounds.items():
            if expired := self.chains[side].expire(bound):
                self.commands["expire"] += expired
        self.seconds["expire"] += perf_counter() - begin

    def _cut_probe(
        self, batch: Prepared, subwindows: Iterable[Subwindow], mirrored: bool
    ) -> list[ProbeSlice]:
        """Cut a probe into one for each worker, after what they share has been computed."""
        met = []
        for subwindow in subwindows:
            if meets(batch, subwindow):
                batch.sort(subwindow.layout)
                met.append((subwindow, checks_of(batch, subwindow)))
        if not met:
            return []
        limits = self.plan.limits
        count = min(self.threads, max(len(batch) // limits.slice_rows, 1))
        count = max(count, -(-len(batch) // limits.most_slice_rows))
        cuts = [len(batch) * number // count for number in range(count + 1)]
        return [ProbeSlice(batch, met, first, last, mirrored) for first, last in pairwise(cuts)]


def meets(batch: Prepared, subwindow: Subwindow) -> bool:
    """Whether any row of the batch has any row of the subwindow in its window."""
    if batch.times is not None:
        lower, upper = batch.reach
        return lower <= subwindow.newest and upper >= subwindow.oldest
    if subwindow.ordinals is not None and batch.arrival is not None:
        first, last = batch.arrival.visible
        ordinals = subwindow.ordinals
        return bool(first.min() <= ordinals.last and last.max() >= ordinals.first)
    return True
