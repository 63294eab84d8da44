"""Random joins of every kind, driven in every way, and compared with `truths` after each step."""

import copy
import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

import streamjoin as sj
from streamjoin.indexes.catalogue import BY_EQUALITY, EAGER, LAZY, TWO_KEYS
from streamjoin.options.how import BY_NAME
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.outcomes.truths import ALL, Given, Truth, read
from tests.joins.small_streams import TINY, check, many_rows, table
from tests.oracle import Row

SLIDING = ("auto", "scan", "bi_sort", "rap_table", "wib_tree", "pim_tree", "im_tree", "ib_chain",
           "b_chain", "b_tree", "spo_join")  # fmt: skip
KINDS = ("time", "count", "tumbling", "session")
EQUALITIES = [name for name in ALL if "l.k = r.k" in ALL[name][0] or "l.s = r.s" in ALL[name][0]]
EQUALITIES = [name for name in EQUALITIES if name not in ("or", "left filter", "two equalities")]


@dataclass(frozen=True)
class Case:
    """A join, and how it is used."""

    how: str
    condition: str
    window: Any
    options: dict[str, Any]
    driving: str = "push"  # or "stream", "finish=False", "stopped"
    saving: str = ""  # before each push, or at random
    limits: Limits = field(default=TINY, repr=False)

    def make(self) -> sj.StreamJoin:
        timed: dict[str, Any] = {} if isinstance(self.window, sj.CountWindow) else {"time": "t"}
        text = ALL[self.condition][0]
        with use_limits(self.limits):
            return sj.StreamJoin(text, self.window, how=self.how, **timed, **self.options)

    def truth(self) -> Truth:
        options = self.options
        delay = options.get("delay")
        algorithm, emit = options.get("algorithm", "auto"), options.get("emit")
        is_eager = emit in ("eager", "auto") or algorithm in EAGER
        is_prompt = emit != "auto" and not algorithm.startswith("pmj")
        if isinstance(self.window, sj.TumblingWindow) and algorithm == "auto":
            is_prompt = False  # a clock decides, and it may be for PMJ
        return Truth(
            self.how,
            self.condition,
            self.window,
            None if delay is None else int(delay.split()[0]),
            options.get("late") == "keep",
            None if "patience" not in options else int(options["patience"].split()[0]),
            is_eager,
            is_prompt,
        )

    @property
    def waits(self) -> bool:
        """Whether rows wait in batch mode."""
        return bool({"batch_rows", "batch_time"} & self.options.keys())


def make_case(
    random: Random,
    kind: str | None = None,
    how: str | None = None,
    early: dict[str, Any] | None = None,
) -> Case:
    """Return a join that is not refused; ``early`` are more of its options."""
    while True:
        chosen = kind or random.choice(KINDS), how or random.choice([*BY_NAME])
        case = draw_case(random, *chosen, early)
        try:
            case.make().push(left=table([]), right=table([]))
        except sj.StreamJoinError:
            continue
        return case


def draw_case(random: Random, kind: str, how: str, early: dict[str, Any] | None = None) -> Case:
    condition, options = random.choice([*ALL]), dict[str, Any]()
    chance = random.random
    if kind == "count":
        window: Any = sj.CountWindow(left=random.randint(1, 12), right=random.randint(1, 12))
    elif kind == "time":
        before, after = random.choice([(3, 3), (0, 5), (6, 1), (1, 0), (12, 12)])
        window = sj.TimeWindow(before=f"{before} ms", after=f"{after} ms")
    elif kind == "tumbling":
        window = sj.TumblingWindow(f"{random.choice([1, 4, 10])} ms")
    else:
        window = sj.SessionWindow(f"{random.choice([1, 2, 3])} ms")
        condition = random.choice(EQUALITIES)
    if kind in ("tumbling", "session"):
        emit = random.choice([None, "close", "eager", "eager", "auto"])
        algorithm = random.choice(["auto", "auto", *EAGER, *LAZY, *SLIDING])
        if emit is not None:
            options["emit"] = emit
    else:
        algorithm = random.choice(SLIDING)
        if chance() < 0.25:
            options["cores"] = random.choice([2, 3])
    if algorithm in BY_EQUALITY and chance() < 0.9:
        condition = random.choice(EQUALITIES)
    if algorithm in TWO_KEYS:
        condition = random.choice(["two inequalities", "two bands", "right filter"])
    if algorithm != "auto":
        options["algorithm"] = algorithm
    options |= early or {}
    options["threads"] = random.choice([1, 1, 2])
    if kind != "count":
        if chance() < 0.7:
            options["delay"] = f"{random.choice([0, 2, 5])} ms"
        if chance() < 0.4:
            options["late"] = "keep"
    if chance() < 0.2:
        options["batch_rows"] = random.choice([1, 6, 25])
    elif chance() < 0.1:
        options["batch_time"] = "1 hour"
    if BY_NAME[how].gives_pairs and chance() < 0.4:
        options["indicator"] = True
    driving = random.choice(["push"] * 5 + ["stream", "finish=False", "stopped"])
    saving = random.choice(["", "", "always", "sometimes", "pickle", "copy"])
    return Case(how, condition, window, options, driving, saving, random.choice([TINY, Limits()]))


def draw_rows(random: Random) -> tuple[list[Row], list[Row]]:
    size = random.choice([3, 10, 40, 80])
    left, right = (
        [row | {"id": first + at} for at, row in enumerate(many_rows(random, size))]
        for first in (0, 1000)
    )
    return left, right


def cut(random: Random, left: list[Row], right: list[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """Cut two streams into pushes of one side or both, often together, at times far apart."""
    rows = [left, right]
    most = random.choice([2, 8, 40])
    while rows[0] or rows[1]:
        sides = random.choice([(0,), (1,), (0, 1), (0, 1)])
        step: list[list[Row]] = [[], []]
        for side in sides:
            count = random.randint(0, most)
            step[side], rows[side] = rows[side][:count], rows[side][count:]
        yield step[0], step[1]


def given_sides(left: list[Row], right: list[Row]) -> dict[str, pa.Table]:
    sides = {}
    if left or len(right) % 3:
        sides["left"] = table(left)
    if right or len(left) % 3:
        sides["right"] = table(right)
    return sides


@dataclass
class Run:
    """One use of a join: what it has given so far, and what it should have."""

    case: Case
    random: Random

    def __post_init__(self) -> None:
        self.join, self.truth = self.case.make(), self.case.truth()
        self.given: Given = Counter()
        self.lost: Given = Counter()  # under way when somebody stopped reading
        self.is_known = False  # both schemas

    def take(self, result: pa.Table) -> None:
        """Take what a call has given."""
        self.is_known = self.is_known or self.join.schema is not None
        if self.join.schema is None:
            assert result.num_rows == 0
            return
        assert result.schema == self.join.schema
        self.given += read(self.case.how, result, self.case.options.get("indicator", False))

    def compare(self) -> None:
        """Check that what must have been given has, unless rows wait, and nothing else."""
        must, may = self.truth.expected()
        excess = self.given - may
        assert not excess, f"too early, too often or wrong: {excess}"
        if self.is_known and (not self.case.waits or self.is_flushed):
            missing = must - self.given - self.lost
            assert not missing, f"missing: {missing}"
        if self.join._state.engine is not None and not self.truth.closes:
            check(self.join)

    is_flushed = False

    def push(self, left: list[Row], right: list[Row]) -> None:
        self.is_flushed = False
        self.save()
        self.take(self.join.push(**given_sides(left, right)))
        self.truth.push(left, right)
        self.compare()
        if self.case.waits and self.random.random() < 0.2:
            self.take(self.join.flush())
            self.is_flushed = True
            self.compare()

    def advance(self) -> None:
        times = [row["t"] for rows in self.truth.rows.values() for row in rows if row["t"]]
        watermark = self.random.choice([*times, 0]) - self.random.randint(0, 4)
        self.save()
        self.take(self.join.advance(watermark))
        self.truth.advance(watermark)
        self.compare()

    def finish(self) -> None:
        self.save()
        self.take(self.join.finish())
        self.truth.finish()
        self.is_flushed = True
        self.compare()

    def save(self) -> None:
        saving = self.case.saving
        if saving == "always" or (saving == "sometimes" and self.random.random() < 0.3):
            self.join = sj.StreamJoin.restore(self.join.snapshot())
        elif saving == "pickle":
            self.join = pickle.loads(pickle.dumps(self.join))
        elif saving == "copy":
            self.join = copy.deepcopy(self.join)

    def go(self) -> None:
        """Use the join from its first row to its last."""
        left, right = draw_rows(self.random)
        steps = list(cut(self.random, left, right))
        if self.random.random() < 0.5:
            self.push([], [])
        advances = self.truth.is_timed and self.random.random() < 0.4
        first = len(steps) if self.case.driving == "push" else self.random.randint(0, len(steps))
        for step in steps[:first]:
            self.push(*step)
            if advances and self.random.random() < 0.3:
                self.advance()
        if self.case.driving != "push":
            self.stream(steps[first:])
        if self.join.schema is None:  # one side has never come
            self.push([], [])
        if not self.truth.is_counted or not self.join._state.is_over:
            self.finish()
        late_left, late_right = draw_rows(self.random)
        self.push([row | {"id": row["id"] + 5000} for row in late_left], [])
        self.push([], [row | {"id": row["id"] + 5000} for row in late_right])
        self.save()
        self.compare()
        self.count()

    def stream(self, steps: list[tuple[list[Row], list[Row]]]) -> None:
        """Let the join read a source: to its end, or not."""
        driving, read_so_far = self.case.driving, []

        def source() -> Iterator[tuple[pa.Table, pa.Table]]:
            for left, right in steps:
                read_so_far.append((left, right))
                yield table(left), table(right)

        stopped = self.random.randint(0, 5)
        reading: Any = self.join.stream(source(), finish=driving == "stream")
        with closing(reading) as stream:
            for number, part in enumerate(stream):
                self.take(part.rows)
                if driving == "stopped" and number == stopped:
                    break
        for step in read_so_far:
            self.truth.push(*step)
        if driving == "stopped":
            self.lost = self.truth.expected()[1] - self.given
            self.compare()
            for step in steps[len(read_so_far) :]:
                self.push(*step)
            return
        if driving == "stream" and (self.truth.closes or BY_NAME[self.case.how].alone):
            self.truth.finish()
            self.is_flushed = True
        self.compare()

    def count(self) -> None:
        stats = self.join.stats
        assert (stats.late_left, stats.late_right) == tuple(map(len, self.truth.late.values()))
        assert stats.late == stats.late_left + stats.late_right


def run_case(seed: Any, kind: str | None = None, how: str | None = None) -> None:
    """Draw a case and run it; ``seed`` repeats it."""
    random = Random(f"{seed} {kind} {how}")
    case = make_case(random, kind, how)
    try:
        Run(case, random).go()
    except Exception as error:
        error.add_note(f"run_case({seed!r}, {kind!r}, {how!r}): {case}")
        raise


if __name__ == "__main__":  # python -m tests.joins.outcomes.cases FIRST COUNT
    import sys
    import traceback

    failed, tell = 0, sys.stderr.write
    for number in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        try:
            run_case(number, *sys.argv[3:])
        except Exception as error:
            failed += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            notes = " ".join(getattr(error, "__notes__", []))
            tell(f"{error!r:.300} {notes} {last.name}\n")
            if failed > 8:
                break
    tell(f"{failed} failed\n")
