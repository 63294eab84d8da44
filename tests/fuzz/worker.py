"""A process that runs cases and tells about them, a line of JSON each, on its standard output.

The parent (`supervising`) kills it if a case takes too long, and starts another behind the case
where one died; so a crash or a hang is a finding, not the end.
"""

import faulthandler
import json
import os
import resource
import sys
import traceback
import warnings
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from .cases import BLOCK, Block, draw_block, draw_case
from .truths import DuckDB, Oracle, Spark

MEMORY = 8 << 30  # bytes of address space
SHRUNK = 12  # findings of one kind that are made small; the others are only counted


def open_oracles(name: str, session: Any = None) -> list[Oracle]:
    """The oracles in the order in which they are asked; the first that can say decides."""
    return [DuckDB()] if name == "duckdb" else [Spark(session), DuckDB()]


def numbers_of(given: Namespace) -> Iterator[int]:
    """The cases of this worker: every so manyth block, from the case given on."""
    number = given.first
    while True:
        yield number
        number += 1
        if number % BLOCK == 0:
            number += BLOCK * (given.workers - 1)


def work(given: Namespace) -> None:
    """Run cases until killed."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints goes to the standard error

    def tell(**message: Any) -> None:
        told.write(json.dumps(message) + "\n")

    faulthandler.enable()
    warnings.simplefilter("ignore")
    oracles = open_oracles(given.oracle)
    if isinstance(oracles[0], Spark):
        oracles[0].session  # noqa: B018  # before the limit: Java's address space is larger
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    block: Block | None = None
    shrunk: dict[str, int] = {}
    for number in numbers_of(given):
        if block is None or block.number != number // BLOCK:
            tell(begins=number)
            block = draw_block(number // BLOCK, oracles)
            tell(block=block.number, judged=len(block.conjuncts), unjudged=block.unjudged,
                 disagreements=block.disagreements)  # fmt: skip
        tell(begins=number)
        try:
            tell(**run_one(number, block, shrunk))
        except Exception:
            tell(number=number, kind="broken", note=traceback.format_exc())


def run_one(number: int, block: Block, shrunk: dict[str, int]) -> dict[str, Any]:
    """Run a case, make it small if it fails, and return what is to be told."""
    from .programs import write_program
    from .running import run_case
    from .shrinking import shrink

    case = draw_case(number, block)
    if case is None:
        return {"number": number, "kind": "skipped"}
    outcome = run_case(case)
    message = {"number": number, "kind": outcome.kind, "note": outcome.note, "on": case.on}
    if outcome.is_bug:
        key = outcome.kind + outcome.note[:40]
        shrunk[key] = shrunk.get(key, 0) + 1
        if shrunk[key] <= SHRUNK:
            case, outcome = shrink(case, outcome)
        message |= {"on": case.on, "program": write_program(case, outcome)}
    return message


def main() -> None:
    number, workers, oracle = sys.argv[1:]
    work(Namespace(first=int(number), workers=int(workers), oracle=oracle))


if __name__ == "__main__":
    main()
