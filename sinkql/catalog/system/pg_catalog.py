"""The relations of `pg_catalog` that Postgres tools read when they list schemas, relations and columns."""

from __future__ import annotations

import json

from sinkql.catalog.system import pg_type
from sinkql.catalog.system.relation import ITEM_OID, SCHEMA_ID, literal, relation

_RELKIND = "CASE r.type WHEN 'table' THEN 'r' WHEN 'materialized-view' THEN 'm' WHEN 'view' THEN 'v' ELSE 'r' END"
_NAMESPACES = "JOIN mz_schemas AS s ON s.id = r.schema_id"
_POSITIONS = (
    "'{' || (SELECT group_concat(c.key + 1, ',') FROM json_each(k.value, '$.columns') AS n"
    " JOIN json_each(i.details, '$.columns') AS c ON json_extract(c.value, '$.name') = n.value) || '}'"
)
_TYPE_ROWS = literal(json.dumps([[type_.oid, type_.short, type_.length, type_.category] for type_ in pg_type.TYPES]))

POSTGRES = (
    relation(
        "pg_catalog.pg_database",
        """
oid oid
datname text i.name
datdba oid 10
encoding integer 6
datcollate text 'C'
datctype text 'C'
datistemplate boolean 0
datallowconn boolean 1
datconnlimit integer -1
datacl text[] -
""",
        "FROM mz_databases AS i",
    ),
    relation(
        "pg_catalog.pg_namespace",
        "oid oid\nnspname text i.name\nnspowner oid 10\nnspacl text[] -",
        "FROM mz_schemas AS i",
    ),
    relation(
        "pg_catalog.pg_class",
        f"""
oid oid r.oid
relname text r.name
relnamespace oid s.oid
reltype oid 0
reloftype oid 0
relowner oid 10
relam oid 0
reltablespace oid 0
reltuples real -1
reltoastrelid oid 0
relhasindex boolean 0
relpersistence text 'p'
relkind text {_RELKIND}
relnatts smallint (SELECT count(*) FROM mz_columns AS c WHERE c.id = r.id)
relchecks smallint 0
relhasoids boolean 0
relhasrules boolean 0
relhastriggers boolean 0
relhassubclass boolean 0
relrowsecurity boolean 0
relforcerowsecurity boolean 0
relreplident text 'f'
relispartition boolean 0
relpartbound text -
reloptions text[] -
relacl text[] -
""",
        f"FROM mz_relations AS r\n{_NAMESPACES}",
    ),
    relation(
        "pg_catalog.pg_attribute",
        """
attrelid oid r.oid
attname text c.name
atttypid oid c.type_oid
attlen smallint t.typlen
attnum smallint c.position
atttypmod integer c.type_mod
attnotnull boolean NOT c.nullable
atthasdef boolean c."default" IS NOT NULL
attidentity text ''
attgenerated text ''
attisdropped boolean 0
attcollation oid 0
""",
        "FROM mz_columns AS c\nJOIN mz_relations AS r ON r.id = c.id\nLEFT JOIN pg_type AS t ON t.oid = c.type_oid",
    ),
    relation(
        "pg_catalog.pg_attrdef",
        'oid oid r.oid * 1000 + c.position\nadrelid oid r.oid\nadnum smallint c.position\nadbin text c."default"\n'
        'adsrc text c."default"',
        'FROM mz_columns AS c\nJOIN mz_relations AS r ON r.id = c.id\nWHERE c."default" IS NOT NULL',
    ),
    relation(
        "pg_catalog.pg_type",
        """
oid oid json_extract(t.value, '$[0]')
typname text json_extract(t.value, '$[1]')
typnamespace oid (SELECT s.oid FROM mz_schemas AS s WHERE s.name = 'pg_catalog')
typowner oid 10
typlen smallint json_extract(t.value, '$[2]')
typtype text 'b'
typcategory text json_extract(t.value, '$[3]')
typrelid oid 0
typelem oid 0
typarray oid 0
typbasetype oid 0
typnotnull boolean 0
typcollation oid 0
typdelim text ','
typdefault text -
""",
        f"FROM json_each({_TYPE_ROWS}) AS t",
    ),
    relation(
        "pg_catalog.pg_tables",
        """
schemaname text s.name
tablename text r.name
tableowner text r.owner_id
tablespace text -
hasindexes boolean 0
hasrules boolean 0
hastriggers boolean 0
rowsecurity boolean 0
""",
        f"FROM mz_relations AS r\n{_NAMESPACES}\nWHERE r.type IN ('table', 'source')",
    ),
    relation(
        "pg_catalog.pg_views",
        "schemaname text s.name\nviewname text r.name\nviewowner text r.owner_id\ndefinition text v.definition",
        f"FROM mz_relations AS r\n{_NAMESPACES}\nLEFT JOIN mz_views AS v ON v.id = r.id\nWHERE r.type = 'view'",
    ),
    relation(
        "pg_catalog.pg_matviews",
        """
schemaname text s.name
matviewname text v.name
matviewowner text v.owner_id
tablespace text -
hasindexes boolean 0
ispopulated boolean 1
definition text v.definition
""",
        "FROM mz_materialized_views AS v\nJOIN mz_schemas AS s ON s.id = v.schema_id",
    ),
    relation(
        "pg_catalog.pg_roles",
        """
oid oid 10
rolname text i.name
rolsuper boolean 1
rolinherit boolean 1
rolcreaterole boolean 1
rolcreatedb boolean 1
rolcanlogin boolean 1
rolconnlimit integer -1
rolvaliduntil timestamptz -
rolreplication boolean 0
rolbypassrls boolean 0
""",
        "FROM (SELECT 'materialize' AS name UNION SELECT owner FROM items WHERE owner IS NOT NULL) AS i",
    ),
    relation(
        "pg_catalog.pg_description",
        """
objoid oid o.oid
classoid oid 0
objsubid integer coalesce(c.object_sub_id, 0)
description text c.comment
""",
        "FROM mz_comments AS c\nJOIN mz_objects AS o ON o.id = c.id",
    ),
    relation(
        "pg_catalog.pg_settings",
        "name text i.name\nsetting text i.value\nunit text -\ncategory text 'SinkQL'\nshort_desc text -",
        "FROM settings AS i",
    ),
    # Relations that tools read, for features that SinkQL does not have.
    relation(
        "pg_catalog.pg_index",
        "indexrelid oid 0\nindrelid oid 0\nindnatts smallint 0\nindisunique boolean 0\nindisprimary boolean 0\n"
        "indisclustered boolean 0\nindisvalid boolean 0\nindkey text -\nindpred text -\nindexprs text -",
        "WHERE 0",
    ),
    relation(
        "pg_catalog.pg_constraint",
        f"""
oid oid i.number * 100 + k.key
conname text json_extract(k.value, '$.name')
connamespace oid s.oid
contype text json_extract(k.value, '$.type')
conrelid oid {ITEM_OID}
conindid oid 0
confrelid oid 0
conkey text {_POSITIONS}
confkey text -
condeferrable boolean 0
condeferred boolean 0
convalidated boolean 1
confupdtype text -
confdeltype text -
conparentid oid 0
""",
        f"FROM items AS i, json_each(i.details, '$.constraints') AS k\n"
        f"JOIN mz_schemas AS s ON s.id = {SCHEMA_ID}\nWHERE i.kind = 'TABLE'",
    ),
    relation("pg_catalog.pg_inherits", "inhrelid oid 0\ninhparent oid 0\ninhseqno integer 0", "WHERE 0"),
    relation("pg_catalog.pg_enum", "oid oid 0\nenumtypid oid 0\nenumsortorder real 0\nenumlabel text -", "WHERE 0"),
    relation("pg_catalog.pg_collation", "oid oid 0\ncollname text -\ncollnamespace oid 0", "WHERE 0"),
    relation("pg_catalog.pg_am", "oid oid 0\namname text -\namtype text -", "WHERE 0"),
    relation("pg_catalog.pg_proc", "oid oid 0\nproname text -\npronamespace oid 0\nprorettype oid 0", "WHERE 0"),
)
