"""Tasks: the query, run, micro-batch and partitions a task of Spark belongs to.

`groupBy` sends a core to the partition that the hash of its label falls into, so labels are chosen
whose hashes fall into different partitions::

    label                   0   1   2   3
    hash_int(label) % 2     1   1   0   1      two cores in two partitions: labels 0 and 2

A query's number of partitions is known for certain in its tasks only: Spark takes it from the
checkpoint, whatever the session says now, and passes it to them among the settings.
"""

from dataclasses import dataclass
from hashlib import sha256

from pyspark import TaskContext

from streamjoin.spark.session import PARTITIONS

STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"

_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Moment:
    """Where a task stands: the query, its run, and the micro-batch."""

    query: str
    run: str
    batch: int

    @classmethod
    def current(cls) -> "Moment | None":
        """Return the moment of the task that runs in this process; None outside of streams."""
        context = TaskContext.get()
        if context is None:
            return None
        batch = context.getLocalProperty("streaming.sql.batchId")
        if batch is None:
            return None
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        run = context.getLocalProperty("spark.jobGroup.id") or ""
        return cls(query, run, int(batch))

    @property
    def owner(self) -> str:
        """A name for what this run of the query leaves in files and in memory."""
        return sha256(f"{self.query}/{self.run}".encode()).hexdigest()[:32]


def state_partitions() -> int | None:
    """Return the number of partitions of this task's query; None outside of streams."""
    context = TaskContext.get()
    if context is None:
        return None
    for name in (STATE_PARTITIONS, PARTITIONS):
        number = context.getLocalProperty(name)
        if number is not None and number.isdecimal():
            return int(number)
    return None


def choose_labels(cores: int, partitions: int) -> tuple[int, ...]:
    """Return a label per core, such that each falls into a partition of its own.

    The first label is always 0, so that after any restart a join finds the core with its manifest.

    >>> choose_labels(2, 2)
    (0, 2)
    """
    chosen: dict[int, int] = {}
    label = 0
    while len(chosen) < cores:
        chosen.setdefault(hash_int(label) % partitions, label)
        label += 1
    return tuple(chosen.values())


def hash_int(value: int) -> int:
    """Return Spark's hash of an int: Murmur3 with seed 42, as a signed number."""

    def rotate(bits: int, by: int) -> int:
        return (bits << by | bits >> (32 - by)) & _MASK

    mixed = rotate(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (rotate(42 ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state
