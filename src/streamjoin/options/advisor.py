"""Which algorithm serves a join best, and why, in words that ``explain`` prints.

For equalities in windows that close, and in tables, that is the study's decision tree
(`decision_tree`); for all else, the structure that windows are kept in.
"""

from dataclasses import dataclass

from streamjoin.choice.calibration_file import load_thresholds
from streamjoin.errors import ConditionError, StreamJoinError

ALGORITHMS = {  # what each is, beside "auto"
    "bi_sort": "sorted arrays with an index and an insertion buffer, PanJoin",
    "rap_table": "a table of key ranges that adapts from subwindow to subwindow, PanJoin",
    "wib_tree": "a B+-tree with wide leaves that are not sorted, PanJoin",
    "b_tree": "a B+-tree over the whole window",
    "b_chain": "a chain of B+-trees",
    "ib_chain": "a chain of B+-trees, all but the newest immutable",
    "im_tree": "an immutable B+-tree and a small one for new rows, merged from time to time",
    "pim_tree": "an immutable B+-tree with many small ones for new rows, merged from time to time",
    "spo_join": "sorted by two inequalities or bands at once, permutation arrays, SPO-Join",
    "scan": "compares every pair, a nested loop",
}

CROSSED = ("spo_join",)  # those that sort by two parts at once
LAZY = {  # join a closed window, or tables, by equality
    "npj": "one hash table for all threads, no partitioning",
    "prj": "radix partitions that fit into the cache, a hash table each",
    "mway": "sorted runs, merged all at once",
    "mpass": "sorted runs, merged two by two",
}
EAGER = {  # join a window by equality as its rows come
    "shj_jm": "symmetric hash join over a join matrix",
    "shj_jb": "symmetric hash join over a join biclique",
    "pmj_jm": "progressive merge join over a join matrix",
    "pmj_jb": "progressive merge join over a join biclique",
}
KNOBS = {  # what `tuning` may set
    "prj": ("bits",),
    "mway": ("run_rows",),
    "mpass": ("run_rows",),
    "shj_jb": ("group",),
    "pmj_jm": ("delta",),
    "pmj_jb": ("delta", "group"),
}
MOST_BITS = 18  # of partitions that may be asked for, as many as the study tries (Fig. 18)
LONGEST_QUOTE = 300  # characters of a condition in a message
EMITS = ("close", "eager", "auto")
GOALS = ("throughput", "latency", "progressiveness")


@dataclass(frozen=True)
class Advice:
    """An algorithm and the reason for it."""

    algorithm: str
    reason: str

    @property
    def what(self) -> str:
        """What the algorithm is."""
        if self.algorithm != "auto":
            return (ALGORITHMS | LAZY | EAGER)[self.algorithm]
        return f"for each subwindow anew; {describe_measured()}"


def describe_measured() -> str:
    """Say when the numbers were measured that ``"auto"`` goes by."""
    measured = load_thresholds().measured
    if measured:
        return f"measured on this machine, {measured}"
    return "'streamjoin calibrate' measures what is best here"


def advise(algorithm: str, has_key: bool, on: str, counted: bool = False) -> Advice:
    """Choose an algorithm; ``has_key`` tells whether condition or window give a key to index by.

    Windows that are ``counted`` may be kept whole.
    """
    names = (*ALGORITHMS, *LAZY, *EAGER)
    if algorithm not in ("auto", *names):
        raise StreamJoinError(
            f"algorithm {algorithm!r} does not exist; choose 'auto' or one of "
            f"{', '.join(map(repr, names))}"
        )
    if algorithm == "scan":
        return Advice("scan", "asked for; it compares every pair of rows in the window")
    if not has_key:
        raise ConditionError(
            f"the condition {shorten(on)!r} has no part that a join can use as a key, so every "
            "pair of rows would have to be compared. A key is an equality (l.a = r.a), a band "
            "(abs(l.x - r.x) <= 5) or an inequality (l.x < r.x) between the two sides, joined to "
            "the rest by AND; an OR is one only where all of it compares the same two expressions. "
            "Add a key, give a window of time, split an OR into several joins, or ask for "
            "algorithm='scan' to compare every pair"
        )
    if algorithm == "auto":
        thresholds = load_thresholds()
        return Advice("auto", thresholds.describe_any() if counted else thresholds.describe())
    return Advice(algorithm, "asked for")


def shorten(on: str) -> str:
    """Return a condition as it fits into a message."""
    return on if len(on) <= LONGEST_QUOTE else f"{on[: LONGEST_QUOTE - 4]} ..."


def check_equality(algorithm: str, has_equality: bool, on: str) -> None:
    """Refuse an algorithm that joins by equality if there is none: it would compare every pair."""
    if algorithm in (*LAZY, *EAGER) and not has_equality:
        raise ConditionError(
            f"algorithm={algorithm!r} joins by equality, and the condition {shorten(on)!r} has "
            "none between the two sides, so every pair of rows would have to be compared; leave "
            "algorithm out, or add an equality (l.a = r.a)"
        )


def check_ranges(algorithm: str, ranges: int, on: str) -> None:
    """Refuse an algorithm that needs two range parts if there are fewer."""
    if algorithm in CROSSED and ranges < 2:
        raise ConditionError(
            f"algorithm={algorithm!r} sorts rows by two inequalities or bands at once, and the "
            f"condition {shorten(on)!r} has {ranges}, a TimeWindow counted; leave algorithm out, "
            "or choose 'bi_sort'"
        )
