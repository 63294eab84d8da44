"""Two small tables with columns of every type, whose values are close to each other.

All numbers of a block are ``base + k * step`` for a few bases and steps, and the steps are the
constants of its conditions: so differences are often exactly as large as a band allows. Rows from
`TAME` on also hold the ends of their types, NaN and the like, over which Spark may raise an
overflow; a conjunct that raises there is judged over the tame rows alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

TAME, ROWS = 14, 22
NULLS = 0.12  # share of values
EXACT = Context(prec=80)

HUNDREDTHS = [0, 100, 200, 105, 10, 30, 1000, -100, 500, 25, 10_000, 350, -5]
BASES = [Decimal(each) / 100 for each in HUNDREDTHS]
LARGE = [Decimal(2**53), Decimal(-(2**53)), Decimal(2**31 - 1), Decimal(2**62), Decimal(10**17)]
STEPS = [Decimal(each) / 100 for each in (5, 10, 20, 30, 100, 500, 1000, 0, 50, 200, 25, 150, 1)]
MOMENTS = [
    0,
    -1,
    1_600_000_000_000_000,
    -86_400_000_000,
    951_782_400_000_000,
    -2_208_988_800_000_000,
]
SPANS = [0, 1, 1_000, 250_000, 1_000_000, 5_000_000, 90_000_000, 3_600_000_000, 86_400_000_000,
         93_784_000_000]  # fmt: skip
DAY = 86_400_000_000
LONG = "abcdefgh"
TEXTS = ["", "a", "A", "b", "ab", "aB", LONG, LONG + "a", LONG + "b", LONG + "\x00", LONG * 6,
         LONG * 6 + "z", "é", "e\u0301", "日本", "😀", "a%", "a_b", " a", "straße"]  # fmt: skip
DIGITS = ["0", "1", "2", "1.0", "5", " 1 ", "10", "-1", "0.05", "1e0"]
BYTES = [b"", b"\x00", b"a", b"\xff", b"\xff\x00", b"\x80", b"abcdefgh", b"abcdefgh\x00", b"ab"]
NAMES = ["a", "b", "c", "x", "y", "v", "d", "D", "A b", "select", "größe", "e.f", "x`y", "1st",
         "X2", "price", "Qty", "w"]  # fmt: skip
ZONE = "America/St_Johns"  # 3:30 behind, and half an hour off most
FACTORS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # nanoseconds


@dataclass(frozen=True)
class Column:
    """A column of one side; ``kind`` is the family of its type."""

    side: str
    number: int
    name: str
    type: pa.DataType
    kind: str

    @property
    def key(self) -> str:
        """What stands for the column in the template of a conjunct."""
        return f"{self.side}{self.number}"


@dataclass(frozen=True)
class Measures:
    """What the values of a block are made of, and the constants of its conditions."""

    bases: list[Decimal]
    steps: list[Decimal]
    moments: list[int]  # microseconds
    spans: list[int]

    @classmethod
    def draw(cls, dice: Random) -> "Measures":
        bases = dice.sample(BASES, 3)
        if dice.random() < 0.3:
            bases = [dice.choice(LARGE), dice.choice(BASES)]
        return cls(bases, dice.sample(STEPS, 3), dice.sample(MOMENTS, 2), dice.sample(SPANS, 3))


@dataclass(frozen=True)
class Tables:
    """The rows of a block. Each has an id, its place; with ``same``, both sides are one table."""

    columns: dict[str, list[Column]]
    tables: dict[str, pa.Table]
    same: bool
    clock: "Clock"
    times: dict[str, Column]


@dataclass(frozen=True)
class Clock:
    """The time columns: their types, and the nanoseconds from one time to the next."""

    kind: str
    types: tuple[pa.DataType, pa.DataType]
    tick: int
    start: int  # in ticks

    @classmethod
    def draw(cls, dice: Random) -> "Clock":
        kind = dice.choice(["integer", "timestamp", "timestamp", "date"])
        if kind == "integer":
            types = dice.choice([(pa.int64(), pa.int64()), (pa.int32(), pa.int64())])
            return cls(kind, types, 10**6, dice.choice([0, -7, 5, 10**6]))
        start = dice.choice([0, -7, 5, 18_000])
        if kind == "date":
            return cls(kind, (pa.date32(), pa.date32()), DAY * 1000, start)
        zone = dice.choice([None, "UTC", ZONE])
        units = [dice.choice(["us", "us", "ms", "ns", "s"]) for _ in "lr"]
        if dice.random() < 0.6:
            units[1] = units[0]
        types = tuple(pa.timestamp(unit, zone) for unit in units)
        tick = max(FACTORS["us"], *(FACTORS[unit] for unit in units)) * dice.choice([1, 1, 1000])
        return cls(kind, (types[0], types[1]), tick, start)

    def nanoseconds(self, array: pa.Array) -> list[int | None]:
        """Times as whole numbers that compare, whatever their unit; integers are milliseconds."""
        factor = 10**6
        if pa.types.is_timestamp(array.type):
            factor = FACTORS[array.type.unit]
        elif pa.types.is_date(array.type):
            factor, array = DAY * 1000, array.cast(pa.int32())
        whole = array.cast(pa.int64()).to_pylist()
        return [None if each is None else each * factor for each in whole]

    def draw_times(self, dice: Random, side: int) -> pa.Array:
        """Times that go on from row to row, some of them late, few NULL."""
        type, values = self.types[side], []
        ends = dice.choice([0, 3, 3, 12])
        nulls = dice.choice([0, 0.08])
        for place in range(ROWS):
            ticks = self.start + place // 2 - dice.choice([0, 0, 0, 1, dice.randint(0, ends)])
            factor = {"integer": 10**6, "date": DAY * 1000}.get(self.kind)
            exact = ticks * self.tick // (factor or FACTORS[type.unit])
            values.append(None if dice.random() < nulls else exact)
        return to_array(values, type)


def draw_tables(dice: Random, measures: Measures) -> Tables:
    """Draw two tables, or one that is joined with itself."""
    same = dice.random() < 0.15
    columns = {"l": draw_columns(dice, "l")}
    twins = dice.random() < 0.2
    if same:
        columns["r"] = [Column("r", *list(vars(each).values())[1:]) for each in columns["l"]]
    else:
        columns["r"] = draw_columns(dice, "r", columns["l"])
    if twins:
        columns = make_twins(dice, columns)
    clock, times = Clock.draw(dice), {}
    if same:
        clock = replace(clock, types=(clock.types[0], clock.types[0]))
    names = ("t", "t" if same else dice.choice(["t", "ts"]))
    for side, name, type in zip("lr", names, clock.types, strict=True):
        times[side] = Column(side, len(columns[side]), name, type, clock.kind)
    tables = {}
    for side in "l" if same else "lr":
        arrays = {"id": pa.array(range(ROWS), pa.int64())}
        for column in columns[side]:
            arrays[column.name] = draw_values(dice, column.type, column.kind, measures)
        arrays[times[side].name] = clock.draw_times(dice, "lr".index(side))
        arrays["o"] = pa.array([dice.randint(0, 4) for _ in range(ROWS)], pa.int64())
        if dice.random() < 0.5:
            arrays["payload"] = draw_payload(dice)
        tables[side] = pa.table(arrays)
    for side, time in times.items():
        columns[side].append(time)
    both = {"l": tables["l"], "r": tables["l" if same else "r"]}
    return Tables(columns, both, same, clock, times)


def draw_payload(dice: Random) -> pa.Array:
    """Draw a column that no condition speaks of, of a type that is laid out in several buffers."""
    texts = [None if dice.random() < NULLS else dice.choice(TEXTS) for _ in range(ROWS)]
    lists = [None if each is None else [each] * dice.randint(0, 3) for each in texts]
    pairs = [None if each is None else {"s": each, "n": len(each)} for each in texts]
    maps = [None if each is None else [(each, place)] for place, each in enumerate(texts)]
    values, type = dice.choice([
        (lists, pa.list_(pa.string())),
        (lists, pa.large_list(pa.dictionary(pa.int32(), pa.string()))),
        (pairs, pa.struct({"s": pa.string(), "n": pa.int16()})),
        ([None if each is None else [each] for each in pairs],
         pa.list_(pa.struct({"s": pa.large_string(), "n": pa.float32()}))),
        (maps, pa.map_(pa.string(), pa.int64())),
        ([None if each is None else each.encode()[:2].ljust(2) for each in texts], pa.binary(2)),
        ([None if each is None else np.float16(len(each)) for each in texts], pa.float16()),
        ([None if each is None else Decimal(len(each)) for each in texts],
         pa.decimal256(50, 3)),
    ])  # fmt: skip
    return pa.array(values, type)


def make_twins(dice: Random, columns: dict[str, list[Column]]) -> dict[str, list[Column]]:
    """Let both sides have columns ``d`` and ``D`` that compare."""
    kind = dice.choice(["integer", "decimal", "double", "timestamp"])
    types = {name: draw_type(dice, kind) for name in "dD"}
    twinned = {}
    for side, some in columns.items():
        rest = [each for each in some if each.name not in types]
        twins = [Column(side, 30 + place, name, type, kind)
                 for place, (name, type) in enumerate(types.items())]  # fmt: skip
        twinned[side] = rest + twins
    return twinned


def draw_columns(dice: Random, side: str, others: Sequence[Column] = ()) -> list[Column]:
    """Draw names and types; most of the other side's types come again, so that columns compare."""
    names = dice.sample(NAMES, dice.randint(8, 11))
    if dice.random() < 0.5:
        names = [*{*names, "d", "D"}]
        names.sort(key=NAMES.index)
    columns = []
    for number, name in enumerate(names):
        if others and dice.random() < 0.75:
            like = dice.choice(others)
            type, kind = like.type, like.kind
            if dice.random() < 0.4:
                type = draw_type(dice, kind)
        else:
            kind = dice.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
            type = draw_type(dice, kind)
        columns.append(Column(side, number, name, type, kind))
    return columns


def draw_decimal(dice: Random) -> pa.DataType:
    precision = dice.choice([3, 4, 5, 5, 6, 9, 10, 18, 18, 19, 20, 25, 38, 38])
    scale = dice.choice([0, 1, 2, 2, 2, min(precision, 4), min(precision, 6), precision // 2])
    return pa.decimal128(precision, min(scale, precision))


SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
KINDS: dict[str, tuple[int, Any]] = {  # weight, types
    "integer": (5, [*SIGNED * 2, *UNSIGNED]),
    "decimal": (4, draw_decimal),
    "double": (4, [pa.float64()]),
    "float": (2, [pa.float32()]),
    "boolean": (1, [pa.bool_()]),
    "text": (2, [pa.string(), pa.string(), pa.large_string(),
                 pa.dictionary(pa.int32(), pa.string()), pa.string_view()]),
    "digits": (1, [pa.string()]),
    "bytes": (1, [pa.binary(), pa.large_binary()]),
    "date": (2, [pa.date32(), pa.date32(), pa.date64()]),
    "timestamp": (4, [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ms"),
                      pa.timestamp("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC"),
                      pa.timestamp("us", ZONE), pa.timestamp("ns", ZONE)]),
    "duration": (1, [pa.duration("us"), pa.duration("ms"), pa.duration("ns")]),
    "time": (1, [pa.time64("us"), pa.time32("ms"), pa.time64("ns")]),
}  # fmt: skip


def draw_type(dice: Random, kind: str) -> pa.DataType:
    types = KINDS[kind][1]
    return types(dice) if callable(types) else dice.choice(types)


def draw_values(dice: Random, type: pa.DataType, kind: str, measures: Measures) -> pa.Array:
    """Draw a column: few different values, extremes among the last rows only."""
    tame, wild = domain_of(dice, type, kind, measures)
    tame = dice.sample(tame, min(len(tame), dice.randint(3, 9))) or [None]
    nulls = dice.choice([0, NULLS, NULLS])
    values = []
    for row in range(ROWS):
        among = wild if row >= TAME and wild and dice.random() < 0.6 else tame
        values.append(None if dice.random() < nulls else dice.choice(among))
    return to_array(values, type)


def to_array(values: list[Any], type: pa.DataType) -> pa.Array:
    """Make an array; temporal values are given as whole numbers of their unit."""
    if pa.types.is_temporal(type):
        if type == pa.date64():  # given in days
            return pa.array(values, pa.int32()).cast(pa.date32()).cast(type)
        wide = pa.int32() if type.bit_width == 32 else pa.int64()
        return pa.array(values, wide).cast(type)
    if type == pa.string_view():  # which Arrow does not take rows of; see `running.rows_of`
        type = pa.string()
    if pa.types.is_dictionary(type):
        return pa.array(values, pa.string()).dictionary_encode().cast(type)
    return pa.array(values, type)


def domain_of(
    dice: Random, type: pa.DataType, kind: str, measures: Measures
) -> tuple[list[Any], list[Any]]:
    """The values that a column may have: those close to each other, and extremes."""
    if kind in ("integer", "decimal", "double", "float"):
        return numbers_of(dice, type, kind, measures)
    if kind == "boolean":
        return [True, False], []
    if kind == "text":
        return TEXTS, []
    if kind == "digits":
        return DIGITS[: dice.choice([3, 10])], []
    if kind == "bytes":
        return BYTES, []
    spans = [*measures.spans, 1_000_000]
    if kind == "duration":
        span = [factor * each for each in spans for factor in (-1, 0, 1)]
        return in_units(dice, [0, *span], type.unit), []
    if kind == "time":
        return in_units(dice, [each % DAY for each in [0, *spans, DAY - 1]], type.unit), []
    moments = [moment + factor * span for moment in measures.moments for span in spans
               for factor in (-1, 0, 1)]  # fmt: skip
    if kind == "date":
        days = {moment // DAY for moment in moments}
        return sorted(days | {day + 1 for day in days}), [-719_162, 2_932_896, -141_428]
    ends = [-62_135_596_800_000_000, 253_402_300_799_999_999]  # the years 1 and 9999
    return in_units(dice, moments, type.unit), (
        [] if type.unit == "ns" else in_units(dice, ends, type.unit)
    )


def in_units(dice: Random, microseconds: list[int], unit: str) -> list[int]:
    """The same in a column's unit; one finer than Spark's gets values between its ticks."""
    if unit == "ns":
        return sorted({each * 1000 + dice.choice([0, 0, 0, -1, 1]) for each in microseconds})
    return sorted({each * 1000 // FACTORS[unit] for each in microseconds})


def numbers_of(
    dice: Random, type: pa.DataType, kind: str, measures: Measures
) -> tuple[list[Any], list[Any]]:
    tame: set[Any]
    wild: Collection[Any]
    close = {base + factor * step for base in measures.bases for step in measures.steps
             for factor in (-1, 0, 1, 2)}  # fmt: skip
    if kind == "integer":
        signed = pa.types.is_signed_integer(type)
        bits = type.bit_width
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        tame = {int(each) for each in close} | {1, 2, 3}
        tame |= {each + 1 for each in tame if abs(each) > 2**30}
        wild = {low, high, high - 1, low + 1, 2**53 + 1, 2**53, 2**53 - 1, 2**31, 2**63, 0}
        inside = [sorted(each for each in some if low <= each <= high) for some in (tame, wild)]
        return inside[0], inside[1]
    if kind == "decimal":
        unit = Decimal(1).scaleb(-type.scale)
        end = Decimal(10) ** (type.precision - type.scale)
        tame = {EXACT.quantize(each, unit) for each in close}
        last = EXACT.subtract(end, unit)
        wild = {
            last,
            EXACT.minus(last),
            unit,
            -unit,
            Decimal(2**53 + 1),
            EXACT.quantize(Decimal(0), unit),
        }
        inside = [sorted(each for each in some if EXACT.abs(each) < end) for some in (tame, wild)]
        return inside[0], inside[1]
    tame = {float(each) for each in close} | {0.1 + 0.2, 0.15 + 0.15}
    tame |= {up for each in list(tame)[:4] for up in (each * (1 + 2**-52),)}
    if dice.random() < 0.4:
        tame |= {-0.0, float("nan")}
    wild = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1e308, -1e308, 2.0**53,
            2.0**53 + 2, 2.0**63, 1e-300, 3.4e38]  # fmt: skip
    return sorted(tame, key=repr), list(wild)
