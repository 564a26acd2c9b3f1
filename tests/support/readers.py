"""Read tables with DuckDB, by folder or through a REST catalog, PyIceberg, Polars, Spark, Daft and DataFusion."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyspark
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from support.jars import named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]
_OTHERS = Path(__file__).parents[2] / ".venv-readers" / "bin" / "python"
_ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-{}_2.13:1.11.0"
_BUNDLE = "org.apache.iceberg:iceberg-aws-bundle:1.11.0"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB with its Iceberg extension, loaded from Python packages without network."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD '{_extension(name)}'")
    return connection


def installing(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB whose INSTALL finds the extensions of Python packages, and installs them in `folder`."""
    place = str(folder / "repository")
    connection = duckdb.connect(
        config={
            "allow_unsigned_extensions": "true",
            "extension_directory": str(folder / "extensions"),
            "custom_extension_repository": place,
            "autoinstall_extension_repository": place,
        }
    )
    ((platform,),) = connection.execute("PRAGMA platform").fetchall()
    found = Path(place, f"v{duckdb.__version__}", platform)
    found.mkdir(parents=True, exist_ok=True)
    for name in ("avro", "httpfs", "iceberg"):
        with suppress(FileExistsError):
            (found / f"{name}.duckdb_extension").symlink_to(_extension(name))
    return connection


def duckdb_folder(folder: str | Path, columns: str = "*", *, snapshot: int | None = None) -> Rows:
    """Return the sorted rows of a local table, opened by its folder as a user would; `snapshot` is optional."""
    path = str(folder).removeprefix("file://")
    place = f"'{path}'" if snapshot is None else f"'{path}', snapshot_from_id = {snapshot}"
    with _opened(os.getpid()).cursor() as connection:
        return sorted_rows(connection.execute(f"SELECT {columns} FROM iceberg_scan({place})").fetchall())


@cache
def _opened(_process: int) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that this process keeps, since opening takes longer than reading; it caches no files."""
    connection = connect()
    connection.execute("SET enable_external_file_cache = false")
    return connection


def duckdb_rest(table: str, *, rest_port: int, s3_port: int, secret: str, columns: str = "*") -> Rows:
    """Return the sorted rows of a table of warehouse `lake` at a local REST catalog with OAuth2; user admin."""
    endpoint = f"http://127.0.0.1:{rest_port}"
    with connect() as connection:
        connection.execute(
            f"CREATE SECRET ic (TYPE iceberg, CLIENT_ID 'admin', CLIENT_SECRET '{secret}', "
            f"OAUTH2_SERVER_URI '{endpoint}/v1/oauth/tokens')"
        )
        connection.execute(
            f"CREATE SECRET s3s (TYPE s3, KEY_ID 'admin', SECRET '{secret}', REGION 'us-east-1', "
            f"ENDPOINT '127.0.0.1:{s3_port}', URL_STYLE 'path', USE_SSL false)"
        )
        connection.execute(
            f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{endpoint}', SECRET ic, ACCESS_DELEGATION_MODE 'none')"
        )
        return sorted_rows(connection.execute(f"SELECT {columns} FROM lake.{table}").fetchall())


def open_table(lake: Path, name: str) -> Table:
    """Return a table of a catalog of type `sql` in a folder, newly loaded by PyIceberg."""
    return load_catalog("default", type="sql", uri=f"sqlite:///{lake.resolve()}/catalog.db").load_table(name)


def pyiceberg_rows(table: Table, columns: tuple[str, ...] = ("*",)) -> Rows:
    """Return the sorted rows that PyIceberg reads."""
    found = table.scan(selected_fields=columns).to_arrow().to_pylist()
    names = found[0].keys() if found and columns == ("*",) else columns
    return sorted_rows([tuple(row[name] for name in names) for row in found])


def polars_rows(table: Table, columns: tuple[str, ...]) -> Rows:
    """Return the sorted rows that Polars reads, natively if each delete file is of one data file."""
    os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"  # avoids a warning that Polars' planner is not installed
    return sorted_rows(pl.scan_iceberg(table).select(columns).collect().rows())


def other_rows(table: Table) -> dict[str, Rows]:
    """Return the sorted rows that Daft and DataFusion read, by reader, in a separate process.

    Daft reads no deletion vectors.
    """
    program = Path(__file__).with_name("other_readers.py")
    names = ("daft", "datafusion") if table.metadata.format_version == 2 else ("datafusion",)
    done = subprocess.run([_OTHERS, program, table.metadata_location, *names], check=True, stdout=subprocess.PIPE)
    return {name: sorted_rows([tuple(row) for row in rows]) for name, rows in json.loads(done.stdout).items()}


def spark_rows(spark: SparkSession, table: Table, *, branch: str = "main") -> Rows:
    """Return the sorted rows that Spark reads with Iceberg's runtime from Maven's repository."""
    java = spark.sparkContext._jvm
    assert java is not None
    (jar,) = iceberg_jars()
    # not by ADD JAR: driver and executor share a process here, and each would load the classes once more
    java.Thread.currentThread().getContextClassLoader().addURL(java.java.io.File(str(jar)).toURI().toURL())
    found = spark.read.format("iceberg").option("branch", branch).load(table.metadata_location).collect()
    return sorted_rows([tuple(row) for row in found])


def iceberg_jars(*, aws: bool = False) -> list[Path]:
    """Return Iceberg's runtime for the installed Spark, with `aws` also the bundle for S3."""
    version = ".".join(pyspark.__version__.split(".")[:2])
    return named(_ICEBERG.format(version), *([_BUNDLE] if aws else []), transitive=False)


def sorted_rows(rows: Rows) -> Rows:
    """Return rows in an order that does not depend on the reader."""
    return sorted(rows, key=lambda row: tuple((value is not None, _comparable(value)) for value in row))


def _comparable(value: Any) -> Any:
    return repr(value) if isinstance(value, dict | list) else value


@cache
def _extension(name: str) -> Path:
    package = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
    return next(package.glob(f"extensions/*/{name}.duckdb_extension"))
