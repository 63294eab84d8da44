"""Cost model: predicts the cost of a row in each structure from a few constants of the machine.

A row that arrives probes the other window (step 1), makes one row expire (step 2) and is inserted
(step 3). For structures of a whole window, the costs of the steps follow from the height of trees;
H is the logarithm of a tree's tuples to the base of its fan-out::

    window of 2^20 rows   b_tree     H_b = log_40 2^20 = 3.8 levels, for each of the three steps
                          pim_tree   H_S = log_65 2^20 = 3.3 levels, and 1.5 of a small tree

A push adds costs that depend not on the structure's algorithm, but on the number of places where it
is kept: every run that is probed, every delivery of matches, and every piece of rows from which
they are fetched takes one or more calls. A window of subwindows has more runs, a whole window more
pieces.

A function that predicts a structure's cost takes ``(costs, window, matches, batch)``: the rows of
the window, the matches of a row in it, and the rows of a push. The catalogue names it.

Source: Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU"
(arXiv:1903.00452), equations 1 to 6. Departures: a node's cost has a second term, `Costs.miss`, for
the share of its level that does not fit the cache; without it, predictions for large windows are
half of what is measured. The text of equation 5 searches T_I at lambda_ib, its formula at lambda_b,
which is used here.
"""

from dataclasses import dataclass, fields
from math import exp, log
from typing import Any, NamedTuple, Self

from streamjoin.indexes.catalogue import ALGORITHMS, WHOLE_WINDOWS
from streamjoin.indexes.runs.bi_sort import limit_buffer
from streamjoin.indexes.trees.chained_index import LENGTH as CHAIN_LENGTH
from streamjoin.indexes.trees.immutable_tree import FANOUT as IB_FANOUT
from streamjoin.indexes.trees.pim_tree import MERGE_RATIO
from streamjoin.indexes.two_keys.crossing import MARK_TUPLE_NS, SCAN_PLACE_NS
from streamjoin.plans.plan import SUBWINDOWS_PER_WINDOW

B_FANOUT = 40  # f_b: two thirds of the places of a block are used
B_BYTES, IB_BYTES = 20, 12.4  # per tuple, in leaves that full
WINDOWS = 2  # that share the cache
PREDICTED = tuple(name for name in WHOLE_WINDOWS if ALGORITHMS[name].cost)  # those that compete
SHARES = (0.25, 0.5, 0.25)  # of live rows in the oldest subwindow, middle, newest, on average
CONCAT_PIECES = 1.5  # concatenating pieces costs as much as fetching from this many
MARGIN = 0.05  # the share by which another structure must be cheaper
TYPICAL_MATCHES = 2.0  # per row, where the rule is put into words


class Saved:
    """Constants saved in a file."""

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        """Read saved constants; a missing or unknown one is an error."""
        names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        if set(saved) != names:
            raise ValueError(f"the costs should be {', '.join(sorted(names))}")
        return cls(**{name: float(saved[name]) for name in names})


@dataclass(frozen=True)
class Costs(Saved):
    """The constants, in nanoseconds unless stated otherwise; the defaults are measured."""

    b_search: float = 25  # lambda_b^s, a node in the cache
    b_insert: float = 40  # lambda_b^i
    b_delete: float = 50  # lambda_b^d
    ib_search: float = 22  # lambda_ib^s
    compare: float = 5  # tau_c
    merge: float = 9  # M / w: to merge a tuple of T_S
    miss: float = 330  # in addition, for a node that is not in the cache
    cache: float = 8 * 2**20  # bytes of cache, shared by both windows
    run_search: float = 20  # BI-Sort: to find a range in a cached run
    run_miss: float = 130  # in addition if it is not cached; less than above: misses overlap
    run_merge: float = 3.5  # to merge a tuple of a run
    push: float = 310_000  # a push, whatever the structure
    look: float = 15_000  # a run that is probed
    give: float = 85_000  # a run that has matches
    take: float = 40_000  # a piece of rows that has some of them
    forget: float = 35_000  # a push into a whole window, in addition to one into a subwindow

    def spill(self, tuples: float, width: float) -> float:
        """Return the share of a level, in both windows, that does not fit the cache."""
        size = WINDOWS * tuples * width
        return max(1 - self.cache / size, 0.0) if size > 0 else 0.0

    def b_miss(self, tuples: float) -> float:
        """Return the cost of waiting for a leaf of a B+-tree."""
        return self.miss * self.spill(tuples, B_BYTES)

    def ib_miss(self, tuples: float) -> float:
        """Return the cost of waiting for a leaf of an immutable tree."""
        return self.miss * self.spill(tuples, IB_BYTES)


DEFAULT_COSTS = Costs()


@dataclass(frozen=True)
class TwoKeyCosts(Saved):
    """What an index by two keys costs compared with one by one key, roughly, in nanoseconds."""

    check_candidate_ns: float = 3.0  # of an index by one key: to write out and check
    push_ns: float = 100_000.0  # beyond one key: per batch, in Python
    row_ns: float = 400.0  # beyond one key: to sort, insert and search twice
    write_match_ns: float = 2.0
    mark_tuple_ns: float = MARK_TUPLE_NS  # once per batch
    scan_place_ns: float = SCAN_PLACE_NS

    def cost_row(self, batch: int, window: float, looked_at: float, matches: float) -> float:
        """Return what a row of a batch costs beyond one key, in a window of ``window`` rows.

        It looks at the places of those rows that pass the second key, and finds its matches.
        """
        finding = min(self.mark_tuple_ns * window / batch, self.scan_place_ns * looked_at)
        return self.push_ns / batch + self.row_ns + finding + self.write_match_ns * matches


DEFAULT_TWO_KEY_COSTS = TwoKeyCosts()


class Steps(NamedTuple):
    """The cost of one tuple, by step."""

    search: float
    delete: float
    insert: float

    @property
    def total(self) -> float:
        """C_T (equation 1)."""
        return self.search + self.delete + self.insert


def height(tuples: float, fanout: float) -> float:
    """Return the levels of a tree, as a fraction; at least one.

    >>> height(1600, 40)
    2.0
    """
    return max(log(max(tuples, 1)) / log(fanout), 1.0)


def b_tree_join(costs: Costs, window: float, matches: float, batch: float = 1) -> Steps:
    """C_BJ (equation 2): one B+-tree."""
    levels, miss = height(window, B_FANOUT), costs.b_miss(window)
    search = levels * costs.b_search + miss + matches * costs.compare
    return Steps(search, levels * costs.b_delete + miss, levels * costs.b_insert + miss)


def chain_join(
    costs: Costs, window: float, matches: float, length: int = CHAIN_LENGTH, frozen: bool = False
) -> Steps:
    """C_CJ (equation 3): a chain of ``length`` B+-trees; ``frozen`` ones are immutable.

    The equation has links of w / L; here they are w / (L - 1), as the chain requires.
    """
    link = window / (length - 1)
    levels, miss = height(link, B_FANOUT), costs.b_miss(link)
    active = levels * costs.b_search + miss
    archived, freeze = active, 0.0
    if frozen:
        archived = height(link, IB_FANOUT) * costs.ib_search + costs.ib_miss(link)
        freeze = costs.merge
    scan = matches * costs.compare * (1 + 1 / (2 * (length - 1)))
    search = active + (length - 1) * archived + scan
    return Steps(search, 0.0, levels * costs.b_insert + miss + freeze)


def b_chain_join(costs: Costs, window: float, matches: float, batch: float = 1) -> Steps:
    """C_CJ for the chain as it is built here."""
    return chain_join(costs, window, matches)


def ib_chain_join(costs: Costs, window: float, matches: float, batch: float = 1) -> Steps:
    """C_CJ for the chain with immutable links."""
    return chain_join(costs, window, matches, frozen=True)


def im_tree_join(
    costs: Costs, window: float, matches: float, batch: float = 1, *, ratio: float = MERGE_RATIO
) -> Steps:
    """C_MJ (equation 5): an immutable tree, and one for new tuples, half full on average."""
    return _merge_tree(costs, window, matches, ratio, trees=1.0, depth=0.0)


def pim_tree_join(
    costs: Costs, window: float, matches: float, batch: float = 1, *, ratio: float = MERGE_RATIO
) -> Steps:
    """C_PJ (equation 6): the same with a tree for each node of the last inner level."""
    inner = max(height(window, IB_FANOUT) - 2, 0.0)  # D_I: leaves and the level above are below
    return _merge_tree(costs, window, matches, ratio, trees=IB_FANOUT**inner, depth=inner)


def _merge_tree(
    costs: Costs, window: float, matches: float, ratio: float, trees: float, depth: float
) -> Steps:
    fresh = window * ratio / 2
    levels, miss = height(fresh / trees, B_FANOUT), costs.b_miss(fresh)
    fixed = height(window, IB_FANOUT) * costs.ib_search + costs.ib_miss(window)
    scan = matches * costs.compare * (1 + ratio / 2)
    search = fixed + levels * costs.b_search + miss + scan
    insert = depth * costs.ib_search + levels * costs.b_insert + miss
    return Steps(search, costs.merge / ratio, insert)


def buffer_of(main: float, batch: float) -> float:
    """Return how many tuples BI-Sort's buffer takes before it is merged; 0 if it is not used."""
    limit = limit_buffer(int(main), int(batch))
    return 0.0 if limit <= batch else float(limit)


def bi_sort_join(costs: Costs, window: float, matches: float, batch: float) -> Steps:
    """BI-Sort in subwindows, likewise: searches in every run, merges shared by a batch.

    A subwindow is half full on average. A batch is merged into a buffer that is half full, too, and
    the buffer into the main array whenever it is full. Subwindows expire as a whole, at no cost.
    """
    main = window / SUBWINDOWS_PER_WINDOW / 2
    buffer = buffer_of(main, batch)
    miss = costs.run_miss * costs.spill(window / SUBWINDOWS_PER_WINDOW, IB_BYTES)
    search = len(SHARES) * (costs.run_search + miss) + matches * costs.compare
    if not buffer:
        return Steps(search, 0.0, costs.run_merge * (1 + main / batch))
    merges = (1 + buffer / 2 / batch) + (1 + main / buffer)
    return Steps(search + costs.run_search, 0.0, costs.run_merge * merges)


def steps_of(costs: Costs, structure: str, window: float, matches: float, batch: float) -> Steps:
    """Return the cost of a tuple in the structure of a name."""
    steps: Steps = ALGORITHMS[structure].predict_steps(costs, window, matches, batch)
    return steps


def hit(rows: float) -> float:
    """Return the probability of any match, given the expected number of them."""
    return 1 - exp(-rows)


def pieces_of(window: float) -> float:
    """Return how many pieces of similar size hold the rows of a whole window, as counted."""
    return min(max(3 + 0.75 * log(max(window, 1) / 4096, 2), 3), 9)


def push_cost(costs: Costs, structure: str, window: float, matches: float, batch: float) -> float:
    """Return the cost of pushing a batch: calls, and a tuple's steps for each row."""
    found, window = matches * batch, max(window, batch, 1)
    rows = batch * steps_of(costs, structure, window, matches, batch).total
    if structure in WHOLE_WINDOWS:
        runs = CHAIN_LENGTH if structure.endswith("chain") else 1
        gives, pieces = runs * hit(found / runs), pieces_of(window)
        takes = pieces * hit(found / pieces) + CONCAT_PIECES * gives
        rows += costs.forget
    else:
        buffered = buffer_of(window / SUBWINDOWS_PER_WINDOW / 2, batch) / 2 / window
        shares = (*SHARES, buffered) if buffered else SHARES
        runs, gives = len(shares), sum(hit(found * share) for share in shares)
        takes = gives + hit(found / 8)  # the newest subwindow has some pieces
    return costs.push + runs * costs.look + gives * costs.give + takes * costs.take + rows


def cheapest_index(costs: Costs, window: float, matches: float, batch: float) -> tuple[str, float]:
    """Return the index of a whole window that makes a push cheapest, and the cost of the push."""
    pushes = {name: push_cost(costs, name, window, matches, batch) for name in PREDICTED}
    best = min(pushes, key=pushes.__getitem__)
    return best, pushes[best]


def prefer_index(
    costs: Costs, window: float, matches: float, batch: float, current: str = ""
) -> str | None:
    """Return the index of a whole window that is better than subwindows, or None.

    The ``current`` one stays unless another is cheaper by a margin, so that a join close to a
    border does not switch back and forth.
    """
    best, least = cheapest_index(costs, window, matches, batch)
    sorted_runs = push_cost(costs, "bi_sort", window, matches, batch)
    if current in PREDICTED:
        now = push_cost(costs, current, window, matches, batch)
        if min(least, sorted_runs) >= (1 - MARGIN) * now:
            return current
        return best if least < sorted_runs else None
    return best if least < (1 - MARGIN) * sorted_runs else None


def describe_choice(costs: Costs) -> str:
    """Put into words where an index of a whole window is preferred, at a typical match rate."""
    told = []
    for shift in (12, 16, 20):
        sizes = [1 << size for size in range(16)]
        chosen = {size: prefer_index(costs, 1 << shift, TYPICAL_MATCHES, size) for size in sizes}
        batches = [size for size, name in chosen.items() if name is not None]
        if batches:
            names = sorted({name for name in chosen.values() if name is not None})
            told.append(
                f"{' or '.join(names)} for batches of {batches[0]:,} to {batches[-1]:,} rows in "
                f"windows of {1 << shift:,}"
            )
    return ", ".join(told)
