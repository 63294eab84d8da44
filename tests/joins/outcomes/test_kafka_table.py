"""The table by which Kafka Streams documents its joins of two streams, row by row.

The page ("Semantics of stream-stream joins", Kafka Streams DSL, 3.9) has all records under one key
and processed by their timestamps. It speaks of a window of 10 seconds and a grace period of 5, but
it has [A, d] and [D, a], which are 11 apart. With 11 to 14 seconds, every line is as it says; with
15, as in older versions, if there is no grace period: a record at 55 may still join E, and at 60 it
is within the grace period::

    ts    left   right   inner                 left              outer
     3    A
     4           a       [A, a]                the same          the same
     5    B              [B, a]
     6           b       [A, b] [B, b]
     9    C              [C, a] [C, b]
    10           c       [A, c] [B, c] [C, c]
    14           d       [A, d] [B, d] [C, d]
    15    D              [D, a] [D, b] [D, c] [D, d]
    40    E
    60    F                                    [E, null]         [E, null]
    80           f                             [F, null]         [F, null]
   100    G                                                      [null, f]

Records whose value is NULL (at 1, 2, 7, 8, 11, 12, 13) are ignored there. Here nothing is known of
values: whoever wants that filters them, as the test does.

What differs. *Time*: there the clock is the newest time of either stream, here `delay` follows the
slower stream; so the test tells the time with `advance`, by the clock and the grace period of
Kafka. *The end*: in the table [G, null] does not come, since no time passes after G; here `finish`
gives it, since the end of the streams settles all. *Spurious results* ([A, null] at once, and
[A, a] after that), as Kafka gave before 3.1, are what ``unmatched="early"`` with no patience is
about, but there nobody takes them back.
"""

import pyarrow as pa
import pytest

import streamjoin as sj

RECORDS = [
    (1, "left", None), (2, "right", None), (3, "left", "A"), (4, "right", "a"), (5, "left", "B"),
    (6, "right", "b"), (7, "left", None), (8, "right", None), (9, "left", "C"), (10, "right", "c"),
    (11, "right", None), (12, "left", None), (13, "right", None), (14, "right", "d"),
    (15, "left", "D"), (40, "left", "E"), (60, "left", "F"), (80, "right", "f"), (100, "left", "G"),
]  # fmt: skip
PAIRS = {
    4: "Aa", 5: "Ba", 6: "Ab Bb", 9: "Ca Cb", 10: "Ac Bc Cc", 14: "Ad Bd Cd", 15: "Da Db Dc Dd",
}  # fmt: skip
TABLE = {
    "inner": PAIRS,
    "left": PAIRS | {60: "E-", 80: "F-"},
    "full": PAIRS | {60: "E-", 80: "F-", 100: "-f"},
}
END = {"inner": "", "left": "G-", "full": "G-"}


def table(*values):
    times = [time for time, _ in values]
    return pa.table(
        {"k": [1] * len(times), "v": pa.array([value for _, value in values], pa.string())}
    ).append_column("t", pa.array(times, pa.timestamp("s")))


def names(*results):
    rows = [row for result in results for row in result.to_pylist()]
    return sorted(f"{row['v'] or '-'}{row['v_right'] or '-'}" for row in rows)


@pytest.mark.parametrize("how", TABLE)
@pytest.mark.parametrize("algorithm", ["auto", "bi_sort", "pim_tree", "scan"])
@pytest.mark.parametrize(("length", "grace"), [(11, 5), (14, 5), (15, 0)])
def test_the_table_of_kafka_streams(how, algorithm, length, grace):
    window = sj.TimeWindow(f"{length} seconds")
    join = sj.StreamJoin("l.k = r.k", window, "t", how=how, algorithm=algorithm)
    join.push(left=table(), right=table())
    for time, side, value in RECORDS:
        if value is None:
            continue
        pushed = join.push(**{side: table((time, value))})
        released = join.advance(pa.scalar(time - grace, pa.timestamp("s")).as_py())
        assert names(pushed, released) == TABLE[how].get(time, "").split(), time
    assert names(join.finish()) == END[how].split()
