"""DuckDB's texts mean what Spark's mean, wherever a conjunct has both; so do its joins."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import expr

from .cases import BLOCK, Case, draw_block, draw_case
from .kinds import HOWS, Kind
from .outcomes import Rows
from .rows import ROWS
from .truths import HOLES, SETTINGS, DuckDB, Spark, configure


@pytest.fixture
def oracles(spark: Any) -> Any:
    configure(spark)
    yield [Spark(spark), DuckDB()]
    for name in SETTINGS:
        spark.conf.unset(name)


def test_the_oracles_agree(oracles: Any) -> None:
    judged = []
    for number in (2, 5, 9):
        block = draw_block(number, oracles)
        assert block.disagreements == []
        judged += block.conjuncts
    assert sum(each.by == "spark" for each in judged) > 50
    assert sum(each.by == "duckdb" for each in judged) > 2
    assert any(each.truth.any() for each in judged)


def join_in_spark(spark: Any, case: Case, how: str) -> Rows:
    """Let Spark join the tables of a case by its condition, written out."""
    frames = {}
    for side, rows in zip("lr", (case.steps[0].left, case.steps[0].right), strict=True):
        places = list(rows or ())
        arrays = {f"{side}_id": pa.array(places, pa.int64())}
        for column in case.block.tables.columns[side]:
            array = case.block.tables.tables[side][column.name].combine_chunks()
            array = Spark.convert(column, array)
            if array is not None:
                arrays[column.key] = array.take(pa.array(places, pa.int64()))
        frames[side] = spark.createDataFrame(pa.table(arrays))
    condition = " and ".join(str(part.conjunct.spark) for part in case.parts).format_map(HOLES)
    left, right = frames["l"], frames["r"]
    name = how.removeprefix("left_").removeprefix("right_")
    if how.startswith("right_"):
        left, right = right, left
    joined = left.join(right, expr(condition), name if name in ("semi", "anti") else how)
    ids = [each for each in ("l_id", "r_id") if each in joined.columns]
    return Counter(tuple(row) for row in joined.select(*ids).collect())


@pytest.mark.parametrize("how", HOWS)
def test_spark_joins_like_duckdb(how: str, oracles: Any, spark: Any) -> None:
    block, seen = draw_block(2, oracles), 0
    for number in range(2 * BLOCK, 3 * BLOCK):
        case = draw_case(number, block)
        if (
            case is None
            or case.window != ("none",)
            or any(part.by != "spark" or len(part.truth) < ROWS for part in case.parts)
        ):
            continue
        expected = replace(case, kind=Kind(how, how)).expect()
        assert join_in_spark(spark, case, how) == expected, case.on
        seen += 1
        if seen == 4:
            break
    assert seen == 4
