"""The checkpoint of a stream, from which the driver reads the routing table before a restart.

Packing tasks learn the table from files on their hosts (`hints`), and a query that starts again
finds none. Its first batch is often its largest, and would go to all cores. All cores keep the same
table, so the driver reads the manifest of one of them, and the tasks get the table with the join.
It serves the batch after the last one that was committed, in the query of that checkpoint, and no
other: whatever happens in between, rows are never routed by a table that is not the state's.
"""

import json
import warnings

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamjoin.errors import SnapshotError, StreamJoinWarning
from streamjoin.spark.planning.spec import JoinSpec
from streamjoin.spark.routing.hints import SavedTable
from streamjoin.spark.state.join_facts import find_changes
from streamjoin.spark.state.segments import Manifest
from streamjoin.spark.state.store import MANIFEST

NOT_FOUND = "PATH_NOT_FOUND"  # Spark's name for it


def read_saved_table(spark: SparkSession, path: str, spec: JoinSpec) -> SavedTable | None:
    """Return the routing table that a checkpoint has for a join; None if there is none yet.

    If the checkpoint cannot be read, only the table is lost: should anything be wrong with it,
    Spark says so when the stream starts.
    """
    try:
        return _read_table(spark, path, spec)
    except (PySparkException, SnapshotError, KeyError, ValueError) as error:
        if isinstance(error, PySparkException) and error.getCondition() == NOT_FOUND:
            return None  # the stream starts for the first time
        warnings.warn(
            f"checkpoint={path!r} cannot be read ({str(error).splitlines()[0]}), so the first "
            "batch of the stream goes to all cores",
            StreamJoinWarning,
            stacklevel=3,
        )
        return None


def _read_table(spark: SparkSession, path: str, spec: JoinSpec) -> SavedTable | None:
    [[metadata]] = spark.read.text(f"{path}/metadata").collect()
    query = json.loads(metadata)["id"]
    tables = set()
    last = -1
    for each in spark.read.format("state-metadata").load(path).collect():
        named = f'"stateName":"{MANIFEST}"'
        if named not in each["operatorProperties"]:
            continue  # an operator of Spark's own
        last = each["maxBatchId"]
        state = (
            spark.read.format("statestore")
            .option("operatorId", each["operatorId"])
            .option("stateVarName", MANIFEST)
            .option("batchId", last)
            .load(path)
        )
        for [value] in state.select("value").limit(1).collect():
            manifest = Manifest.from_bytes(bytes(value[0]))
            facts = spec.place_on(each["numPartitions"]).facts
            if manifest.table is not None and not find_changes(manifest.facts, facts):
                tables.add(json.dumps(manifest.table.to_json()))
    if len(tables) != 1:  # the same join twice in one query: either table could be its own
        return None
    return SavedTable(query, last + 1, tables.pop())
