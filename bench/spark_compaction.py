"""Run Spark's `rewrite_data_files` on a small table and then on a large one; print the CPU seconds of the second."""

from __future__ import annotations

import os
import sys

from bench.meter import tree_cpu

_CALL = "CALL {}.system.rewrite_data_files(table => 'n.t', options => map('rewrite-all', 'true'))"


def main(few: str, many: str, jar: str, cores: str) -> None:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", jar)
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.log.level", "ERROR")
    )
    for name, warehouse in {"few": few, "many": many}.items():
        builder = (
            builder.config(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
            .config(f"spark.sql.catalog.{name}.type", "hadoop")
            .config(f"spark.sql.catalog.{name}.warehouse", warehouse)
        )
    spark = builder.getOrCreate()
    spark.sql(_CALL.format("few")).collect()
    before = tree_cpu(os.getpid())
    found = spark.sql(_CALL.format("many")).collect()
    print(f"{found} CPU seconds: {tree_cpu(os.getpid()) - before:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
