"""Streams through windows that close: any pushes, watermarks, saves and finds, step by step."""

from collections import Counter

from hypothesis import strategies as st

import streamjoin as sj
from joins.small_streams import pairs, steps_of
from joins.window_oracle import pushed

ACTS = ["push", "push", "push", "advance", "save", "find", "count", "threads", "flush"]


def joined(result):
    return pairs(result) if "id_right" in result.schema.names else Counter()


def go(data, join, rows, arrived, after=lambda found, arrived: None):
    """Bring all rows in, in any way, and finish; ``after`` looks at what was found so far."""
    found = Counter()
    for left, right in data.draw(steps_of(*rows)):
        act = data.draw(st.sampled_from(ACTS))
        if act == "save":
            join = sj.StreamJoin.restore(join.snapshot())
        if act == "threads":
            join.threads = data.draw(st.sampled_from([1, 2, 3]))
        if act == "flush":
            found += joined(join.flush())
        if act in ("find", "count"):
            results = join.find(**pushed(left, right))
            count = results.count()
            fetched = joined(results.to_table())
            assert fetched.total() == count
            found += fetched
        else:
            found += joined(join.push(**pushed(left, right)))
        arrived.push(left, right)
        if act == "advance" and arrived.delay is None:
            times = [row["t"] for row in left + right if row["t"] is not None]
            watermark = (max(times) if times else 0) - data.draw(st.integers(-2, 9))
            arrived.advance(watermark)
            found += joined(join.advance(watermark))
        after(found, arrived)
    if data.draw(st.booleans()):
        join = sj.StreamJoin.restore(join.snapshot())
    found += joined(join.finish())
    stats = join.stats
    if join.schema is not None:
        assert (stats.live_left, stats.live_right, stats.subwindows) == (0, 0, 0)
        assert stats.late == arrived.late
    return found, join
