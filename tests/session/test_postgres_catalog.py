"""Catalog queries as Postgres's tools write them."""

from __future__ import annotations

import pytest

from session.script import PIPELINE
from sinkql.session import Session

_SCHEMAS = """
SELECT n.nspname AS "Name",
  pg_catalog.pg_get_userbyid(n.nspowner) AS "Owner"
FROM pg_catalog.pg_namespace n
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 1;
"""
_RELATIONS = """
SELECT n.nspname as "Schema",
  c.relname as "Name",
  CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' END as "Type",
  pg_catalog.pg_get_userbyid(c.relowner) as "Owner"
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r','p','v','m','S','f','')
      AND n.nspname <> 'pg_catalog'
      AND n.nspname !~ '^pg_toast'
      AND n.nspname <> 'information_schema'
      AND n.nspname NOT LIKE 'mz_%'
  AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1,2;
"""
_FIND = """
SELECT c.oid, n.nspname, c.relname
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname OPERATOR(pg_catalog.~) '^(m)$' COLLATE pg_catalog.default
  AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 2, 3;
"""
_COLUMNS = """
SELECT a.attname,
  pg_catalog.format_type(a.atttypid, a.atttypmod),
  (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true)
   FROM pg_catalog.pg_attrdef d
   WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),
  a.attnotnull
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = '{}' AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;
"""
_TYPES = """
SELECT pg_attribute.attname AS name, pg_type.typname AS type, pg_attribute.attnotnull AS not_null
FROM pg_catalog.pg_class
JOIN pg_catalog.pg_attribute ON pg_class.oid = pg_attribute.attrelid
JOIN pg_catalog.pg_type ON pg_type.oid = pg_attribute.atttypid
WHERE pg_class.relname = 'm'
ORDER BY pg_attribute.attnum
"""
_INFORMATION = """
SELECT column_name, data_type, is_nullable, numeric_precision, numeric_scale
FROM information_schema.columns
WHERE table_schema = 'public' AND table_name = 'm'
ORDER BY ordinal_position
"""


@pytest.fixture
def piped(session: Session) -> Session:
    session.execute(PIPELINE)
    session.execute("CREATE MATERIALIZED VIEW m AS SELECT counter, counter::numeric(12,2) AS price FROM n;")
    return session


def _rows(session: Session, text: str) -> list[tuple[object, ...]]:
    return list(session.execute(text)[-1].rows)


def test_schemas_are_listed_as_psql_does(session: Session) -> None:
    owner = "materialize"
    assert _rows(session, _SCHEMAS) == [("mz_catalog", owner), ("mz_internal", owner), ("public", owner)]


def test_relations_are_listed_as_psql_does(piped: Session) -> None:
    assert _rows(piped, _RELATIONS) == [
        ("public", "m", "materialized view", "materialize"),
        ("public", "n", "table", "materialize"),
    ]


def test_a_relation_is_described_as_psql_does(piped: Session) -> None:
    ((oid, schema, name),) = _rows(piped, _FIND)
    assert (schema, name) == ("public", "m")
    assert _rows(piped, _COLUMNS.format(oid)) == [
        ("counter", "bigint", None, True),
        ("price", "numeric(12,2)", None, True),
    ]


def test_columns_have_types_that_libraries_know(piped: Session) -> None:
    assert _rows(piped, _TYPES) == [("counter", "int8", True), ("price", "numeric", True)]


def test_information_schema_tells_columns(piped: Session) -> None:
    assert _rows(piped, _INFORMATION) == [("counter", "bigint", "NO", None, None), ("price", "numeric", "NO", 12, 2)]
    tables = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
    assert _rows(piped, tables) == [("m", "MATERIALIZED VIEW"), ("n", "BASE TABLE")]


def test_a_client_asks_who_and_where_it_is(session: Session) -> None:
    query = "SELECT current_database(), current_schema(), current_user, version() LIKE 'PostgreSQL %'"
    assert _rows(session, query) == [("materialize", "public", "materialize", True)]
    assert _rows(session, "SELECT datname FROM pg_database") == [("materialize",)]


def test_every_system_relation_has_its_columns_in_the_catalog(session: Session) -> None:
    query = "SELECT r.name FROM mz_relations AS r WHERE NOT EXISTS (SELECT 1 FROM mz_columns AS c WHERE c.id = r.id)"
    assert _rows(session, query) == []


def test_keys_and_defaults_of_tables_are_told(session: Session) -> None:
    session.execute(
        "CREATE TABLE t (a bigint, b text DEFAULT 'none', c bigint UNIQUE, PRIMARY KEY (b, a));"
        "CREATE TABLE plain (a bigint);"
    )
    constraints = "SELECT conname, contype, conkey FROM pg_constraint ORDER BY conname"
    assert _rows(session, constraints) == [("t_c_key", "u", "{3}"), ("t_pkey", "p", "{2,1}")]
    usage = (
        "SELECT c.constraint_type, u.column_name, u.ordinal_position FROM information_schema.table_constraints c"
        " JOIN information_schema.key_column_usage u USING (constraint_name) WHERE c.table_name = 't' ORDER BY 1, 3"
    )
    assert _rows(session, usage) == [("PRIMARY KEY", "b", 1), ("PRIMARY KEY", "a", 2), ("UNIQUE", "c", 1)]
    default = "SELECT column_default FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position"
    assert _rows(session, default) == [(None,), ("'none'",), (None,)]
