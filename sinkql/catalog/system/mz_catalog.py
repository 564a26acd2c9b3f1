"""The relations of `mz_catalog`: the items of the catalog, by kind and all together."""

from __future__ import annotations

from sinkql.catalog.system import pg_type
from sinkql.catalog.system.relation import (
    DATABASES,
    ITEM_OID,
    OWNER,
    QUICKSTART,
    QUICKSTART_ID,
    SCHEMA_ID,
    SCHEMAS,
    SYSTEM_ITEMS,
    relation,
)

_HEAD = f"""
id text
oid oid {ITEM_OID}
schema_id text {SCHEMA_ID}
name text
"""
_OWNED = f"""
owner_id text {OWNER}
privileges mz_aclitem[] -
"""
_SQL = """
create_sql text i.redacted_sql
redacted_create_sql text i.redacted_sql
"""

_KIND = """CASE i.kind
    WHEN 'MATERIALIZED VIEW' THEN 'materialized-view'
    ELSE lower(i.kind)
  END"""
_RELATION_KINDS = "'TABLE', 'SOURCE', 'VIEW', 'MATERIALIZED VIEW'"
_OBJECT_KINDS = f"{_RELATION_KINDS}, 'SINK', 'INDEX', 'CONNECTION', 'SECRET'"
_TYPE = "coalesce(json_extract(c.value, '$.type'), 'text')"


def _detail(name: str) -> str:
    return f"json_extract(i.details, '$.{name}')"


def _items(*kinds: str) -> str:
    wanted = ", ".join(f"'{kind}'" for kind in kinds)
    return f"FROM items AS i\nWHERE i.kind IN ({wanted})"


def _of_type(kind: str, type_: str) -> str:
    return f"{_items(kind)}\n  AND {_detail('type')} = '{type_}'"


def _objects(kinds: str) -> str:
    return (
        "FROM (\n"
        f"  SELECT i.id, {ITEM_OID} AS oid, {SCHEMA_ID} AS schema_id, i.name, {_KIND} AS type, {OWNER} AS owner_id,\n"
        f"    {_detail('cluster_id')} AS cluster_id\n"
        f"  FROM items AS i WHERE i.kind IN ({kinds})\n"
        f"  UNION ALL\n  SELECT r.id, r.oid, r.schema_id, r.name, 'view', 'mz_system', NULL FROM {SYSTEM_ITEMS} AS r\n"
        ") AS i"
    )


_BROKERS = "(SELECT '{' || group_concat(b.value, ',') || '}' FROM json_each(i.details, '$.options.brokers') AS b)"
_OBJECT_COLUMNS = """
id text
oid oid
schema_id text
name text
type text
owner_id text
cluster_id text
privileges mz_aclitem[] -
"""

ITEMS = (
    relation(
        "mz_catalog.mz_sinks",
        f"""{_HEAD}
type text {_detail("type")}
connection_id text {_detail("connection_id")}
size text -
envelope_type text {_detail("envelope_type")}
format text {_detail("format")}
key_format text {_detail("key_format")}
value_format text {_detail("value_format")}
cluster_id text {_detail("cluster_id")}
owner_id text {OWNER}
{_SQL}""",
        _items("SINK"),
    ),
    relation(
        "mz_catalog.mz_iceberg_sinks",
        f"id text\nnamespace text {_detail('options.namespace')}\ntable text {_detail('options.table')}\n"
        f"branch text {_detail('options.branch')}",
        _of_type("SINK", "iceberg"),
    ),
    relation("mz_catalog.mz_kafka_sinks", f"id text\ntopic text {_detail('options.topic')}", _of_type("SINK", "kafka")),
    relation(
        "mz_catalog.mz_connections",
        f"{_HEAD}\ntype text {_detail('type')}\n{_OWNED}\n{_SQL}",
        _items("CONNECTION"),
    ),
    relation(
        "mz_catalog.mz_kafka_connections",
        f"id text\nbrokers text[] {_BROKERS}\nsink_progress_topic text {_detail('options.progress_topic')}",
        _of_type("CONNECTION", "kafka"),
    ),
    relation(
        "mz_catalog.mz_ssh_tunnel_connections",
        f"id text\npublic_key_1 text {_detail('public_keys[0]')}\npublic_key_2 text {_detail('public_keys[1]')}",
        _of_type("CONNECTION", "ssh-tunnel"),
    ),
    relation(
        "mz_catalog.mz_aws_privatelink_connections",
        "id text\nprincipal text -",
        _of_type("CONNECTION", "aws-privatelink"),
    ),
    relation(
        "mz_catalog.mz_sources",
        f"""{_HEAD}
type text {_detail("type")}
connection_id text {_detail("connection_id")}
size text -
envelope_type text {_detail("envelope_type")}
key_format text {_detail("key_format")}
value_format text {_detail("value_format")}
cluster_id text {_detail("cluster_id")}
{_OWNED}
{_SQL}""",
        _items("SOURCE"),
    ),
    relation(
        "mz_catalog.mz_kafka_sources",
        f"id text\ngroup_id_prefix text {_detail('group')}\ntopic text {_detail('options.topic')}",
        _of_type("SOURCE", "kafka"),
    ),
    relation(
        "mz_catalog.mz_tables", f"{_HEAD}\n{_OWNED}\n{_SQL}\nsource_id text {_detail('source_id')}", _items("TABLE")
    ),
    relation(
        "mz_catalog.mz_views", f"{_HEAD}\ndefinition text {_detail('definition')}\n{_OWNED}\n{_SQL}", _items("VIEW")
    ),
    relation(
        "mz_catalog.mz_materialized_views",
        f"""{_HEAD}
cluster_id text {_detail("cluster_id")}
definition text {_detail("definition")}
{_OWNED}
{_SQL}""",
        _items("MATERIALIZED VIEW"),
    ),
    relation(
        "mz_catalog.mz_indexes",
        f"""
id text
oid oid {ITEM_OID}
name text
on_id text {_detail("on_id")}
cluster_id text {_detail("cluster_id")}
owner_id text {OWNER}
{_SQL}""",
        _items("INDEX"),
    ),
    relation("mz_catalog.mz_secrets", f"{_HEAD}\n{_OWNED}", _items("SECRET")),
    relation(
        "mz_catalog.mz_columns",
        f"""
id text i.id
name text json_extract(c.value, '$.name')
position uint8 c.key + 1
nullable boolean coalesce(json_extract(c.value, '$.nullable'), 1)
type text {_TYPE}
default text json_extract(c.value, '$.default')
type_oid oid {pg_type.oid(_TYPE)}
type_mod integer {pg_type.modifier(_TYPE)}
""",
        "FROM (\n"
        f"  SELECT id, json_extract(details, '$.columns') AS columns FROM items WHERE kind IN ({_RELATION_KINDS})\n"
        f"  UNION ALL SELECT id, columns FROM {SYSTEM_ITEMS}\n"
        ") AS i, json_each(i.columns) AS c",
    ),
    relation("mz_catalog.mz_objects", _OBJECT_COLUMNS, _objects(_OBJECT_KINDS)),
    relation("mz_catalog.mz_relations", _OBJECT_COLUMNS, _objects(_RELATION_KINDS)),
    relation("mz_catalog.mz_databases", f"id text\noid oid\nname text\n{_OWNED}", DATABASES),
    relation("mz_catalog.mz_schemas", f"id text\noid oid\ndatabase_id text\nname text\n{_OWNED}", SCHEMAS),
    relation(
        "mz_catalog.mz_clusters",
        f"""
id text
name text
{_OWNED}
managed boolean
size text
replication_factor uint4 1
disk boolean -
availability_zones text_list -
introspection_debugging boolean 0
introspection_interval interval -
""",
        "FROM (\n"
        f"  SELECT '{QUICKSTART_ID}' AS id, '{QUICKSTART}' AS name, 1 AS managed, 'local[*]' AS size, NULL AS owner\n"
        f"  UNION ALL\n  SELECT id, name, {_detail('size')} IS NOT NULL, {_detail('size')}, owner\n"
        "  FROM items AS i WHERE kind = 'CLUSTER'\n"
        ") AS i",
    ),
    relation(
        "mz_catalog.mz_cluster_replicas",
        """
id text i.id || '-r1'
name text 'r1'
cluster_id text i.id
size text
availability_zone text -
owner_id text
disk boolean -
""",
        "FROM mz_clusters AS i",
    ),
    relation(
        "mz_catalog.mz_audit_events",
        """
id uint8 i.number
event_type text
object_type text
details jsonb
user text
occurred_at timestamptz
""",
        "FROM audit_events AS i",
    ),
)
