"""Forms of queries over a relation `{r}`: a system relation, or the table `plain` with its rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sinkql.session import Session

_COLUMNS = "id, oid, schema_id, name, type, owner_id"
_TABLE = "CREATE TABLE plain (id text, oid bigint, schema_id text, name text, type text, owner_id text); "
_OTHER = "CREATE TABLE o (s text, n int); INSERT INTO o VALUES ('s7', 1), ('s8', 2), ('s8', NULL), (NULL, 3);"
PYTHON = (
    "SELECT name FROM {r} WHERE name LIKE 'mz_s%' EXCEPT ALL SELECT 'mz_sinks'",
    "SELECT schema_id FROM {r} INTERSECT ALL SELECT s FROM o",
    "(SELECT schema_id FROM {r}) UNION (SELECT s FROM o) ORDER BY 1 NULLS FIRST LIMIT 3",
    "SELECT type FROM {r} UNION SELECT s FROM o INTERSECT SELECT 's7'",
    "SELECT schema_id, count(*) FILTER (WHERE name LIKE 'p%') FROM {r} GROUP BY ROLLUP (schema_id)",
    "SELECT schema_id, type, count(*) FROM {r} GROUP BY GROUPING SETS ((schema_id, type), (type), ())",
    "SELECT type, count(DISTINCT (schema_id, owner_id)) FROM {r} GROUP BY type",
    "SELECT stddev(length(name)), var_pop(oid), bool_or(name = 'plain') FROM {r}",
    "SELECT r.name, g FROM {r} r, generate_series(1, 2) g WHERE r.name LIKE 'mz_t%'",
    "SELECT name, generate_series(1, 2) FROM {r} WHERE name LIKE 'mz_t%'",
    "SELECT r.name, x.m FROM {r} r, LATERAL (SELECT max(n) AS m FROM o WHERE o.s = r.schema_id) x",
    "SELECT r.name, o.n FROM {r} r LEFT JOIN o ON o.s = r.schema_id AND o.n < length(r.name)",
    "SELECT name FROM {r} WHERE (schema_id, 1) IN (SELECT s, n FROM o)",
    "SELECT name FROM {r} WHERE schema_id NOT IN (SELECT s FROM o WHERE s IS NOT NULL)",
    "SELECT interval '1 day' * length(name), -oid, upper(name) || type FROM {r}",
    "WITH a AS (SELECT schema_id, max(name) AS m FROM {r} GROUP BY 1) SELECT name, m FROM a NATURAL JOIN {r}",
    "SELECT DISTINCT type, length(type) > 5 FROM {r} ORDER BY 2, 1 OFFSET 1",
    "SELECT a, count(*) FROM (SELECT name, type FROM {r}) AS t (b, a) GROUP BY a HAVING count(*) > 1",
    "SELECT {r}.name FROM {r} WHERE {r}.type = 'table' AND {r}.name LIKE 'mz_c%'",
)
SPARK = (
    "SELECT name, count(*) OVER () FROM {r}",
    "SELECT name, sum(length(name)) OVER (ORDER BY name ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM {r}",
    "SELECT lag(name, 2, 'none') OVER (PARTITION BY type ORDER BY name), first_value(oid) OVER w FROM {r} "
    "WINDOW w AS (ORDER BY name DESC)",
    "SELECT schema_id, rank() OVER (ORDER BY count(*)), ntile(2) OVER (ORDER BY schema_id) FROM {r} GROUP BY 1",
    "SELECT type, array_agg(name ORDER BY name DESC), jsonb_agg(length(name) ORDER BY name) FROM {r} GROUP BY type",
    "SELECT string_agg(name, ',' ORDER BY name) FILTER (WHERE type = 'table') FROM {r}",
    "SELECT DISTINCT ON (schema_id) schema_id, name FROM {r} ORDER BY schema_id, name DESC",
)


def found(session: Session, query: str) -> tuple[tuple[str, ...], Counter[tuple[Any, ...]]]:
    """Return the columns of a query, and the number of times that each row occurs."""
    (result,) = session.execute(query)
    return result.columns, Counter(result.rows)


def fill(session: Session) -> None:
    """Create a table with the rows of a system relation."""
    session.execute(_TABLE + _OTHER)
    rows = session.execute(f"SELECT {_COLUMNS} FROM mz_relations")[0].rows
    assert len(rows) > 50
    session.execute(f"INSERT INTO plain VALUES {', '.join(map(_literals, rows))}")


def _literals(row: tuple[Any, ...]) -> str:
    return f"({', '.join(str(each) if isinstance(each, int) else repr(each) for each in row)})"
