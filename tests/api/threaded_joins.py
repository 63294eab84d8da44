"""Several threads that use one join, in a process of their own: run with the names of kinds.

All rows that any of them gets, and what the end gives, are the join of all that any has pushed.
"""

import resource
import sys
from collections import Counter
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj

THREADS, PUSHES, ROWS = 4, 30, 40
TIME, TUMBLING = sj.TimeWindow("500 ms"), sj.TumblingWindow("700 ms")
BAND, EQUAL = "abs(l.k - r.k) <= 2", "l.k = r.k"
KINDS: dict[str, dict[str, Any]] = {
    "time": {"on": BAND, "window": TIME},
    "scan": {"on": BAND, "window": TIME, "algorithm": "scan"},
    "wib_tree": {"on": BAND, "window": TIME, "algorithm": "wib_tree"},
    "pim_tree": {"on": BAND, "window": TIME, "algorithm": "pim_tree"},
    "spo_join": {"on": "l.k < r.k - 190 and l.t > r.t", "window": TIME, "algorithm": "spo_join"},
    "batches": {"on": BAND, "window": TIME, "batch_rows": 300},
    "cores": {"on": BAND, "window": TIME, "cores": 2},
    "ordered": {"on": BAND, "window": TIME, "cores": 2, "ordered": "outer"},
    "shj_jm": {"on": EQUAL, "window": TUMBLING, "algorithm": "shj_jm"},
    "pmj_jb": {"on": EQUAL, "window": TUMBLING, "algorithm": "pmj_jb"},
    "tumbling": {"on": EQUAL, "window": TUMBLING},
    "session": {"on": EQUAL, "window": sj.SessionWindow("9 ms")},
    "eager session": {"on": EQUAL, "window": sj.SessionWindow("9 ms"), "emit": "eager"},
}
AHEAD = ("pim_tree", "cores", "ordered")  # a source that is read has these for itself


def rows(number: int) -> pa.Table:
    chance = np.random.default_rng(number)
    ids = np.arange(ROWS) + number * ROWS
    return pa.table(
        {"id": ids, "k": chance.integers(0, 200, ROWS), "t": chance.integers(0, 2000, ROWS)}
    )


def pairs(*tables: pa.Table) -> Counter[tuple[int, int]]:
    """Return which rows have met."""
    return Counter(
        pair
        for table in tables
        for pair in zip(table["id"].to_pylist(), table["id_right"].to_pylist(), strict=True)
    )


def main(kind: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (10 << 30, 10 << 30))
    options = KINDS[kind] | {"time": "t", "threads": 2}
    join = sj.StreamJoin(**options)
    join.push(rows(0).slice(0, 0), rows(0).slice(0, 0))  # from now on results have all columns
    left = [rows(number) for number in range(THREADS * PUSHES)]
    right = [rows(number + 10_000) for number in range(THREADS * PUSHES)]
    found: list[pa.Table] = []
    errors: list[BaseException] = []
    begin = Barrier(THREADS + 1)

    def push(thread: int) -> None:
        try:
            begin.wait()
            for number in range(thread, THREADS * PUSHES, THREADS):
                if number % 3 or kind in AHEAD:
                    found.append(join.push(left[number], right[number]))
                else:
                    found.append(join.push(left=left[number]))
                    found.extend(
                        part.rows for part in join.stream([(None, right[number])], finish=False)
                    )
        except BaseException as error:
            errors.append(error)

    def look() -> None:
        """Monitor the join, and set its threads, as docs say one may."""
        try:
            begin.wait()
            seen = 0
            for number in range(100):
                seen, before = join.stats.rows_left, seen
                assert seen >= before
                join.threads = 1 + number % 3
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=push, args=(number,)) for number in range(THREADS)]
    threads.append(Thread(target=look))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    found += [join.flush(), join.finish()]
    window, on = options["window"], options["on"]
    expected = sj.join_tables(
        pa.concat_tables(left), pa.concat_tables(right), on=on, window=window, time="t"
    )
    assert pairs(*found) == pairs(expected)
    assert expected.num_rows > 100
    assert join.stats.rows_left == join.stats.rows_right == THREADS * PUSHES * ROWS


if __name__ == "__main__":
    for kind in sys.argv[1:]:
        sys.stderr.write(f"{kind}\n")  # if it fails, which one
        main(kind)
