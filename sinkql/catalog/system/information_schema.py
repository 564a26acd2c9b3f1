"""The relations of information_schema."""

from __future__ import annotations

from sinkql.catalog.system import pg_type
from sinkql.catalog.system.relation import relation

_PLACE = "JOIN mz_schemas AS s ON s.id = r.schema_id\nLEFT JOIN mz_databases AS d ON d.id = s.database_id"
_CATALOG = "coalesce(d.name, 'materialize')"
_TABLE_TYPE = (
    "CASE r.type WHEN 'view' THEN 'VIEW' WHEN 'materialized-view' THEN 'MATERIALIZED VIEW' ELSE 'BASE TABLE' END"
)
_LONG_TYPE = (
    "CASE c.type WHEN 'timestamptz' THEN 'timestamp with time zone' WHEN 'timestamp' THEN 'timestamp without time zone'"
    " WHEN 'time' THEN 'time without time zone' ELSE " + pg_type.base("c.type") + " END"
)

INFORMATION = (
    relation(
        "information_schema.schemata",
        f"catalog_name text {_CATALOG}\nschema_name text s.name\nschema_owner text s.owner_id",
        "FROM mz_schemas AS s\nLEFT JOIN mz_databases AS d ON d.id = s.database_id",
    ),
    relation(
        "information_schema.tables",
        f"""
table_catalog text {_CATALOG}
table_schema text s.name
table_name text r.name
table_type text {_TABLE_TYPE}
is_insertable_into text CASE r.type WHEN 'table' THEN 'YES' ELSE 'NO' END
""",
        f"FROM mz_relations AS r\n{_PLACE}",
    ),
    relation(
        "information_schema.columns",
        f"""
table_catalog text {_CATALOG}
table_schema text s.name
table_name text r.name
column_name text c.name
ordinal_position integer c.position
column_default text c."default"
is_nullable text CASE WHEN c.nullable THEN 'YES' ELSE 'NO' END
data_type text {_LONG_TYPE}
character_maximum_length integer -
numeric_precision integer CASE WHEN c.type LIKE 'numeric(%)' THEN {pg_type.precision("c.type")} END
numeric_scale integer CASE WHEN c.type LIKE 'numeric(%)' THEN {pg_type.scale("c.type")} END
datetime_precision integer CASE WHEN c.type IN ('timestamp', 'timestamptz', 'time') THEN 6 END
udt_name text {pg_type.short_name("c.type")}
""",
        f"FROM mz_columns AS c\nJOIN mz_relations AS r ON r.id = c.id\n{_PLACE}",
    ),
    relation(
        "information_schema.views",
        f"table_catalog text {_CATALOG}\ntable_schema text s.name\ntable_name text r.name\n"
        "view_definition text coalesce(v.definition, m.definition)",
        f"FROM mz_relations AS r\n{_PLACE}\nLEFT JOIN mz_views AS v ON v.id = r.id\n"
        "LEFT JOIN mz_materialized_views AS m ON m.id = r.id\nWHERE r.type IN ('view', 'materialized-view')",
    ),
    relation(
        "information_schema.table_constraints",
        f"""
constraint_catalog text {_CATALOG}
constraint_schema text s.name
constraint_name text k.conname
table_catalog text {_CATALOG}
table_schema text s.name
table_name text r.name
constraint_type text CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END
""",
        f"FROM pg_constraint AS k\nJOIN mz_relations AS r ON r.oid = k.conrelid\n{_PLACE}",
    ),
    relation(
        "information_schema.key_column_usage",
        f"""
constraint_name text json_extract(k.value, '$.name')
table_catalog text {_CATALOG}
table_schema text s.name
table_name text r.name
column_name text n.value
ordinal_position integer n.key + 1
""",
        "FROM items AS i, json_each(i.details, '$.constraints') AS k, json_each(k.value, '$.columns') AS n\n"
        f"JOIN mz_relations AS r ON r.id = i.id\n{_PLACE}\nWHERE i.kind = 'TABLE'",
    ),
    relation(
        "information_schema.enabled_roles",
        "role_name text r.rolname",
        "FROM pg_roles AS r",
    ),
)
