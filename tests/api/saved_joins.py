"""Small joins of every kind, and their snapshots: damaged, and signed anew by somebody else.

Run as a program, it restores tampered snapshots and goes on from those that are accepted; a test
looks at how it ends, since what it tries to provoke are crashes.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj
from streamjoin.api.snapshot_file import read_parts, write_parts
from streamjoin.api.snapshots import FORMAT
from streamjoin.joins.sessions.join import SessionJoin
from streamjoin.joins.sliding.manager import Manager
from streamjoin.joins.split.executor import SplitExecutor
from streamjoin.plans.limits import Limits, use_limits
from streamjoin.windows import Window

TIME, COUNT = sj.TimeWindow("6 ms"), sj.CountWindow(12)
TUMBLING, SESSION = sj.TumblingWindow("20 ms"), sj.SessionWindow("5 ms")
BAND, EQUAL, CROSSED = "abs(l.k - r.k) <= 1", "l.s = r.s", "l.k < r.k and l.v > r.v"
SLIDING = ("bi_sort", "rap_table", "wib_tree", "scan")
WHOLE = ("pim_tree", "im_tree", "ib_chain", "b_chain", "b_tree")
LAZY, EAGER = ("npj", "prj", "mway", "mpass"), ("shj_jm", "shj_jb", "pmj_jm", "pmj_jb")


def timed(**options: Any) -> dict[str, Any]:
    return {"on": BAND, "window": TIME, "time": "t", "threads": 2} | options


def counted(**options: Any) -> dict[str, Any]:
    return {"on": BAND, "window": COUNT, "threads": 2} | options


def closing(window: Window, **options: Any) -> dict[str, Any]:
    return {"on": "l.k = r.k", "window": window, "time": "t", "threads": 2} | options


KINDS: dict[str, dict[str, Any]] = {
    **{f"time {name}": timed(algorithm=name) for name in (*SLIDING, *WHOLE)},
    **{f"count {name}": counted(algorithm=name) for name in (*SLIDING, *WHOLE)},
    "time auto": timed(delay="3 ms"),
    "time equality": timed(on=EQUAL),
    "time equality and band": timed(on=f"{EQUAL} and {BAND}"),
    "time residual": timed(on=f"{BAND} and l.v + r.v < 3"),
    "time spo_join": timed(on=CROSSED, algorithm="spo_join"),
    "count spo_join": counted(on=CROSSED, algorithm="spo_join"),
    "time batch_rows": timed(batch_rows=1000),
    "count batch_rows": counted(batch_rows=1000),
    "count order": counted(order="v"),
    "time cores": timed(cores=2),
    "time ordered": timed(cores=2, ordered="outer"),
    "count ordered": counted(cores=2, ordered="inner"),
    "count ordered batch_rows": counted(cores=2, ordered=2, batch_rows=1000),
    "count cores pim_tree": counted(cores=2, algorithm="pim_tree"),
    **{f"tumbling {name}": closing(TUMBLING, algorithm=name) for name in (*LAZY, *EAGER)},
    **{f"tumbling {emit}": closing(TUMBLING, emit=emit) for emit in ("close", "eager", "auto")},
    "tumbling band": closing(TUMBLING, on=BAND),
    "tumbling band eager": closing(TUMBLING, on=BAND, emit="eager"),
    "tumbling batch_rows": closing(TUMBLING, emit="eager", batch_rows=1000),
    **{f"session {name}": closing(SESSION, algorithm=name) for name in LAZY},
    **{f"session {emit}": closing(SESSION, emit=emit) for emit in ("close", "eager")},
    "session text": closing(SESSION, on=f"{EQUAL} and {BAND}", emit="eager"),
    "time full": timed(how="full", delay="3 ms", indicator=True),
    "time left pim_tree": timed(how="left", algorithm="pim_tree"),
    "count full": counted(how="full"),
    "count right cores": counted(how="right", cores=2),
    "time left_semi spo_join": timed(on=CROSSED, algorithm="spo_join", how="left_semi"),
    "time full late batch_rows": timed(how="full", late="keep", batch_rows=1000),
    "time keep": timed(keep="nearest", how="full", delay="3 ms"),
    "time keep pim_tree": timed(keep="first", k=2, algorithm="pim_tree"),
    "time keep spo_join": timed(on=CROSSED, algorithm="spo_join", keep="last", how="right"),
    "time keep batch_rows": timed(keep="last", batch_rows=1000),
    "count keep": counted(keep="nearest", k=2, nearest="l.v - r.v", how="left"),
    "count keep order": counted(keep="last", order="v"),
    "tumbling keep": closing(TUMBLING, keep="last", how="full"),
    "session keep": closing(SESSION, keep="nearest", nearest="abs(l.v - r.v)", how="left"),
    **{
        f"tumbling {how} {emit}": closing(TUMBLING, emit=emit, how=how)
        for how, emit in (("full", "eager"), ("left", "close"), ("right_anti", "auto"))
    },
    **{
        f"session full {emit}": closing(SESSION, emit=emit, how="full")
        for emit in ("close", "eager")
    },
}
STATES = [*KINDS, "self-join", "symmetric self-join", "nothing", "left only", "finished"]


def rows(seed: int, count: int = 9, first: int = 0) -> pa.Table:
    """Rows with all kinds of columns, some of them late."""
    numbers = np.random.default_rng(seed)
    names = [None if each == 4 else f"name {each}" * 2 for each in numbers.integers(0, 5, count)]
    times = first + numbers.integers(0, 12, count)
    return pa.table(
        {
            "k": numbers.integers(0, 6, count),
            "v": numbers.random(count).round(1),
            "t": times,
            "s": names,
            "d": pa.array(names).dictionary_encode(),
            "l": [[each] * 2 for each in names],
        }
    )


def push_some(join: sj.StreamJoin, first: int = 0) -> None:
    """Push a few batches, the later ones with rows that come late."""
    for number in range(3):
        at = first + (0, 14, 5)[number]
        join.push(left=rows(number, first=at), right=rows(number + 10, first=at))


@use_limits(Limits(least_counted_rows=8, least_timed_rows=8))  # several subwindows
def make(state: str) -> sj.StreamJoin:
    """Return a join of some kind, with rows in it."""
    if state.endswith("self-join"):
        join = sj.StreamJoin(**timed(on=BAND if "symmetric" in state else CROSSED))
        for number in range(3):
            both = rows(number, first=7 * number)
            join.push(left=both, right=both)
        return join
    join = sj.StreamJoin(**KINDS.get(state, timed()))
    if state == "left only":
        join.push(left=rows(1))
        join.advance(3)
        join.push(left=rows(2))
    elif state != "nothing":
        push_some(join)
    if state == "finished":
        join.finish()
    return join


def check(join: sj.StreamJoin) -> None:
    """Assert the invariants of everything that a join holds."""
    engine = join._state.engine
    if engine is None:
        return
    held = engine.executor
    if isinstance(held, Manager | SplitExecutor):
        for each in chain.from_iterable(part.values() for part in held.chain_pairs):
            each.check()
    elif isinstance(held, SessionJoin):
        held.check()


def go_on(join: sj.StreamJoin) -> None:
    """Use a join in every way that leads to kernels."""
    check(join)
    first = 20
    push_some(join, first) if not is_self_join(join) else join.push(*[rows(5, first=first)] * 2)
    check(join)
    if join._state.config.how.name != "inner" or join._state.config.reduces:
        join.push(left=rows(7, first=30), right=rows(8, first=30))
    elif not is_self_join(join):
        join.find(left=rows(7, first=30), right=rows(8, first=30)).count()
    if not is_self_join(join) and not join._state.is_over:
        for _ in join.stream([(rows(9, first=31), rows(10, first=31))]):
            pass
    if not isinstance(join._state.config.window, sj.CountWindow):
        join.advance(35)
    join.finish()
    _ = join.stats
    sj.StreamJoin.restore(join.snapshot())


def is_self_join(join: sj.StreamJoin) -> bool:
    engine = join._state.engine
    return engine is not None and engine.is_self_join


ODD: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    7,
    2**31,
    2**63,
    -(2**63),
    10**30,
    0.5,
    None,
    True,
    "",
    "left",
    [],
    {},
    [1],
)


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all that a header holds."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from leaves_of(each, (*path, key))


def tamper(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Change a header or a part, and sign it anew, as somebody might who knows the format."""
    header, parts = read_parts(data, FORMAT)
    files = {name: bytearray(part) for name, part in parts.items()}
    how = chance.random()
    if how < 0.3:
        *way, last = chance.choice(list(leaves_of(header)))
        holder: Any = header
        for key in way:
            holder = holder[key]
        holder[last] = chance.choice(ODD)
        what = f"header {[*way, last]} = {holder[last]!r}"
    elif how < 0.4 and len(files) > 1:
        name, other = chance.sample(list(files), 2)
        files[name], what = files[other], f"{name} = {other}"
    elif files:
        name = chance.choice(list(files))
        part, size = files[name], chance.choice((1, 1, 8))
        at = chance.randrange(len(part) - size + 1)
        if size == 1 and chance.random() < 0.5:
            part[at] ^= 1 << chance.randrange(8)
        else:
            part[at : at + size] = chance.randbytes(size)
        what = f"{name}: {size} bytes at {at}"
    else:
        what = "nothing"
    signed = write_parts(header, {name: pa.py_buffer(part) for name, part in files.items()}, FORMAT)
    return signed, what


def check_tampered(count: int, seed: int) -> None:
    """Let another process restore so many snapshots of each state: this is about crashes."""
    ended = subprocess.run(
        [sys.executable, __file__, str(count), str(seed)],
        capture_output=True,
        text=True,
        timeout=560,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, (lines[-1:], ended.stderr[-2000:])
    tally = json.loads(lines[-1])
    assert tally["refused"] > count * len(STATES) // 2
    assert tally["went on"] > count * len(STATES) // 10


def main(count: int, seed: int, states: Sequence[str]) -> None:
    """Restore so many tampered snapshots of each state; print what is tried before it is."""
    tally = {"refused": 0, "went on": 0, "raised": 0}
    for state in states:
        data = make(state).snapshot()
        go_on(sj.StreamJoin.restore(data))
        for number in range(count):
            chance = random.Random(f"{state} {seed} {number}")
            signed, what = tamper(data, chance)
            sys.stdout.write(json.dumps([state, seed, number, what]) + "\n")
            sys.stdout.flush()
            try:
                join = sj.StreamJoin.restore(signed)
            except sj.SnapshotError:
                tally["refused"] += 1
                continue
            try:
                go_on(join)
                tally["went on"] += 1
            except sj.StreamJoinError:  # another type, a time that overflows: a join that could be
                tally["raised"] += 1
    sys.stdout.write(json.dumps(tally) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or STATES)
