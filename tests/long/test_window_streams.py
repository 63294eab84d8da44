"""All kinds of joins inside windows, on Spark; `make test` runs some of them."""

import pytest

from tests.spark.conftest import session as session
from tests.spark.streams import test_streams as sliding
from tests.spark.streams import test_windows as closing

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("first", [2, 5])
def test_windows_that_close(session, tmp_path, first):
    closing.check_streams(session, tmp_path, closing.JOINS[first : first + 3])


def test_time_windows(session, tmp_path):
    sliding.check_time_windows(session, tmp_path, [sliding.JOINS[0], sliding.JOINS[2]])
