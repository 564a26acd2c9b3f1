"""A program in which Spark maintains tables of `sql` catalogs with Iceberg's own actions, in sequence.

Its arguments are a number of rounds and the folders of the catalogs, each with `lake.db` and table `n.t`. For each
action it prints a line of JSON, with the reason if the action was abandoned. Then it reads lines with metadata
locations, and prints the rows that Spark reads at each.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_JARS = "org.apache.iceberg:iceberg-spark-runtime-{}_2.13:1.11.0,org.xerial:sqlite-jdbc:3.50.3.0"
_OLD_MS = 20_000
"""Files of a sink's unfinished work are younger."""
_ACTIONS = (
    "rewrite_data_files",
    "rewrite_position_delete_files",
    "rewrite_manifests",
    "expire_snapshots",
    "remove_orphan_files",
)
_GIVEN_UP = ("CommitFailedException", "ValidationException", "NotFoundException", "CommitStateUnknownException")


def main(rounds: int, folders: list[str]) -> None:
    """Maintain the tables; any error but a conflict with the sink ends the program."""
    spark = _session()
    tables = [_opened(spark, folder) for folder in folders]
    chance = random.Random(rounds)
    for _ in range(rounds):
        for number, load in enumerate(tables):
            for name in chance.sample(_ACTIONS, len(_ACTIONS)):
                told: dict[str, Any] = {"table": number, "action": name, "given_up": None}
                try:
                    _action(spark, load(), name).execute()
                except Py4JJavaError as error:
                    text = str(error.java_exception)
                    if not any(each in str(error) for each in _GIVEN_UP):
                        raise
                    told["given_up"] = text.splitlines()[0]
                print(json.dumps(told), flush=True)
    print(json.dumps({"done": True}), flush=True)
    for location in sys.stdin:
        rows = spark.read.format("iceberg").load(location.strip()).collect()
        print(json.dumps([list(row) for row in rows], default=int), flush=True)
    spark.stop()


def _session() -> SparkSession:
    from pyspark import __version__

    version = ".".join(__version__.split(".")[:2])
    builder = SparkSession.Builder().master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    return builder.config("spark.jars.packages", _JARS.format(version)).getOrCreate()


def _opened(spark: SparkSession, folder: str) -> Callable[[], Any]:
    """Return a function that loads the table of a folder again at each call."""
    java: Any = spark._jvm
    catalog = java.org.apache.iceberg.jdbc.JdbcCatalog()
    catalog.setConf(spark._jsc.hadoopConfiguration())
    options = {"uri": f"jdbc:sqlite:{folder}/lake.db?busy_timeout=30000", "warehouse": f"file://{folder}/lake"}
    catalog.initialize("default", options | {"jdbc.schema-version": "V1"})
    name = java.org.apache.iceberg.catalog.TableIdentifier.parse("n.t")
    return lambda: catalog.loadTable(name)


def _action(spark: SparkSession, table: Any, name: str) -> Any:
    java: Any = spark._jvm
    actions = java.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
    before = int(time.time() * 1000) - _OLD_MS
    match name:
        case "rewrite_data_files":
            return actions.rewriteDataFiles(table).option("rewrite-all", "true")
        case "rewrite_position_delete_files":
            return actions.rewritePositionDeletes(table).option("rewrite-all", "true")
        case "rewrite_manifests":
            return actions.rewriteManifests(table)
        case "expire_snapshots":
            return actions.expireSnapshots(table).expireOlderThan(before).retainLast(1)
        case _:
            return actions.deleteOrphanFiles(table).olderThan(before)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
