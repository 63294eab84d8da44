"""The decision tree of Zhang et al. (5.1, Fig. 4): which of eight algorithms joins a window.

::

    arrival rate    low: a symmetric hash join (SHJ) keeps up, or
                    medium: it lags behind, but that costs less than waiting for the end
                        a step takes less time over a matrix (JM)      shj_jm
                        otherwise (JB)                                 shj_jb
                    high: it lags behind by more, or all rows are known
                        matches are wanted as rows arrive
                            left has far fewer rows                    pmj_jm
                            otherwise                                  pmj_jb
                        number of tuples: few                          npj
                        key skew: one key has the shares of several threads
                                                                       npj
                        key duplication: many matches per row          mpass
                        otherwise                                      prj

The rate is judged by b, the share of the time for which SHJ would be busy: the tuples and matches
of a window, times what they cost on this machine (`window_costs`), divided by its length. Beyond 1
it lags behind: it finishes after b window lengths, with half of the matches after about 0.7 b,
since matches become more frequent as rows accumulate, and the last ones are b - 1 late. A join that
waits, and then works for w window lengths, has half of the matches soon after 1, and 95 of 100 are
at most 0.78 + w late. So, to get matches early, SHJ is better up to b = 1.8 + w for latency, and
1.4 + w for progressiveness; for throughput there is no medium rate.

A source that waits for the join is never faster than the join, so its rate says nothing: then the
join is busy all the time, whatever b says. So b is taken to be at least the share of the time for
which the join really was busy.

docs/measured/intra-window.md has the measurements. docs/design/choice.md says where this departs
from the published tree.

Source: Zhang, Mao, He, Grulich, Zeuch, He, Ma and Markl, "Parallelizing Intra-Window Join on
Multicores: An Experimental Study" (SIGMOD 2021).
"""

from dataclasses import dataclass
from math import inf, sqrt

from streamjoin.choice.sketches import Sketch
from streamjoin.choice.window_costs import Spent, WindowCosts, interpolate

KEEPS_UP = 0.85  # if busy for longer, SHJ is taken to lag behind, since estimates may be wrong
MEDIUM = {"throughput": KEEPS_UP, "latency": 1.8, "progressiveness": 1.4}  # for w = 0
SKEWED = 3  # a key is heavy if it has this many threads' shares of the right rows: PRJ leaves it to
# one thread, NPJ to all, but NPJ takes about three times as long per tuple if tables are large
UNEVEN = 8  # a side has far fewer rows than the other if it has less than one for this many

Pair = tuple[float, float]  # of left and right
Branch = tuple[str, ...]


@dataclass(frozen=True)
class Traits:
    """What is known about a window."""

    rows: Pair
    rates: Pair  # rows per second; infinite if all rows are known
    keys: Pair  # distinct ones
    heaviest: Pair  # the share of rows with the most frequent key
    matches: float
    threads: int
    worked: float = 0.0  # the share of the time for which the join was busy

    @classmethod
    def of(
        cls,
        sketches: tuple[Sketch, Sketch],
        threads: int,
        seconds: float = 0.0,
        rows: Pair | None = None,
        worked: float = 0.0,
    ) -> "Traits":
        """Read sketches of a window that took some seconds, or of a sample of its ``rows``."""
        left, right = sketches
        all_left, all_right = rows or (left.rows, right.rows)
        some_left, some_right = share(left.rows, all_left), share(right.rows, all_right)
        return cls(
            (all_left, all_right),
            (all_left / seconds, all_right / seconds) if seconds > 0 else (inf, inf),
            (all_left / repeats(left, some_left), all_right / repeats(right, some_right)),
            (left.heaviest, right.heaviest),
            left.matches(right) / some_left / some_right,
            threads,
            worked,
        )

    @property
    def seconds(self) -> float:
        """How long the rows take to arrive."""
        pairs = zip(self.rows, self.rates, strict=True)
        return max((rows / rate for rows, rate in pairs if rate), default=0.0)

    @property
    def matches_each(self) -> float:
        """How many matches a row has, on the side with more rows."""
        return self.matches / max(*self.rows, 1)

    def busy(self, spent: Spent, costs: WindowCosts) -> float:
        """Return the share of the time for which an algorithm would be busy."""
        size = find_middle(*self.keys)
        return self.share_of_time(spent.work(sum(self.rows), size, self.matches), costs)

    def busy_over_matrix(self, costs: WindowCosts) -> float:
        """Return the same for SHJ over a join matrix.

        Left rows probe the tables of all threads; if keys repeat, each table has most right keys.
        """
        (left, right), (left_keys, right_keys) = self.rows, self.keys
        size = find_middle(left_keys, min(self.threads * right_keys, right))
        left *= (1 + self.threads) / (1 + costs.threads)  # one table is built, all are probed
        left_cost, right_cost = (interpolate(line, size) for line in costs.matrix)
        written = self.matches * interpolate(costs.eager.matches, sum(self.rows) / 2)
        return self.share_of_time((left * left_cost + right * right_cost + written) / 1e9, costs)

    def share_of_time(self, work: float, costs: WindowCosts) -> float:
        """Return the share of the time that ``work`` seconds are, with threads as measured."""
        work *= costs.threads / self.threads
        return work / self.seconds if self.seconds > 0 else inf


def find_middle(one: float, other: float) -> float:
    """Return the size that costs as much as two on average: costs follow the logarithm of sizes."""
    return sqrt(max(one, 1) * max(other, 1))


def share(some: float, every: float) -> float:
    """Return the share of the rows that was looked at; all, if there are none."""
    return some / every if some and every else 1.0


def repeats(sketch: Sketch, looked_at: float) -> float:
    """Return the rows per key, corrected for a sample, in which keys repeat less often."""
    return 1 + max(sketch.rows / max(sketch.distinct, 1) - 1, 0) / looked_at


@dataclass(frozen=True)
class Decision:
    """An algorithm, and the branch of the tree that leads to it."""

    algorithm: str
    branch: Branch

    def __str__(self) -> str:
        return "; ".join((*self.branch, self.algorithm))


def choose(traits: Traits, optimize: str, emit: str, costs: WindowCosts) -> Decision:
    """Descend the tree; ``emit`` rules out the algorithms that wait, or those that do not."""
    if emit == "close" or traits.seconds == 0:
        branch: Branch = ("arrival rate: all rows are known",)
        return choose_lazy(traits, costs, branch) if emit != "eager" else choose_pmj(traits, branch)
    busy = traits.busy(costs.eager, costs)
    bound = MEDIUM[optimize]
    if optimize != "throughput":
        bound += traits.busy(costs.sorting if emit == "eager" else costs.lazy, costs)
    shown = max(busy, traits.worked)
    level = "low" if shown < min(KEEPS_UP, bound) else "medium" if shown < bound else "high"
    left, right = traits.rates
    told = f"{left:,.0f} and {right:,.0f} rows/s would keep SHJ busy for {busy:.0%} of the time"
    if shown > busy:
        told += f", and the join was busy for {traits.worked:.0%} of it"
    branch = (f"arrival rate: {level}, {told} (up to {bound:.0%} is good for {optimize})",)
    if level != "high":
        return choose_shj(traits, busy, costs, branch)
    return choose_pmj(traits, branch) if emit == "eager" else choose_lazy(traits, costs, branch)


def choose_shj(traits: Traits, busy: float, costs: WindowCosts, branch: Branch) -> Decision:
    """Choose how SHJ is spread over threads, by the time that a step takes.

    Over a matrix nothing is partitioned, so a small step takes less time. While it runs, rows for
    the next one arrive, so steps get longer the busier the join is. That counts for one thread, as
    small steps are not shared; and towards the end of a window, when most rows to match are there,
    the join is about twice as busy as on average. Once steps are not small any more, a biclique is
    better: its threads share all work, even that of growing its tables.
    """
    at_end = 2 * traits.threads
    steps = (
        (costs.matrix_step, at_end * traits.busy_over_matrix(costs)),
        (costs.biclique_step, at_end * busy),
    )
    matrix, biclique = (step / 1e6 / (1 - load) if load < 1 else inf for step, load in steps)
    told = f"{told_ms(matrix)} over a matrix, {told_ms(biclique)} over a biclique"
    name = "shj_jm" if matrix < biclique else "shj_jb"
    return Decision(name, (*branch, f"step: {told}"))


def told_ms(step: float) -> str:
    """Say how long a step takes; towards the end of a window it may not stay small."""
    return "a large one at the end" if step == inf else f"{step:.2g} ms"


def choose_pmj(traits: Traits, branch: Branch) -> Decision:
    """Choose how PMJ is spread over threads."""
    left, right = traits.rows
    name = "pmj_jm" if left * UNEVEN < right else "pmj_jb"
    told = f"{left:,.0f} left and {right:,.0f} right (a matrix from 1 : {UNEVEN} on)"
    return Decision(name, (*branch, f"number of tuples: {told}"))


def choose_lazy(traits: Traits, costs: WindowCosts, branch: Branch) -> Decision:
    """Choose between the algorithms that wait."""
    rows, few = sum(traits.rows), costs.few_rows
    heaviest, each, many = traits.heaviest[1], traits.matches_each, costs.many_matches
    shares = heaviest * traits.threads
    steps = [
        ("npj", rows <= few, f"number of tuples: {rows:,.0f} (up to {few:,.0f} are few)"),
        (
            "npj",
            shares > SKEWED,
            f"key skew: {heaviest:.1%} of the right rows have one key, the shares of {shares:.1f} "
            f"threads (many: {SKEWED})",
        ),
        ("mpass", each >= many, f"key duplication: {each:,.1f} matches/row (many: {many:,.0f})"),
    ]
    for name, is_taken, told in steps:
        branch = (*branch, told)
        if is_taken:
            return Decision(name, branch)
    return Decision("prj", branch)


def describe_tree(optimize: str, emit: str, costs: WindowCosts) -> list[str]:
    """Describe the branches, with their numbers."""
    lazy = (
        f"npj for at most {costs.few_rows:,.0f} rows, or if one key has the shares of {SKEWED} "
        f"threads; mpass from {costs.many_matches:,.0f} matches per row; otherwise prj"
    )
    if emit == "close":
        return [lazy]
    first = "prj" if emit == "auto" and optimize == "throughput" else "shj_jb"
    bound = f"{MEDIUM[optimize]:.0%} of the time"
    if optimize != "throughput":
        bound += f" and the share that {'pmj' if emit == 'eager' else 'prj'} would be busy for"
    high = f"pmj_jm if left has less than 1/{UNEVEN} of right's rows; otherwise pmj_jb"
    tuples, matches = costs.eager.tuples, costs.eager.matches
    return [
        f"for {optimize}, by the last window that closed; until then {first}",
        f"shj_jm or shj_jb, by the time of a step, if rates keep them busy for up to {bound} "
        f"(a step takes {costs.matrix_step / 1e6:.2g} and {costs.biclique_step / 1e6:.2g} ms, a "
        f"tuple {tuples[0]:.0f} to {tuples[-1]:.0f} ns, a match {matches[0]:.0f} to "
        f"{matches[-1]:.0f} ns)",
        f"above that {high if emit == 'eager' else lazy}",
    ]
