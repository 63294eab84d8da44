"""Which algorithm serves a join best, and why, in words that ``explain`` prints."""

from dataclasses import dataclass

from streamjoin.errors import ConditionError, StreamJoinError

ALGORITHMS = {
    "bi_sort": "sorted arrays with an index and an insertion buffer, PanJoin",
    "scan": "compares every pair, a nested loop",
}


@dataclass(frozen=True)
class Advice:
    """An algorithm and the reason for it."""

    algorithm: str
    reason: str


def advise(algorithm: str, has_key: bool, on: str) -> Advice:
    """Choose an algorithm; ``has_key`` tells whether condition or window give a key to index by."""
    if algorithm not in ("auto", *ALGORITHMS):
        raise StreamJoinError(
            f"algorithm {algorithm!r} does not exist; choose 'auto' or one of "
            f"{', '.join(map(repr, ALGORITHMS))}"
        )
    if algorithm == "scan":
        return Advice("scan", "asked for; it compares every pair of rows in the window")
    if not has_key:
        raise ConditionError(
            f"the condition {on!r} has no part that a join can use as a key, so every pair of rows "
            "would have to be compared; add an equality (l.a = r.a), a band "
            "(abs(l.x - r.x) <= 5) or an inequality (l.x < r.x) between the two sides, give a "
            "TimeWindow, or ask for algorithm='scan' to compare every pair"
        )
    if algorithm == "auto":
        return Advice("bi_sort", "a probe finds its matches as ranges of a sorted array")
    return Advice(algorithm, "asked for")
