"""What a number means: a block of rows and judged conjuncts, and a case over them.

Everything is drawn from `random.Random` of the number and nothing else. Only which conjuncts are
left depends on the oracle, so a case is told by its number and the oracle.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from .conjuncts import (
    Conjunct,
    Term,
    combine,
    draw_conjunct,
    draw_distance,
    draw_filter,
    family,
)
from .kinds import PAIRS, Kind, draw_aggregation, draw_keep, draw_kind
from .nested_loop import Arrived, Step, Window, arrivals, arrive, find_pairs
from .outcomes import Rows, compute_aggregates, keep_best, register_all, settle
from .rows import Column, Measures, Tables, draw_tables
from .truths import HOLES, Oracle, Truth, judge

BLOCK = 100  # cases
PLAIN = re.compile(r"(?!select$)[A-Za-z][A-Za-z0-9]*$")
STRUCTURES = ["bi_sort", "rap_table", "wib_tree", "b_tree", "b_chain", "ib_chain", "im_tree",
              "pim_tree", "spo_join", "scan"]  # fmt: skip
LAZY = ["npj", "prj", "mway", "mpass"]
EAGER = ["shj_jm", "shj_jb", "pmj_jm", "pmj_jb"]


@dataclass(frozen=True)
class Judged:
    """A conjunct and its truth, over the tame rows only if it raises over others."""

    conjunct: Conjunct
    truth: Truth
    by: str  # the oracle


@dataclass(frozen=True)
class Block:
    """Rows, and conjuncts over them."""

    number: int
    tables: Tables
    conjuncts: list[Judged]
    unjudged: int = 0
    disagreements: list[str] = field(default_factory=list)

    @cached_property
    def times(self) -> tuple[list[int | None], list[int | None]]:
        """The time columns in nanoseconds."""
        clock, found = self.tables.clock, []
        for side in "lr":
            array = self.tables.tables[side][self.tables.times[side].name]
            found.append(clock.nanoseconds(array.combine_chunks()))
        return found[0], found[1]

    @cached_property
    def order(self) -> tuple[list[int], list[int]]:
        left, right = (self.tables.tables[side]["o"].to_pylist() for side in "lr")
        return left, right


def draw_block(number: int, oracles: Sequence[Oracle]) -> Block:
    """Draw rows and conjuncts, and ask the oracles: each conjunct the first that can say."""
    dice = Random(f"block {number}")
    measures = Measures.draw(dice)
    tables = draw_tables(dice, measures)
    conjuncts = draw_conjuncts(dice, tables, measures)
    judged: list[Judged | None] = [None] * len(conjuncts)
    disagreements = []
    for oracle in oracles:
        for place, truth in enumerate(judge(oracle, tables, conjuncts)):
            if truth is None:
                continue
            before, conjunct = judged[place], conjuncts[place]
            if before is None:
                judged[place] = Judged(conjunct, truth, oracle.name)
                continue
            rows = min(len(truth), len(before.truth))
            if (truth[:rows, :rows] != before.truth[:rows, :rows]).any():
                disagreements.append(f"{conjunct.spark} | {conjunct.duck}")
            elif len(truth) > rows:  # over extremes too, and right where both could say
                judged[place] = Judged(conjunct, truth, oracle.name)
    known = [each for each in judged if each is not None]
    return Block(number, tables, known, len(judged) - len(known), disagreements)


def draw_conjuncts(dice: Random, tables: Tables, measures: Measures) -> list[Conjunct]:
    pairs = [(left, right) for left in tables.columns["l"] for right in tables.columns["r"]
             if compares(left, right)]  # fmt: skip
    chosen = dice.sample(pairs, min(len(pairs), 4))
    chosen.append((tables.times["l"], tables.times["r"]))
    twins = [pair for pair in pairs if pair[0].name == pair[1].name and pair[0].name in "dD"]
    drawn = []
    for left, right in chosen + twins:
        drawn += [draw_conjunct(dice, left, right, measures) for _ in range(7)]
    for side in "lr":
        drawn += [draw_filter(dice, dice.choice(tables.columns[side]), measures) for _ in "12"]
    for _ in range(3):
        one, other = dice.choice(drawn), dice.choice(drawn)
        form = dice.choice(["({} or {})", "(not ({} and {}))", "(case when {} then {} end)"])
        drawn.append(replace(combine(form, one, other), columns=one.columns + other.columns))
    return drawn


def compares(left: Column, right: Column) -> bool:
    """Whether Spark compares the two columns without casting what may not be cast."""
    kinds = {left.kind, right.kind}
    if kinds <= {"timestamp", "date"} or family(left.kind) == family(right.kind):
        return True
    return "digits" in kinds and bool(kinds & {"integer", "decimal", "double"})


@dataclass(frozen=True)
class Case:
    """A join: what is asked of streamjoin, and in what steps."""

    number: int
    block: Block
    parts: tuple[Judged, ...]
    names: dict[str, str]  # how a column is written
    window: Window
    steps: tuple[Step, ...]
    call: str  # tables, matches, push or stream
    options: dict[str, Any]
    delay: int | None = None
    kind: Kind = PAIRS
    ordered_by_column: bool = False
    small: bool = False  # subwindows of a few rows
    finds: frozenset[int] = frozenset()  # steps that ask by `find`
    saves: frozenset[int] = frozenset()  # steps before which the join is saved and restored
    changes_threads: bool = False  # from push to push
    is_lean: bool = False  # only the columns that the join needs

    @property
    def on(self) -> str:
        """The condition as SQL text."""
        texts = [part.conjunct.text.format_map(self.names) for part in self.parts]
        return " and ".join(texts)

    @property
    def needed(self) -> dict[str, list[str]]:
        """The columns that the condition and the window speak of, by side."""
        keys = {key for part in self.parts for key in part.conjunct.columns}
        for term in (self.kind.distance, *(each.term for each in self.kind.aggregates)):
            keys |= {*re.findall(r"\{([lr]\d+)\}", "" if term is None else term.read)}
        needed = {}
        for side, some in self.block.tables.columns.items():
            used = [each.name for each in some if each.key in keys]
            timed = [self.block.tables.times[side].name] * self.has_time
            needed[side] = list(
                dict.fromkeys(["id", *used, *timed, *["o"] * self.ordered_by_column])
            )
        if self.is_self:
            needed["l"] = needed["r"] = list(dict.fromkeys(needed["l"] + needed["r"]))
        return needed

    @property
    def has_time(self) -> bool:
        """Whether time columns are given."""
        return self.window[0] not in ("none", "count") or self.kind.has_time

    def names_of(self, side: str) -> list[str]:
        """The columns that the join gets, in order: the last thing that decides which are kept."""
        names = self.block.tables.tables[side].column_names
        if self.kind.reduces:
            dice, payload = Random(f"columns {self.number}"), names[names.index("o") + 1 :]
            names = [name for name in names if name not in payload]
            dice.shuffle(names)
            if dice.random() < 0.7:
                names = [name for name in names if name != "id"] + ["id"]
            names += payload
        return [name for name in names if not self.is_lean or name in self.needed[side]]

    @property
    def is_self(self) -> bool:
        return self.block.tables.same

    @cached_property
    def arrived(self) -> Arrived:
        """Which rows are on time."""
        return arrive(self.window, self.steps, self.block.times, self.delay)

    def rank(self) -> list[str]:
        """What the pairs of a left row are ordered by, as SQL over the columns of the block."""
        kind, right = self.kind, self.block.tables.columns["r"]
        direction = "desc" if kind.keep == "last" else "asc"
        by = []
        if kind.keep == "nearest":
            distance = "abs(l_time - r_time)" if kind.distance is None else kind.distance.duck
            by.append(f"{distance} asc nulls last")
        if self.has_time:
            by.append(f"r_time {direction} nulls last")
        elif kind.keep != "nearest" and self.window[0] == "count":
            order = self.block.order if self.ordered_by_column else None
            rows = [row for side, row in arrivals(self.steps, order) if side == 1]
            by.append(f"list_position({rows}, r_id) {direction} nulls last")
        keys = {each.name: each.key for each in right} | {"id": "r_id", "o": "r_o"}
        names = self.names_of("r")
        by += [f"{keys[name]} asc nulls first" for name in names[: names.index("id") + 1]]
        return [each.format_map(HOLES) for each in by]

    @property
    def is_open(self) -> bool:
        """Whether both sides are given, be it no rows: until then, rows wait for the other's."""
        return all(any(getattr(step, side) is not None for step in self.steps)
                   for side in ("left", "right"))  # fmt: skip

    @property
    def late_counts(self) -> tuple[int, int]:
        """How many rows of each side come too late."""
        left, right = self.arrived.late
        return len(left), len(right)

    def expect(self) -> Rows:
        """The rows that the oracles' answers and the nested loop give."""
        rows = min(len(part.truth) for part in self.parts)
        holds = np.ones((rows, rows), bool)
        is_equal = np.ones((rows, rows), bool)
        for part in self.parts:
            holds &= part.truth[:rows, :rows]
            if part.conjunct.is_equality:
                is_equal &= part.truth[:rows, :rows]
        order = self.block.order if self.ordered_by_column else None
        pairs = find_pairs(self.window, self.steps, self.arrived, order, holds.tolist(),
                           is_equal.tolist())  # fmt: skip
        if self.kind.keep != "all":
            register_all(pairs, self.block.tables, self.block.times)
            pairs = keep_best(self.kind.k, self.rank())
        of_left = None
        if self.kind.aggregates:
            register_all(pairs, self.block.tables, self.block.times)
            of_left = compute_aggregates(self.kind, self.rank())
        return settle(self.kind, self.arrived, pairs, of_left)


def draw_case(number: int, block: Block) -> Case | None:
    """Draw a case; None if the oracles left nothing to draw from."""
    dice = Random(f"case {number}")
    parts = draw_parts(dice, block)
    if not parts:
        return None
    rows = min(len(part.truth) for part in parts)
    window = draw_window(dice, block)
    call = draw_call(dice, window)
    is_self, has_equality = block.tables.same, any(part.conjunct.is_equality for part in parts)
    steps = draw_steps(dice, block, rows, window, call, is_self)
    options = draw_options(dice, window, call, has_equality, len(parts))
    streams = call in ("push", "stream")
    timed = window[0] not in ("none", "count")
    delay = dice.choice([None, *range(5)]) if streams and timed else None
    case = Case(
        number, block, parts, spell_names(dice, block.tables), window, steps, call, options,
        None if delay is None else delay * block.tables.clock.tick,
        ordered_by_column=window[0] == "count" and dice.random() < 0.3,
        small=dice.random() < 0.5,
    )  # fmt: skip
    case = choose_kind(case, streams)
    if call != "push":
        return case
    leaves = dice.random() < 0.2 and options.get("ordered") is None and case.kind.is_plain
    finds = range(len(steps)) if leaves else ()
    saves = range(1, len(steps) + 1) if dice.random() < 0.4 else ()
    return replace(
        case,
        finds=frozenset(each for each in finds if dice.random() < 0.5),
        saves=frozenset(each for each in saves if dice.random() < 0.3),
        changes_threads=dice.random() < 0.1,
    )


def choose_kind(case: Case, streams: bool) -> Case:
    """Draw what the join gives, and leave out what does not go with it."""
    dice = Random(f"kind {case.number}")
    kind = draw_kind(dice, case.window, streams, case.block.tables.clock.tick)
    more = dice.random()
    if more < 0.4:
        kind = draw_keep(dice, kind, case.window, *draw_distances(dice, case))
    elif more < 0.6:
        kind = draw_aggregation(dice, kind, case.window, case.block.tables.columns)
    if kind.is_plain:
        return case
    options, steps = dict(case.options), list(case.steps)
    if kind.reduces:
        options.pop("emit", None)
        if dice.random() < 0.9:
            options.pop("cores", None)
        if options["algorithm"] in EAGER:
            options["algorithm"] = "auto"
            options.pop("tuning", None)
    if options.get("ordered") and dice.random() < 0.95:
        del options["ordered"]
    # What a side's columns are is known once it is given; a join cannot end before.
    if dice.random() < 0.1:
        return replace(case, kind=kind, options=options)
    if steps and all(step.left is None for step in steps):
        place = dice.randrange(len(steps))
        steps[place] = replace(steps[place], left=())
    if steps and all(step.right is None for step in steps):
        place = dice.randrange(len(steps))
        steps[place] = replace(steps[place], right=())
    return replace(case, kind=kind, options=options, steps=tuple(steps))


def draw_distances(dice: Random, case: Case) -> tuple[list[Term], list[Term | None]]:
    """Distances to write, and the one that the condition suggests, if that can be told."""
    columns = case.block.tables.columns
    drawn = [
        draw_distance(dice, dice.choice(columns["l"]), dice.choice(columns["r"])) for _ in range(8)
    ]
    written = [each for each in drawn if each is not None]
    parts = [part.conjunct for part in case.parts]
    ranges = [part for part in parts if not part.is_simple]
    pairs = Counter(part.columns for part in parts)
    if len(ranges) > 1 or max(pairs.values()) > 1:  # twins make other parts of each other
        return written, []
    if not ranges:
        return written, [None]
    distance = ranges[0].distance
    return written, [] if distance is None else [distance]


def draw_parts(dice: Random, block: Block) -> tuple[Judged, ...]:
    """One to four conjuncts; those over one pair of columns like to meet, and so do twins."""
    if not block.conjuncts:
        return ()
    parts = [dice.choice(block.conjuncts)]
    for _ in range(dice.choice([0, 1, 1, 1, 2, 3])):
        columns = parts[0].conjunct.columns
        same = [each for each in block.conjuncts if each.conjunct.columns == columns]
        parts.append(dice.choice(same if dice.random() < 0.65 else block.conjuncts))
    return tuple({id(part): part for part in parts}.values())


def draw_window(dice: Random, block: Block) -> Window:
    tick = block.tables.clock.tick

    def length(least: int, most: int) -> int:
        half = tick // 2 if dice.random() < 0.15 and tick % 2000 == 0 else 0
        return max(dice.randint(least, most) * tick + half, least * 1000)

    kind = dice.choices(["none", "time", "count", "tumbling", "session"], [5, 6, 4, 4, 4])[0]
    if kind == "time":
        before, after = dice.choice([(3, 3), (0, 4), (4, 0), (1, 2), (8, 8)])
        if dice.random() < 0.3:
            return "time", length(1, 6), length(0, 6)
        return "time", before * tick, after * tick
    if kind == "count":
        return "count", dice.choice([1, 2, 3, 5, 9, 30]), dice.choice([1, 2, 3, 5, 9, 30])
    if kind == "tumbling":
        size = length(1, 7)
        return "tumbling", size, dice.choice([0, 0, dice.randrange(size) // 1000 * 1000])
    if kind == "session":
        return "session", length(1, 3)
    return ("none",)


def draw_call(dice: Random, window: Window) -> str:
    if window[0] == "none":
        return dice.choice(["tables", "tables", "matches"])
    return dice.choice(["push"] * 8 + ["stream", "stream", "tables", "matches"])


def draw_steps(
    dice: Random, block: Block, rows: int, window: Window, call: str, is_self: bool
) -> tuple[Step, ...]:
    """Some of the rows, cut into pushes; the order of rows is roughly that of their times."""
    sides = []
    for _ in "lr":
        size = dice.choice([rows, rows, rows // 2, 6, 3, 1, 0])
        places = sorted(dice.sample(range(rows), min(size, rows)))
        if dice.random() < 0.15:
            dice.shuffle(places)
        sides.append(places)
    if is_self:
        sides[1] = sides[0]
    if call in ("tables", "matches"):
        return (Step(tuple(sides[0]), tuple(sides[1])),)
    advances = (
        window[0] in ("time", "tumbling", "session") and call == "push" and dice.random() < 0.4
    )
    clock, steps = block.tables.clock, []
    rest = [list(each) for each in sides]
    while rest[0] or rest[1]:
        given: list[tuple[int, ...] | None] = []
        which = dice.choice(["both", "both", "left", "right"])
        for place, side in enumerate(("left", "right")):
            size = dice.choice([0, 1, 1, 2, 3, 5, 9, 30]) if which in ("both", side) else 0
            some = tuple(rest[place][:size])
            rest[place] = rest[place][size:]
            given.append(some if some or dice.random() < 0.4 else None)
        if is_self:
            size = dice.choice([0, 1, 2, 3, 5, 9, 30])
            some = tuple(sides[0][:size])
            rest[0] = rest[1] = sides[0] = sides[0][size:]
            given = [some, some]
        watermark = None
        if advances and dice.random() < 0.4:
            seen = max((len(sides[0]) - len(rest[0])), (len(sides[1]) - len(rest[1])))
            watermark = (clock.start + seen // 2 - dice.randint(0, 6)) * clock.tick
        steps.append(Step(given[0], given[1], watermark))
        if len(steps) > 12:
            if is_self:
                rest[1] = rest[0]
            steps.append(Step(tuple(rest[0]), tuple(rest[1])))
            break
    return tuple(steps)


def draw_options(
    dice: Random, window: Window, call: str, has_equality: bool, parts: int
) -> dict[str, Any]:
    """Options that go together, as far as the window and the number of conjuncts can tell."""
    closes, streams = window[0] in ("tumbling", "session"), call in ("push", "stream")
    algorithms = ["auto"] * 3 + STRUCTURES
    if has_equality and (closes or window[0] == "none" or not streams) and window[0] != "count":
        algorithms += LAZY * (1 if closes or window[0] == "none" else 0)
    if has_equality and window[0] == "tumbling" and streams:
        algorithms += EAGER
    algorithm = dice.choice(algorithms)
    if algorithm == "spo_join" and parts + (window[0] == "time") < 2:
        algorithm = "auto"
    options: dict[str, Any] = {"algorithm": algorithm, "threads": dice.choice([1, 1, 2])}
    if algorithm in ("prj", "mway", "mpass", "shj_jb", "pmj_jm", "pmj_jb") and dice.random() < 0.5:
        knob, most = {"prj": ("bits", 6), "mway": ("run_rows", 9), "mpass": ("run_rows", 9),
                      "shj_jb": ("group", 4)}.get(algorithm, ("delta", 9))  # fmt: skip
        options["tuning"] = {knob: dice.randint(1, most)}
    if not streams:
        return options
    if closes:
        options["emit"] = dice.choice([None, "close", "eager", "auto"])
        if algorithm in LAZY and options["emit"] == "eager":
            options["emit"] = None
        if algorithm in EAGER and options["emit"] == "close":
            options["emit"] = "eager"
        options["optimize"] = dice.choice(["throughput", "latency", "progressiveness"])
    else:
        options["cores"] = dice.choice([None, None, None, 2, 3])
        ordered = dice.choice([None] * 6 + ["outer", "outer", "inner", "inner", dice.randint(1, 9)])
        if ordered:
            options["ordered"] = ordered
    if dice.random() < 0.15:
        options["batch_rows"] = dice.choice([1, 2, 5, 20])
        options["batch_time"] = dice.choice([None, "1 microsecond", "1 hour"])
    return {name: value for name, value in options.items() if value is not None}


def spell_names(dice: Random, tables: Tables) -> dict[str, str]:
    """How each column is written: with its alias or without, quoted or not, in what case."""
    spelled = {}
    lower = {side: [each.name.lower() for each in some] for side, some in tables.columns.items()}
    for side, other in (("l", "r"), ("r", "l")):
        for column in tables.columns[side]:
            name = column.name
            text = name if PLAIN.match(name) else f"`{name.replace('`', '``')}`"
            if text == name and lower[side].count(name.lower()) == 1 and dice.random() < 0.1:
                text = name.swapcase()
            if text == name and dice.random() < 0.1:
                text = f"`{name}`"
            alone = name.lower() not in (*lower[other], "id", "o", "l", "r")
            if not (alone and PLAIN.match(name) and dice.random() < 0.1):
                text = f"{dice.choice([side] * 9 + [side.upper()])}.{text}"
            spelled[column.key] = text
    return spelled
