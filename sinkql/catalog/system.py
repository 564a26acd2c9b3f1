"""The system relations `mz_*`: their columns, and the SQL over the catalog's tables that gives their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy.engine import Connection

QUICKSTART = "quickstart"
QUICKSTART_ID = "s1"
PUBLIC_SCHEMA_ID = "u1"


@dataclass(frozen=True, slots=True)
class Relation:
    """Hold one system relation: `columns` are pairs of name and the SQL expression that gives it."""

    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    source: str

    def view(self) -> str:
        """Return the CREATE VIEW statement of SQLite."""
        outputs = ",\n  ".join(f'{expression} AS "{name}"' for name, expression in self.columns)
        return f'CREATE VIEW "{self.name}" AS\nSELECT\n  {outputs}\n{self.source}'


def create_views(connection: Connection) -> None:
    """Make the system relations anew in a catalog file."""
    for relation in RELATIONS.values():
        connection.exec_driver_sql(f'DROP VIEW IF EXISTS "{relation.name}"')
        connection.exec_driver_sql(relation.view())


def _same(*names: str, of: str = "i") -> tuple[tuple[str, str], ...]:
    return tuple((name, f'{of}."{name}"') for name in names)


def _missing(*names: str) -> tuple[tuple[str, str], ...]:
    """Give NULL for columns of the dialect that nothing here fills."""
    return tuple((name, "NULL") for name in names)


def _detail(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, f"json_extract(i.details, '$.{name}')") for name in names)


_ID = (("id", "i.id"), ("oid", "NULL"), ("schema_id", f"'{PUBLIC_SCHEMA_ID}'"), ("name", "i.name"))
_SQL = (("create_sql", "i.create_sql"), ("redacted_create_sql", "i.redacted_sql"))
_OWNER = _missing("owner_id", "privileges")


def _items(*kinds: str) -> str:
    wanted = ", ".join(f"'{kind}'" for kind in kinds)
    return f"FROM items AS i\nWHERE i.kind IN ({wanted})"


_TYPES = """CASE i.kind
    WHEN 'MATERIALIZED VIEW' THEN 'materialized-view'
    ELSE lower(i.kind)
  END"""

_SINK_ID = "json_extract(i.details, '$.sink_id')"

# A runner that was killed writes no status: what it left is no longer so once its lease has run out.
_DEAD = (
    "s.status IN ('starting', 'running', 'paused') AND l.sink_id IS NOT NULL"
    " AND (l.owner IS NULL OR l.expires < (julianday('now') - 2440587.5) * 86400.0)"
)
_GONE = "'the process that ran it is gone (pid ' || l.pid || ' on ' || l.host || ')'"

_ALL = (
    Relation(
        "mz_catalog",
        "mz_sinks",
        (
            *_ID,
            *_detail("type", "connection_id"),
            *_missing("size"),
            *_detail("envelope_type"),
            *_missing("format", "key_format", "value_format"),
            *_detail("cluster_id"),
            *_missing("owner_id"),
            *_SQL,
        ),
        _items("SINK"),
    ),
    Relation(
        "mz_catalog",
        "mz_iceberg_sinks",
        (("id", "i.id"), *_detail("namespace", "table")),
        _items("SINK") + "\n  AND json_extract(i.details, '$.type') = 'iceberg'",
    ),
    Relation("mz_catalog", "mz_connections", (*_ID, *_detail("type"), *_OWNER, *_SQL), _items("CONNECTION")),
    Relation(
        "mz_catalog",
        "mz_sources",
        (
            *_ID,
            *_detail("type", "connection_id"),
            *_missing("size"),
            *_detail("envelope_type"),
            *_missing("key_format"),
            *_detail("value_format", "cluster_id"),
            *_OWNER,
            *_SQL,
        ),
        _items("SOURCE"),
    ),
    Relation("mz_catalog", "mz_views", (*_ID, *_detail("definition"), *_OWNER, *_SQL), _items("VIEW")),
    Relation(
        "mz_catalog",
        "mz_materialized_views",
        (*_ID, *_detail("cluster_id", "definition"), *_OWNER, *_SQL),
        _items("MATERIALIZED VIEW"),
    ),
    Relation("mz_catalog", "mz_secrets", (*_ID, *_OWNER), _items("SECRET")),
    Relation(
        "mz_catalog",
        "mz_clusters",
        (
            *_same("id", "name"),
            *_OWNER,
            *_same("managed", "size", "replication_factor"),
            *_missing("disk", "availability_zones", "introspection_debugging", "introspection_interval"),
        ),
        "FROM (\n"
        f"  SELECT '{QUICKSTART_ID}' AS id, '{QUICKSTART}' AS name, 1 AS managed, 'local[*]' AS size,\n"
        "    1 AS replication_factor\n"
        "  UNION ALL\n"
        "  SELECT id, name, json_extract(details, '$.size') IS NOT NULL, json_extract(details, '$.size'), 1\n"
        "  FROM items WHERE kind = 'CLUSTER'\n"
        ") AS i",
    ),
    Relation(
        "mz_catalog",
        "mz_columns",
        (
            ("id", "i.id"),
            ("name", "json_extract(c.value, '$.name')"),
            ("position", "c.key + 1"),
            ("nullable", "json_extract(c.value, '$.nullable')"),
            ("type", "json_extract(c.value, '$.type')"),
            *_missing("default", "type_oid", "type_mod"),
        ),
        "FROM items AS i, json_each(i.details, '$.columns') AS c\n"
        "WHERE i.kind IN ('SOURCE', 'VIEW', 'MATERIALIZED VIEW')",
    ),
    Relation(
        "mz_catalog",
        "mz_objects",
        (*_ID, ("type", _TYPES), *_missing("owner_id"), *_detail("cluster_id"), *_missing("privileges")),
        "FROM items AS i\nWHERE i.kind <> 'CLUSTER'",
    ),
    Relation(
        "mz_catalog",
        "mz_relations",
        (*_ID, ("type", _TYPES), *_missing("owner_id"), *_detail("cluster_id"), *_missing("privileges")),
        _items("SOURCE", "VIEW", "MATERIALIZED VIEW"),
    ),
    Relation(
        "mz_catalog",
        "mz_databases",
        (*_same("id"), *_missing("oid"), *_same("name"), *_OWNER),
        "FROM (SELECT 'u1' AS id, 'materialize' AS name) AS i",
    ),
    Relation(
        "mz_catalog",
        "mz_schemas",
        (*_same("id"), *_missing("oid"), *_same("database_id", "name"), *_OWNER),
        f"FROM (\n  SELECT '{PUBLIC_SCHEMA_ID}' AS id, 'u1' AS database_id, 'public' AS name\n"
        "  UNION ALL SELECT 's1', NULL, 'mz_catalog'\n  UNION ALL SELECT 's2', NULL, 'mz_internal'\n) AS i",
    ),
    Relation(
        "mz_internal",
        "mz_object_dependencies",
        (("object_id", "d.item_id"), ("referenced_object_id", "d.referenced_id")),
        "FROM dependencies AS d",
    ),
    Relation(
        "mz_internal",
        "mz_sink_statuses",
        (
            ("id", "i.id"),
            ("name", "i.name"),
            ("type", "json_extract(i.details, '$.type')"),
            ("last_status_change_at", "coalesce(s.changed_at, i.created_at)"),
            ("status", f"CASE WHEN {_DEAD} THEN 'failed' ELSE coalesce(s.status, 'created') END"),
            ("error", f"CASE WHEN {_DEAD} THEN {_GONE} ELSE s.error END"),
            ("details", "coalesce(s.details, CASE WHEN s.hint IS NOT NULL THEN json_object('hint', s.hint) END)"),
            ("hint", "s.hint"),
        ),
        "FROM items AS i\n"
        f"LEFT JOIN statuses AS s ON s.sink_id = {_SINK_ID}\n"
        f"LEFT JOIN leases AS l ON l.sink_id = {_SINK_ID}\n"
        "WHERE i.kind = 'SINK'",
    ),
    Relation(
        "mz_internal",
        "mz_sink_status_history",
        (
            ("occurred_at", "h.occurred_at"),
            ("sink_id", "i.id"),
            *_same("status", "error", "details", of="h"),
            ("replica_id", "NULL"),
            ("hint", "h.hint"),
        ),
        f"FROM status_history AS h\nJOIN items AS i ON i.kind = 'SINK' AND {_SINK_ID} = h.sink_id",
    ),
    Relation(
        "mz_internal",
        "mz_sink_statistics",
        (
            ("id", "i.id"),
            ("replica_id", "NULL"),
            ("messages_staged", "coalesce(p.messages, 0)"),
            ("messages_committed", "coalesce(p.messages, 0)"),
            ("bytes_staged", "coalesce(p.bytes, 0)"),
            ("bytes_committed", "coalesce(p.bytes, 0)"),
        ),
        f"FROM items AS i\nLEFT JOIN progress AS p ON p.sink_id = {_SINK_ID}\nWHERE i.kind = 'SINK'",
    ),
    # SinkQL's own: how far each sink is.
    Relation(
        "mz_internal",
        "mz_sink_progress",
        (
            ("id", "i.id"),
            ("desired", "d.desired"),
            *_same("commits", "failed_rows", "epoch", "snapshot", "lag", "offsets", "committed_at", of="p"),
        ),
        "FROM items AS i\n"
        f"LEFT JOIN progress AS p ON p.sink_id = {_SINK_ID}\n"
        f"LEFT JOIN desired AS d ON d.sink_id = {_SINK_ID}\n"
        "WHERE i.kind = 'SINK'",
    ),
)

RELATIONS: Mapping[str, Relation] = MappingProxyType({relation.name: relation for relation in _ALL})
"""All system relations by their names, which no two schemas share."""
