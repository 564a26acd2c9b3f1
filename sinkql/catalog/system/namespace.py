"""Where items are and whose they are, as SQL: databases and schemas with their ids, oids, owners."""

from __future__ import annotations

QUICKSTART = "quickstart"
QUICKSTART_ID = "s1"
PUBLIC_SCHEMA_ID = "s5"
DATABASE_ID = "s6"

SYSTEM_ITEMS = '"sinkql relations"'
"""The view of the system relations themselves: id, oid, schema_id, name, columns (JSON)."""

SYSTEM_SCHEMAS = {"mz_catalog": "s7", "mz_internal": "s8", "pg_catalog": "s9", "information_schema": "s10"}
"""Ids of schemas are unique among all ids too: comments go by ids."""

ITEM_OID = "i.number + 20000"
OWNER = "coalesce(i.owner, 'materialize')"

_BUILT_IN_SCHEMAS = "\n".join(
    f"  UNION ALL SELECT '{schema_id}', {16660 + place}, NULL, '{name}', 'mz_system'"
    for place, (name, schema_id) in enumerate(SYSTEM_SCHEMAS.items())
)

DATABASES = (
    "FROM (\n"
    f"  SELECT '{DATABASE_ID}' AS id, 16650 AS oid, 'materialize' AS name, NULL AS owner\n"
    f"  UNION ALL SELECT i.id, {ITEM_OID}, i.name, i.owner FROM items AS i WHERE i.kind = 'DATABASE'\n"
    ") AS i"
)

SCHEMAS = (
    "FROM (\n"
    f"  SELECT '{PUBLIC_SCHEMA_ID}' AS id, 16670 AS oid, '{DATABASE_ID}' AS database_id,\n"
    "    'public' AS name, NULL AS owner\n"
    f"{_BUILT_IN_SCHEMAS}\n"
    f"  UNION ALL SELECT i.id, {ITEM_OID}, d.id, i.name, i.owner\n"
    "  FROM items AS i JOIN mz_databases AS d ON d.name = i.database_name WHERE i.kind = 'SCHEMA'\n"
    ") AS i"
)

SCHEMA_ID = (
    "(SELECT s.id FROM mz_schemas AS s JOIN mz_databases AS d ON d.id = s.database_id\n"
    "    WHERE s.name = i.schema_name AND d.name = i.database_name)"
)
"""The id of the schema of an item `i`."""
