"""Apache Iceberg: catalog connections, and the sinks that write tables through them.

* `plan`: Plans the options of CREATE CONNECTION and CREATE SINK without pyiceberg.
* `storage`: Opens files with the present keys of their store, and converts exceptions of stores into coded errors.
* `file_damage`: Detects torn, changed and exchanged files of a table by seals.
* `table`: Opens catalogs, creates tables or compares them with the sink, and reads them.
* `file`: Writes rows to data files and position deletes, and lists the files of a table.
* `key_index`: Finds the live row of each key in sorted runs of key hashes; rebuilds lost runs from the table.
* `commit`: Stores the checkpoint in snapshots, and commits a proposal exactly once or is fenced.
* `compact`: Rewrites small files and files with dead rows into few files with the same rows.
* `write`: Runs the batches, full refreshes and maintenance of a sink's table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinkql import ast, logical, physical
from sinkql.connector_api.planning import ConnectionKind, Connector, OutsideAccess, SinkKind
from sinkql.connector_api.stream import Context, PlanChange, Published, Writer
from sinkql.connectors.iceberg.plan import connection
from sinkql.connectors.iceberg.plan import sink as plan
from sinkql.connectors.iceberg.plan.connection import plan_connection
from sinkql.connectors.iceberg.plan.sink import check_connection, destination, plan_sink

if TYPE_CHECKING:
    import pyarrow as pa

_ABOUT = """\
`WITH (VALIDATE = false)` after the options creates a connection without a request to the catalog.

A sink accesses its table's files with the keys or the role of `USING AWS CONNECTION`, or with the account of `USING GCP
CONNECTION`. Without either, it uses the `AWS CONNECTION` or `GCP CONNECTION` of the catalog, keys that a REST catalog
vends, or the keys of this machine. With `ACCESS DELEGATION` the catalog's keys come first. SinkQL renews tokens, and
keys of roles and catalogs, before they expire.

* Polaris: `CATALOG TYPE = 'rest'`, `URL = 'https://host/api/catalog'`, the catalog's name as `WAREHOUSE`, `CREDENTIAL =
  'client-id:' || SECRET name`, `SCOPE = 'PRINCIPAL_ROLE:ALL'`, and `ACCESS DELEGATION` or `USING AWS CONNECTION`.
* Nessie: `CATALOG TYPE = 'rest'`, `URL = 'https://host/iceberg'` and the warehouse's name as `WAREHOUSE`. For another
  branch than main, add `/branch` to the URL. If it requires tokens, set `CREDENTIAL` and the `OAUTH2 SERVER URL` of its
  identity provider. Nessie does not support branches of tables: a sink with `BRANCH` fails when it starts.
* S3 Tables: `CATALOG TYPE = 's3tablesrest'`, `URL = 'https://s3tables.region.amazonaws.com'`, with or without
  `/iceberg` at its end, `WAREHOUSE`, and `AWS CONNECTION`.
* Glue: `CATALOG TYPE = 'glue'`, `AWS CONNECTION`, and `WAREHOUSE` if sinks create databases. Namespaces have one level.
* Hive: `CATALOG TYPE = 'hive'`, `URL = 'thrift://host:9083'`, and `USING AWS CONNECTION` in sinks. Set `WAREHOUSE` if
  sinks create databases outside the metastore's folder. Namespaces have one level. It requires the extra
  `sinkql[hive]` and a metastore of Hive 4 without Kerberos, which compares a table before it alters it. Other programs
  that write to a table, for example Spark, must compare too, or they undo commits. The property
  `engine.hive.lock-enabled = false` tells them to. Tables that sinks create have it; set it for other tables. PyIceberg
  ignores it.
* BigLake: `CATALOG TYPE = 'rest'`, `URL = 'https://biglake.googleapis.com/iceberg/v1/restcatalog'`, `WAREHOUSE =
  'gs://bucket'`, and `GCP CONNECTION`, whose service account accesses the catalog and the files. With `ACCESS
  DELEGATION` the catalog vends tokens for the files instead. No other URL is allowed, except on this machine.
* Type `hadoop` is not supported, because commits get lost in a folder without a catalog. `CATALOG TYPE = 'sql'` also
  stores tables in a folder.

SinkQL is tested with SeaweedFS (REST with OAuth2, vended keys, the API of S3 Tables, roles), Moto (Glue), the metastore
of Hive 4.0.1 over a local folder, and Nessie 0.99.0 over S3 without tokens. For BigLake, servers stand in for Google's
tokens, catalog and Cloud Storage. Polaris, AWS and BigLake themselves are not tested."""

# Planning does not import pyiceberg: only these functions do.


def _validate(planned: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connectors.iceberg.table.catalog import validate

    validate(planned, access)


def _find_facts(
    statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
) -> logical.Facts:
    from sinkql.connectors.iceberg.commit.table_facts import find

    return find(statement, sink, access, job=job)


def _open_writer(write: physical.Write, context: Context) -> Writer:
    from sinkql.connectors.iceberg.write.writer import open_writer

    return open_writer(write, context)


def _reading_lines(write: physical.Write, context: Context) -> list[str]:
    from sinkql.connectors.iceberg.table.reader import lines

    return lines(write, context)


def _count_rows(write: physical.Write, context: Context) -> int | None:
    from sinkql.connectors.iceberg.table.reader import count_rows

    return count_rows(write, context)


def _publish(write: physical.Write, context: Context) -> Published:
    from sinkql.connectors.iceberg.commit.proposal import publish

    return publish(write, context)


def _delete_tag(write: physical.Write, context: Context) -> None:
    from sinkql.connectors.iceberg.commit.drop_table import delete_sink_tag

    delete_sink_tag(write, context)


def _drop_table(write: physical.Write, context: Context, *, dry: bool) -> bool:
    from sinkql.connectors.iceberg.commit.drop_table import drop_table_if_empty

    return drop_table_if_empty(write, context, dry=dry)


def _read_rows(
    write: physical.Write,
    context: Context,
    columns: tuple[physical.Column, ...],
    limit: int,
    *,
    switch: PlanChange | None = None,
) -> pa.Table:
    from sinkql.connectors.iceberg.commit.table_facts import current_rows

    return current_rows(write, context, columns, limit, switch=switch)


connector = Connector(
    "iceberg",
    connections=(
        ConnectionKind(
            "ICEBERG CATALOG",
            plan_connection,
            connection.CatalogOptions,
            connection.OWNER,
            connection.PLACE,
            validate=_validate,
            about=_ABOUT,
        ),
    ),
    sinks=(
        SinkKind(
            "ICEBERG CATALOG",
            plan_sink,
            _open_writer,
            plan.TableOptions,
            plan.IcebergOptions,
            plan.OWNER,
            plan.AT_CREATION,
            recreatable=plan.ANEW,
            formats=("PARQUET",),
            partitions=True,
            facts=_find_facts,
            check=check_connection,
            reading_help=_reading_lines,
            count_rows=_count_rows,
            rows=_read_rows,
            publish=_publish,
            forget=_delete_tag,
            drop=_drop_table,
            destination=destination,
            dead_letter_write=plan.dead_letter_write,
        ),
    ),
    tasks=("sinkql.connectors.iceberg.write.append_task", "sinkql.connectors.iceberg.write.upsert_task"),
)
