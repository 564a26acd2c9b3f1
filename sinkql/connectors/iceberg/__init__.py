"""Apache Iceberg: catalog connections and the sinks that write through them.

* `plan`: options of CREATE CONNECTION and CREATE SINK → what is planned of them; no pyiceberg in it.
* `storage`: files and requests get the keys that hold when they are asked for.
* `table`: a planned connection → an open catalog; a table → made, or held against what a sink writes; its small files.
* `file`: rows → Parquet data files and position-delete files; the files that a table has.
* `key_index`: where the live row of each key is: hashed keys in sorted runs, rebuilt from the table when they are lost.
* `commit`: what a snapshot says of its sink; files → manifests; a proposal lands exactly once, or is fenced.
* `compact`: small files and files with dead rows → few of the same rows.
* `write`: all rows of an upsert sink, computed again → what its table lacks of them.
* `write`: the tasks of append and upsert sinks, and the writer that owns a table while a job runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinkql import ast, logical, physical
from sinkql.connector_api.planning import ConnectionKind, Connector, OutsideAccess, SinkKind
from sinkql.connector_api.stream import Context, PlanChange, Published, Writer
from sinkql.connectors.iceberg.plan import connection
from sinkql.connectors.iceberg.plan import sink as plan
from sinkql.connectors.iceberg.plan.connection import plan_connection
from sinkql.connectors.iceberg.plan.sink import check_using, destination, plan_sink

if TYPE_CHECKING:
    import pyarrow as pa

_ABOUT = """\
`WITH (VALIDATE = false)` after the options creates a connection without asking the catalog.

A table's files are reached with the keys or the role of the sink's `USING AWS CONNECTION`, or as the account of its
`USING GCP CONNECTION`; without it with those of the catalog's own `AWS CONNECTION` or `GCP CONNECTION`, with keys that
a REST catalog gives, or with this machine's own. With `ACCESS DELEGATION` the keys of the catalog come first. Keys of
roles and of catalogs are renewed before they run out, and so are tokens.

* Polaris: `CATALOG TYPE = 'rest'`, `URL = 'https://host/api/catalog'`, the catalog's name as `WAREHOUSE`, `CREDENTIAL =
  'client-id:' || SECRET name`, `SCOPE = 'PRINCIPAL_ROLE:ALL'`, and `ACCESS DELEGATION` or `USING AWS CONNECTION`.
* Nessie: `CATALOG TYPE = 'rest'`, `URL = 'https://host/iceberg'`, with `/branch` at its end for another one than main,
  the warehouse's name as `WAREHOUSE`; `CREDENTIAL` and `OAUTH2 SERVER URL` of its identity provider if it wants tokens.
  Its tables have no branches of their own: `BRANCH` of sinks is refused when they start.
* S3 Tables: `CATALOG TYPE = 's3tablesrest'`, `URL = 'https://s3tables.region.amazonaws.com'`, with or without
  `/iceberg` at its end, `WAREHOUSE`, and `AWS CONNECTION`.
* Glue: `CATALOG TYPE = 'glue'`, `AWS CONNECTION`, and `WAREHOUSE` if sinks make databases. Namespaces have one level.
* Hive: `CATALOG TYPE = 'hive'`, `URL = 'thrift://host:9083'`, `WAREHOUSE` if sinks make databases outside of the
  metastore's own folder, and `USING AWS CONNECTION` at sinks. It needs a metastore of Hive 4, which compares what it
  alters, without Kerberos, and `pip install 'sinkql[hive]'`. Namespaces have one level. Whatever else writes to a
  table, such as Spark, has to compare too, or undoes commits: tables that sinks make tell it so by the property
  `engine.hive.lock-enabled = false`, which tables of others need as well. PyIceberg does not heed it.
* BigLake: `CATALOG TYPE = 'rest'`, `URL = 'https://biglake.googleapis.com/iceberg/v1/restcatalog'`, `WAREHOUSE =
  'gs://bucket'`, and `GCP CONNECTION`, whose service account reaches the catalog and the files; `ACCESS DELEGATION` if
  the catalog is to give tokens for the files instead. No other URL is taken, but for servers on this machine.
* Type `hadoop` is refused: in a folder without a catalog commits get lost. `CATALOG TYPE = 'sql'` keeps tables in a
  folder too.

Tested with SeaweedFS (REST with OAuth2, keys that the catalog gives, the API of S3 Tables, roles), with Moto (Glue),
with the metastore of Hive 4.0.1 over a local folder, with Nessie 0.99.0 over S3, without tokens, and, for what is
BigLake's, with servers that stand in for Google's tokens, catalog and Cloud Storage. Polaris, AWS itself and BigLake
itself have not been tested."""

# pyiceberg loads only where the outside is reached, not to plan


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


def _reading(write: physical.Write, context: Context) -> list[str]:
    from sinkql.connectors.iceberg.table.reader import lines

    return lines(write, context)


def _count_rows(write: physical.Write, context: Context) -> int | None:
    from sinkql.connectors.iceberg.table.reader import count_rows

    return count_rows(write, context)


def _publish(write: physical.Write, context: Context) -> Published:
    from sinkql.connectors.iceberg.commit.proposal import publish

    return publish(write, context)


def _forget(write: physical.Write, context: Context) -> None:
    from sinkql.connectors.iceberg.commit.drop_table import delete_sink_tag

    delete_sink_tag(write, context)


def _drop(write: physical.Write, context: Context, *, dry: bool) -> bool:
    from sinkql.connectors.iceberg.commit.drop_table import drop_table_if_empty

    return drop_table_if_empty(write, context, dry=dry)


def _rows(
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
            anew=plan.ANEW,
            formats=("PARQUET",),
            partitions=True,
            facts=_find_facts,
            check=check_using,
            reading=_reading,
            count_rows=_count_rows,
            rows=_rows,
            publish=_publish,
            forget=_forget,
            drop=_drop,
            destination=destination,
            letters=plan.letters,
        ),
    ),
    tasks=("sinkql.connectors.iceberg.write.append", "sinkql.connectors.iceberg.write.upsert_task"),
)
