"""All kinds of joins inside windows that close, on Spark; `make test` runs three of them."""

import pytest
from spark.conftest import session as session
from spark.test_windows import JOINS, check_streams

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("first", [2, 5])
def test_streams(session, tmp_path, first):
    check_streams(session, tmp_path, JOINS[first : first + 3])
