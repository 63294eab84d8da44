"""The manager of a sliding-window join: PanJoin's five steps and four commands (III-A).

::

    1  collecting      rows of both streams, until a batch is worth its while     `Collector`
    2  preprocessing   keys; sort once; which subwindows are full, empty, met     `prepare`, chains
    3  sending         commands: probe, then create and insert, then expire       here
    4  processing      the workers carry them out                                 `worker`
    5  feedback        matches, as ranges, rows or a count; what is full          ``deliver``

A pair is found once, by the row that comes later; where a step has both batches, right probes left
too::

    search     L -> right chain     R -> left chain     R -> L
    store      insert L, R

Nothing is inserted before all matches are delivered, so a search that fails has changed nothing,
and matches may stay where they are, as ranges, until somebody asks for them. What it has learnt of
the rows, to choose layouts by, is forgotten if these are not stored.

Workers are threads, and kernels run without the GIL. What becomes of the matches is up to
``deliver``: gather columns, count them, or leave them as ranges.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

from streamjoin.choice.structure import Samples
from streamjoin.joins.candidates import checks_of
from streamjoin.joins.executor import Batches, Clock, Deliver, Holdings
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.commands import Command, Probe
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.joins.sliding.worker import carry_out
from streamjoin.kernels.interrupts import checkpoint
from streamjoin.kernels.threads import share
from streamjoin.keys.operands import OTHER, Side
from streamjoin.plans.plan import JoinPlan
from streamjoin.plans.prepared import Prepared

SLICE = 8192  # probes for a worker; with fewer, the threads mostly wait for the GIL
MOST_PROBES = 1 << 20  # before the next checkpoint: some tenths of a second, in most structures

Asks = tuple[Prepared, Iterable[Subwindow]]  # a batch, and where it looks for matches


class Manager:
    """Two chains, and the steps over them; ``chooses`` lets samples choose their structures."""

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
    def parts(self) -> list[dict[Side, Chain]]:
        """The two chains, the only part."""
        self.undo()
        return [self.chains]

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
            chain, coming = self.chains[side], prepared.kept_count
            if not coming:
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

    def search(
        self, batches: Batches, interleaved: bool = False, deliver: Deliver | None = None
    ) -> Iterator[Any]:
        """Look for the matches of one batch of either stream, or of both, as they are asked for.

        Yields what ``deliver`` makes of them. ``interleaved`` tells that some rows of ``right``
        arrived before some of ``left``.
        """
        self.learn(batches)
        coming = {side: batch for side, batch in batches.items() if len(batch)}
        self.sort(list(coming.values()))
        asks: list[Asks] = [(batch, self.chains[OTHER[side]]) for side, batch in coming.items()]
        if len(coming) == 2:
            left, right = coming["left"], coming["right"]
            if left.kept_count:
                asks.append((right, [self.chains["left"].alone(left.kept)]))
            if interleaved and right.kept_count:
                asks.append((left, [self.chains["right"].alone(right.kept)]))
        yield from self.probe(asks, deliver)

    def store(self, batches: Batches) -> None:
        """Insert the batches, after all their matches have been taken."""
        self._learnt_before = None
        self.insert([batch.kept for batch in batches.values() if len(batch.kept)])

    def sort(self, batches: Sequence[Prepared]) -> None:
        """Sort each batch by the layout of the chain that it is going to probe."""
        begin = perf_counter()
        share(
            lambda batch: batch.sort(self.chains[OTHER[batch.side]].layout),
            batches,
            self.threads,
        )
        self.seconds["sort"] += perf_counter() - begin

    def probe(
        self, asks: Sequence[Asks], deliver: Deliver | None = None, mirrored: bool = False
    ) -> Iterator[Any]:
        """Find matches and deliver them, in the order they are asked for.

        With one thread nothing is found before it is asked for, so memory stays bounded.
        """
        begin = perf_counter()
        deliver = deliver or self.deliver
        commands = [command for ask in asks for command in self._cut(*ask, mirrored)]
        if self.threads == 1:
            for command in commands:
                checkpoint()
                for item in carry_out(command, deliver):
                    self.seconds["probe"] += perf_counter() - begin
                    yield item
                    begin = perf_counter()
        else:
            parts = share(lambda command: list(carry_out(command, deliver)), commands, self.threads)
            self.seconds["probe"] += perf_counter() - begin
            yield from (item for part in parts for item in part)
            begin = perf_counter()
        self.commands["probe"] += len(commands)
        self.seconds["probe"] += perf_counter() - begin

    def insert(self, batches: Sequence[Prepared]) -> None:
        """Store each batch in its chain."""
        begin = perf_counter()
        chains = self.chains
        sent = share(
            lambda each: self._send(chains[each.side].storing(each)), batches, self.threads
        )
        for each in sent:
            self.commands += each
        self.inserted = list(batches)
        self.seconds["insert"] += perf_counter() - begin

    def restore(self, batches: Batches) -> None:
        """Take back rows that were stored before, without looking for matches."""
        self.learn(batches)
        self._learnt_before = None
        self.insert(list(batches.values()))
        self.inserted = []

    is_lasting = False  # an index moves its rows
    can_undo = False  # what is stored

    def begin(self) -> None:
        """Do nothing: a search can be undone until its rows are stored."""

    def undo(self) -> None:
        """Forget what a search has learnt whose rows were not stored."""
        if self._learnt_before is not None:
            self.samples, choices = self._learnt_before
            for chain, before in choices:
                chain.choices = before
            self._learnt_before = None

    def conclude(self) -> None:
        """Do nothing: there is nothing to keep for it."""

    def ends(self, clock: Clock) -> bool:
        """Whether `advance` changes anything; it may."""
        return True

    def closing(self, clock: Clock, deliver: Deliver | None = None) -> Iterator[Any]:
        """Give nothing: a match is found as soon as both rows are there."""
        return iter(())

    @property
    def holdings(self) -> Holdings:
        """What both chains hold."""
        return Holdings.of([self.chains])

    @property
    def nbytes(self) -> int:
        """Bytes that all chains hold."""
        return self.holdings.nbytes

    def advance(self, clock: Clock) -> None:
        """Drop the subwindows whose rows have all left the window."""
        self.expire(self.needed(clock))

    def needed(self, clock: Clock) -> dict[Side, int]:
        """Return before which time, or ordinal, rows have left the window by now."""
        window = self.plan.counted
        if window is not None:
            return {side: clock.arrived[side] - size for side, size in window.items()}
        return {} if clock.watermark is None else self.plan.needed_from(clock.watermark)

    def set_threads(self, threads: int) -> None:
        """Work with another number of threads from now on."""
        self.threads = threads

    def report(self) -> None:
        """Nothing is ever lost here."""

    def expire(self, before: Mapping[Side, int]) -> None:
        """Drop the subwindows whose rows all have times, or ordinals, before these."""
        begin = perf_counter()
        for side, bound in before.items():
            self.commands += self._send(self.chains[side].expiring(bound))
        self.seconds["expire"] += perf_counter() - begin

    def _send(self, commands: Iterable[Command]) -> Counter[str]:
        """Have commands carried out one by one, each planned after the last; count them."""
        sent: Counter[str] = Counter()
        for command in commands:
            sent[type(command).__name__.lower()] += 1
            for _ in carry_out(command, self.deliver):
                pass  # only probes give anything
        return sent

    def _cut(self, batch: Prepared, subwindows: Iterable[Subwindow], mirrored: bool) -> list[Probe]:
        """Cut a probe into one for each worker, after what they share has been computed."""
        targets = []
        for subwindow in subwindows:
            if meets(batch, subwindow):
                batch.sort(subwindow.layout)
                targets.append((subwindow, checks_of(batch, subwindow)))
        if not targets:
            return []
        count = min(self.threads, max(len(batch) // SLICE, 1))
        count = max(count, -(-len(batch) // MOST_PROBES))
        cuts = [len(batch) * number // count for number in range(count + 1)]
        return [Probe(batch, targets, first, last, mirrored) for first, last in pairwise(cuts)]


def meets(batch: Prepared, subwindow: Subwindow) -> bool:
    """Whether any row of the batch has any row of the subwindow in its window."""
    if batch.times is not None:
        lower, upper = batch.reach
        return lower <= subwindow.newest and upper >= subwindow.oldest
    if subwindow.ordinals is not None and batch.visible is not None:
        first, last = batch.visible
        ordinals = subwindow.ordinals
        return bool(first.min() <= ordinals.last and last.max() >= ordinals.first)
    return True
