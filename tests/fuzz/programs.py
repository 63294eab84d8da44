"""Writes a case as a program that needs nothing but streamjoin and pyarrow."""

from typing import Any

import pyarrow as pa

from .cases import Case
from .running import NAMES, SMALL_INDEXES, SMALL_LIMITS, Outcome, arguments, watermark_of


def write_program(case: Case, outcome: Outcome) -> str:
    """A program that shows what the case found."""
    lines = [
        f"# case {case.number}: {outcome.kind} {outcome.note}".rstrip(),
        f"# judged by {', '.join(sorted({part.by for part in case.parts}))}",
        "import datetime", "from datetime import timedelta", "from decimal import Decimal", "",
        "import pyarrow as pa", "", "import streamjoin as sj", "from streamjoin import *", "",
        'nan, inf = float("nan"), float("inf")', "", "",
        "def take(table, places):",
        "    pieces = [table.slice(place, 1) for place in places] or [table.slice(0, 0)]",
        "    return pa.concat_tables(pieces)", "", "",
    ]  # fmt: skip
    if case.small:
        lines += ["import importlib", "from streamjoin.plans.limits import Limits, use_limits"]
        lines += [f"small = use_limits(Limits(**{SMALL_LIMITS}))", "small.__enter__()"]
        lines += [
            f'importlib.import_module("{module.__name__}").{name} = {value}'
            for module, name, value in SMALL_INDEXES
        ]
    for side, name in (("l", "left"), ("r", "right")):
        if side == "r" and case.is_self:
            lines.append("right = left")
        else:
            lines += write_table(case, side, name)
    given = ", ".join(
        f"{name}={value!r}" for name, value in arguments(case).items() if name != "on"
    )
    lines += [f"on = {case.on!r}"]
    if case.call in ("tables", "matches"):
        one, other = write_sides(case, 0)
        if case.is_self:
            lines.append(f"rows = {one}")
            one = other = "rows"
        function = "join_tables" if case.call == "tables" else "find_matches"
        ending = "" if case.call == "tables" else ".to_table()"
        lines.append(f"found = [sj.{function}({one}, {other}, on=on, {given}){ending}]")
    else:
        lines += [f"join = sj.StreamJoin(on=on, {given})", *write_steps(case)]
    lines += [
        f"names = {NAMES}",
        "rows = [row for table in found",
        "        for row in zip(*(table[name].to_pylist() for name in names",
        "                         if name in table.column_names))]",
        "print('found   ', sorted(rows, key=repr))",
    ]
    if outcome.expected is not None:
        lines.append(f"print('expected', {sorted(outcome.expected.elements(), key=repr)})")
    return "\n".join(lines) + "\n"


def write_steps(case: Case) -> list[str]:
    lines = ["found = []"]
    if case.call == "stream":
        lines.append("source = []")
    for place, step in enumerate(case.steps):
        if place in case.saves:
            lines.append("join = sj.StreamJoin.restore(join.snapshot())")
        one, other = write_sides(case, place)
        if case.is_self:
            lines.append(f"rows = {one}")
            one = other = "rows"
        pushed = f"{one}, {other}"
        if case.call == "stream":
            lines.append(f"source.append(({pushed}))")
        elif place in case.finds:
            lines.append(f"found.append(join.find({pushed}).to_table())")
        else:
            lines.append(f"found.append(join.push({pushed}))")
        if step.watermark is not None:
            lines.append(f"found.append(join.advance({watermark_of(case, step.watermark)!r}))")
    if case.call == "stream":
        lines.append("found += [part.rows for part in join.stream(source)]")
        if case.number % 2:
            return lines
    if len(case.steps) in case.saves:
        lines.append("join = sj.StreamJoin.restore(join.snapshot())")
    return [*lines, "found.append(join.finish())"]


def rows_used(case: Case, side: str) -> list[int]:
    """The rows of a side that the case has, in order; a program holds only these."""
    used = set[int]()
    for step in case.steps:
        used.update((step.left if side == "l" or case.is_self else step.right) or ())
    return sorted(used)


def write_sides(case: Case, place: int) -> tuple[str, str]:
    """The rows of a push, by their places in the program's tables."""
    step, texts = case.steps[place], []
    for side, name, rows in (("l", "left", step.left), ("r", "right", step.right)):
        used = rows_used(case, side)
        chosen = None if rows is None else [used.index(row) for row in rows]
        texts.append("None" if chosen is None else f"take({name}, {chosen})")
    return texts[0], texts[1]


def write_table(case: Case, side: str, name: str) -> list[str]:
    """The table of a side, with the rows that the case has only."""
    table = case.block.tables.tables[side]
    names = [each for each in case.names_of(side) if each != "payload"]  # which nothing is asked of
    types = {each.name: each.type for each in case.block.tables.columns[side]}
    used = rows_used(case, side)
    lines = [f"{name} = pa.table({{"]
    for column in names:
        type = types.get(column, pa.int64())
        array = table[column].combine_chunks()
        if pa.types.is_temporal(type):
            array = array.cast(pa.int32() if type.bit_width == 32 else pa.int64())
        values = array.to_pylist()
        text = f"pa.array({[values[row] for row in used]!r}, {type_code(array.type)})"
        if array.type != type:
            text += f".cast({type_code(type)})"
        lines.append(f"    {column!r}: {text},")
    return [*lines, "})"]


def type_code(type: pa.DataType) -> str:
    """The type as Python code."""
    plain: dict[Any, str] = {pa.float64(): "pa.float64()", pa.float32(): "pa.float32()",
                             pa.bool_(): "pa.bool_()"}  # fmt: skip
    if type in plain:
        return plain[type]
    if pa.types.is_decimal(type):
        return f"pa.decimal128({type.precision}, {type.scale})"
    if pa.types.is_dictionary(type):
        return "pa.dictionary(pa.int32(), pa.string())"
    if pa.types.is_date(type):
        return f"pa.date{type.bit_width}()"
    if pa.types.is_timestamp(type):
        return f"pa.timestamp({type.unit!r}, {type.tz!r})"
    if pa.types.is_temporal(type):
        return f"pa.{str(type).split('[')[0]}({type.unit!r})"
    return f"pa.{type}()"
