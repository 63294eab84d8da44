"""Makes a failing case smaller: fewer conjuncts, rows, pushes and options that still fail.

No oracle is asked: the truth of each conjunct over all rows is known already.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .cases import PLAIN, Case
from .nested_loop import Step
from .running import Outcome, run_case

RUNS = 1000  # at most


def shrink(case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
    """The smallest case found that fails in the same way."""
    is_smaller, runs = True, 0
    while is_smaller:
        is_smaller = False
        for change in CHANGES:
            for smaller in change(case):
                if (runs := runs + 1) > RUNS:
                    return case, outcome
                found = run_case(smaller)
                if found.kind == outcome.kind and found.note == outcome.note:
                    case, outcome, is_smaller = smaller, found, True
                    break
    return case, outcome


def drop_columns(case: Case) -> Iterator[Case]:
    if not case.is_lean:
        yield replace(case, is_lean=True)


def drop_parts(case: Case) -> Iterator[Case]:
    for place in range(len(case.parts)) if len(case.parts) > 1 else ():
        yield replace(case, parts=case.parts[:place] + case.parts[place + 1 :])


def as_tables(case: Case) -> Iterator[Case]:
    """The same rows at once, without a window or with it."""
    left = tuple(row for step in case.steps for row in step.left or ())
    right = tuple(row for step in case.steps for row in step.right or ())
    names = ["algorithm", "threads"]
    kept = {name: case.options[name] for name in names if name in case.options}
    plain = replace(case, steps=(Step(left, right),), call="tables", options=kept, delay=None,
                    finds=frozenset(), saves=frozenset(),
                    kind=replace(case.kind, keeps_late=False, patience=None))  # fmt: skip
    if case.window != ("none",) and not case.kind.reduces:
        yield replace(plain, window=("none",), ordered_by_column=False)
    if case.call != "tables":
        yield plain


def drop_options(case: Case) -> Iterator[Case]:
    for name in set(case.options) - {"threads"}:  # without it, the machine decides
        rest = {key: value for key, value in case.options.items() if key != name}
        yield replace(case, options=rest)
    if case.options.get("threads") != 1:
        yield replace(case, options={**case.options, "threads": 1})
    changes: list[dict[str, Any]] = [
        {"small": False}, {"finds": frozenset()}, {"saves": frozenset()}, {"delay": None},
        {"ordered_by_column": False},
    ]  # fmt: skip
    for change in changes:
        name, value = next(iter(change.items()))
        if getattr(case, name) != value:
            yield replace(case, **change)


def call_plainly(case: Case) -> Iterator[Case]:
    if case.call == "stream":
        yield replace(case, call="push")
    if case.call == "matches":
        yield replace(case, call="tables")


def simplify_kind(case: Case) -> Iterator[Case]:
    """Pairs, or rows of one side, instead of all; no columns beside these."""
    simpler: list[dict[str, Any]] = [
        {"indicator": False},
        {"keeps_late": False},
        {"patience": None},
    ]
    if case.kind.how in ("left", "right", "full"):
        sides = ["left", "right"] if case.kind.how == "full" else [case.kind.how]
        hows = [
            *["inner"] * (case.kind.patience is None),
            *(name for side in sides for name in (side, f"{side}_anti")),
        ]
        simpler += [{"how": how, "indicator": False} for how in hows]
    if case.kind.keep != "all":
        simpler += [{"how": "inner", "indicator": False}, {"k": 1}]
        simpler.append({"keep": "all", "k": 1, "distance": None, "is_written": False,
                        "has_time": False})  # fmt: skip
    some = case.kind.aggregates
    simpler += [{"aggregates": some[:place] + some[place + 1 :]} for place in range(len(some))]
    for change in simpler:
        kind = replace(case.kind, **change)
        kind = replace(kind, spelling=kind.how)
        if kind != case.kind:
            yield replace(case, kind=kind)


def merge_steps(case: Case) -> Iterator[Case]:
    """Fewer pushes; what is done before or in some of them goes with these."""
    steps = case.steps
    for place in range(len(steps) - 1):
        one, other = steps[place], steps[place + 1]
        both = [
            None
            if one_side is None and other_side is None
            else (one_side or ()) + (other_side or ())
            for one_side, other_side in ((one.left, other.left), (one.right, other.right))
        ]
        merged = Step(both[0], both[1], other.watermark if one.watermark is None else one.watermark)
        yield replace(
            case, steps=(*steps[:place], merged, *steps[place + 2 :]), **_moved(case, place)
        )
    for place, step in enumerate(steps):
        if not step.left and not step.right and step.watermark is None and len(steps) > 1:
            yield replace(case, steps=(*steps[:place], *steps[place + 1 :]), **_moved(case, place))
        if step.watermark is not None:
            without = Step(step.left, step.right)
            yield replace(case, steps=(*steps[:place], without, *steps[place + 1 :]))
    for name in ("saves", "finds"):
        for place in getattr(case, name):
            yield replace(case, **{name: getattr(case, name) - {place}})


def _moved(case: Case, gone: int) -> dict[str, Any]:
    """The places of saves and finds, once the step behind ``gone`` is no more."""
    return {
        name: frozenset(place - (place > gone) for place in getattr(case, name))
        for name in ("saves", "finds")
    }


def drop_rows(case: Case) -> Iterator[Case]:
    """Without some rows: halves first, then one by one."""
    sides = ("left",) if case.is_self else ("left", "right")
    for side in sides:
        rows = [row for step in case.steps for row in getattr(step, side) or ()]
        size = max(len(rows) // 2, 1)
        while rows and size:
            for first in range(0, len(rows), size):
                gone = set(rows[first : first + size])
                steps = (_without(step, side, gone, case.is_self) for step in case.steps)
                yield replace(case, steps=tuple(steps))
            size //= 2


def _without(step: Step, side: str, gone: set[int], both: bool) -> Step:
    kept: dict[str, Any] = {}
    for each in ("left", "right") if both else (side,):
        rows = getattr(step, each)
        kept[each] = None if rows is None else tuple(row for row in rows if row not in gone)
    return replace(step, **kept)


def plain_names(case: Case) -> Iterator[Case]:
    """Every column with its alias, as it is called."""
    plain = {}
    for side, some in case.block.tables.columns.items():
        for column in some:
            quoted = f"`{column.name.replace('`', '``')}`"
            plain[column.key] = f"{side}.{column.name if PLAIN.match(column.name) else quoted}"
    if plain != case.names:
        yield replace(case, names=plain)


CHANGES: list[Callable[[Case], Iterator[Case]]] = [
    drop_columns, as_tables, drop_parts, drop_rows, merge_steps, drop_options, call_plainly,
    simplify_kind, plain_names,
]  # fmt: skip
