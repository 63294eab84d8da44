"""What holds for every test, the examples in docstrings and in the documentation too."""

import os
from typing import Any

import pytest

# A calibration of this machine would change what `explain` says.
os.environ["STREAMJOIN_CALIBRATION"] = os.devnull + "-none"

SPARK = ("tests/spark/", "against_spark", "sessions/test_cutting")  # files that share a session


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests of a file to one worker, and all that share a Spark session to one, too."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            is_spark = any(part in file for part in SPARK) and "cores/test_" not in file
            return "spark" if is_spark else file

    return Scheduling(config, log)
