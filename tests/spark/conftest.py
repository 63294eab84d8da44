"""Sessions for tests of joins on Spark."""

from collections.abc import Iterator
from typing import Any

import pytest

from streamjoin import spark as sjs


@pytest.fixture(scope="session")
def session(spark: Any) -> Iterator[Any]:
    """A session of its own settings, fit for streams: three partitions, UTC."""
    fresh = spark.newSession()
    fresh.conf.set("spark.sql.shuffle.partitions", "3")
    sjs.configure(fresh)
    yield fresh
    for query in fresh.streams.active:
        query.stop()


@pytest.fixture(scope="session")
def far_away(session: Any) -> Any:
    """The same in another time zone."""
    fresh = session.newSession()
    fresh.conf.set("spark.sql.shuffle.partitions", "3")
    fresh.conf.set("spark.sql.session.timeZone", "America/New_York")
    sjs.configure(fresh)
    return fresh
