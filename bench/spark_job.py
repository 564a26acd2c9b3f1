"""The Spark job that a user would write today, from JSON into Iceberg. Runs as a program, one job a process.

* `append`: files, by Structured Streaming into Iceberg's own sink.
* `kafka`: a topic, by the same sink. The source is an address, a slash and the topic.
* `merge`: files, by foreachBatch and MERGE INTO, merge-on-read.
* `sums`: count and sum by key, by Structured Streaming with state in RocksDB; the changes are discarded.
* `merged-sums`: the same, written to the table by MERGE INTO.

`limit` is the number of files or messages a commit.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data import SPARK_EVENTS, SPARK_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(kind: str, source: str, work: str, jars: str, limit: str, cores: str) -> None:
    from pyspark.sql import DataFrame, SparkSession

    folder = Path(work)
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", jars)
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", str(folder / "lake"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    if kind in ("sums", "merged-sums"):
        aggregate(spark, kind, source, folder, limit)
        return
    columns = SPARK_ROWS if kind == "merge" else SPARK_EVENTS
    properties = "'format-version'='2','write.parquet.compression-codec'='zstd','write.distribution-mode'='none'"
    if kind == "merge":
        properties += ",'write.merge.mode'='merge-on-read','write.update.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE IF NOT EXISTS ice.n.t ({columns}) USING iceberg TBLPROPERTIES ({properties})")
    if kind == "kafka":
        address, _, topic = source.partition("/")
        options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
        messages = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=limit).load()
        parsed = messages.selectExpr(f"from_json(CAST(value AS STRING), '{columns}') AS row")
        stream = parsed.select("row.*")
    else:
        stream = spark.readStream.schema(columns).option("maxFilesPerTrigger", limit).json(source)
    if kind != "merge" or "base" in source:
        options = {"checkpointLocation": str(folder / f"checkpoint-{Path(source).name}"), "fanout-enabled": "true"}
        query = stream.writeStream.format("iceberg").options(**options).trigger(availableNow=True).toTable("ice.n.t")
        query.awaitTermination()
        return

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            "MERGE INTO ice.n.t USING (SELECT id, qty, price, name, seq FROM (SELECT *, row_number() OVER "
            "(PARTITION BY id ORDER BY seq DESC) AS latest FROM changes) WHERE latest = 1) AS c ON t.id = c.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    query = (
        stream.writeStream.foreachBatch(merge)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def aggregate(spark: SparkSession, kind: str, source: str, folder: Path, limit: str) -> None:
    """Aggregate files of changes, with state in RocksDB."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812  # its customary name

    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    changes = spark.readStream.schema("g BIGINT, v INT").option("maxFilesPerTrigger", limit).json(source)
    sums = changes.groupBy("g").agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    writer = sums.writeStream.outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    if kind == "merged-sums":
        properties = "'format-version'='2','write.merge.mode'='merge-on-read','write.update.mode'='merge-on-read'"
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS ice.n.t (g BIGINT, n BIGINT, total BIGINT) USING iceberg "
            f"TBLPROPERTIES ({properties})"
        )

        def merge(batch: DataFrame, number: int) -> None:
            batch.createOrReplaceTempView("changes")
            batch.sparkSession.sql(
                "MERGE INTO ice.n.t USING changes AS c ON t.g = c.g "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        writer = writer.foreachBatch(merge)
    else:
        writer = writer.format("noop")
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
