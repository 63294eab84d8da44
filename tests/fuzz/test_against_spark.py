"""DuckDB's texts mean what Spark's mean, wherever a conjunct has both."""

from typing import Any

import pytest

from .cases import draw_block
from .truths import SETTINGS, DuckDB, Spark, configure


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
