"""Run a split join over steps, and hold its results to the oracles of `oracle`."""

import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import ONE_KEY, TWO_KEYS
from streamjoin.joins import build as engines
from streamjoin.joins.split.core import Core
from streamjoin.joins.split.executor import SplitExecutor
from streamjoin.plans.limits import limits_in_use, use_limits
from tests.joins.small_streams import check, table
from tests.oracle import Row, Steps

random = settings(max_examples=10, suppress_health_check=list(HealthCheck))
cores = st.integers(1, 5)
orders = st.sampled_from(["none", "outer", "inner", 1, 2, 3])
algorithms = st.sampled_from(["auto", *ONE_KEY, *TWO_KEYS])


def sequence(result: pa.Table) -> list[tuple[Any, Any]]:
    """The matches of a result, in its order; none while only one stream is known."""
    if "id_right" not in result.schema.names:
        return []
    return list(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True))


def push(
    join: sj.StreamJoin, step: tuple[list[Row], list[Row]], both: bool = False
) -> list[tuple[Any, Any]]:
    """Push the rows of one step, a side without rows left out unless ``both``."""
    sides = zip(("left", "right"), step, strict=True)
    found = sequence(join.push(**{side: table(rows) for side, rows in sides if rows or both}))
    check(join)
    return found


def run(
    join: sj.StreamJoin, steps: Steps, save_before: Container[int] = ()
) -> tuple[list[tuple[Any, Any]], sj.StreamJoin]:
    """Push steps, and save and restore before some of them."""
    found = []
    for number, step in enumerate(steps):
        if number in save_before:
            join = sj.StreamJoin.restore(join.snapshot())
            check(join)
        found += push(join, step, both=number % 3 == 0)
    return found, join


def as_source(steps: Steps) -> Iterator[Any]:
    """What `StreamJoin.stream` reads, in all its forms."""
    for number, (left, right) in enumerate(steps):
        sides = [table(rows) if rows or number % 3 == 0 else None for rows in (left, right)]
        if number % 2:
            yield {"left": sides[0], "right": sides[1]}
        else:
            yield sides[0], sides[1]


def held(join: sj.StreamJoin) -> list[dict[str, list[Any]]]:
    """The ids of the rows of each side that each core holds, core by core."""
    assert join._state.engine is not None
    return [
        {
            side: [each for held in chain for piece in held.rows.pieces for each in ids(piece)]
            for side, chain in part.items()
        }
        for part in join._state.engine.executor.chain_pairs
    ]


def ids(batch: pa.RecordBatch) -> Any:
    return batch.column(batch.schema.get_field_index("id")).to_pylist()


@contextmanager
def slow_cores(seed: int) -> Iterator[None]:
    """Let every core sleep for a moment, now and then, so that stars come in any order."""
    dice, work = Random(seed), Core.run_work

    def run_work(self: Core, given: Any) -> Iterator[Any]:
        time.sleep(dice.choice([0, 0, 0, 2e-4, 1e-3]))
        for part in work(self, given):
            time.sleep(dice.choice([0, 0, 0, 2e-4, 1e-3]))
            yield part

    with patch.object(Core, "run_work", run_work):
        yield


@contextmanager
def trees(fanout: int, depth: int, block: int | None = None) -> Iterator[None]:
    """Let joins have trees of this fanout, and parts of at most so many candidates."""
    made = partial(SplitExecutor, fanout=fanout, depth=depth)
    limits = limits_in_use()
    if block is not None:
        limits = replace(limits, ordered_candidates=block)
    with patch.object(engines, "SplitExecutor", made), use_limits(limits):
        yield


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for what other threads are about to do."""
    for _ in range(10_000):
        if is_so():
            return
        time.sleep(1e-3)
    raise AssertionError("nothing has happened for ten seconds")
