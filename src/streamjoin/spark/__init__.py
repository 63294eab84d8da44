"""The join on Apache Spark: streams with exactly-once state, and tables.

>>> from streamjoin import spark as sjs  # doctest: +SKIP
>>> joined = sjs.join(trades, quotes, on="abs(l.price - r.price) <= 0.05",
...                   window=TimeWindow("10 minutes"), time="ts")  # doctest: +SKIP
"""

from streamjoin.spark.api import explain, join
from streamjoin.spark.metrics import MetricsListener, metrics_of
from streamjoin.spark.session import configure

__all__ = ["MetricsListener", "configure", "explain", "join", "metrics_of"]
