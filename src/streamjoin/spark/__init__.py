"""The join on Apache Spark: streams with exactly-once state, and tables.

>>> from streamjoin import spark as sjs  # doctest: +SKIP
>>> joined = sjs.join(trades, quotes, on="abs(l.price - r.price) <= 0.05",
...                   window=TimeWindow("10 minutes"), time="ts")  # doctest: +SKIP
"""

from importlib import import_module

from streamjoin.errors import MissingPackageError

_PACKAGES = {"pyspark": "pyspark", "pandas": "pandas", "google.protobuf": "protobuf"}


def _check_packages() -> None:
    """Say what to install, before the first import of it fails without a word about that."""
    missing = {}
    for module, package in _PACKAGES.items():
        try:
            import_module(module)
        except ModuleNotFoundError:
            missing[module] = package
    if missing:
        raise MissingPackageError(
            f"streamjoin.spark needs {' and '.join(missing.values())}, which this Python does not "
            'have; install what it needs: pip install "streamjoin[spark]"',
            name=next(iter(missing)),
        )


_check_packages()

from streamjoin.spark.api import explain, join  # noqa: E402
from streamjoin.spark.metrics import MetricsListener, metrics_of  # noqa: E402
from streamjoin.spark.session import configure  # noqa: E402

__all__ = ["MetricsListener", "configure", "explain", "join", "metrics_of"]
