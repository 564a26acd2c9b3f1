"""Keys of groups: the columns that determine the rest, even after a join has multiplied the rows."""

from __future__ import annotations

import pytest

from expressions import vectors
from sinkql.connector_api.types import parse_type
from sinkql.logical import Column, Shape


def _shape(key: str, **types: str) -> Shape:
    columns = tuple(Column(name, parse_type(type_.replace("_", " ")), name != key) for name, type_ in types.items())
    return Shape(columns, (frozenset({key}),) if key else ())


_TABLES = vectors.Tables({
    "materialize.public.c": _shape("id", id="bigint", name="text", city="text", x="double_precision"),
    "materialize.public.o": _shape("oid", oid="bigint", c_id="bigint", amount="bigint", at="date"),
    "materialize.public.loose": _shape("", k="bigint", v="text"),
})  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT c.id, c.name, sum(o.amount) FROM c JOIN o ON o.c_id = c.id GROUP BY c.id, c.name", ["id"]),
        ("SELECT c.id, upper(c.name), count(*) FROM c JOIN o ON o.c_id = c.id GROUP BY c.id, upper(c.name)", ["id"]),
        ("SELECT o.c_id, c.name, count(*) FROM o JOIN c ON o.c_id = c.id GROUP BY o.c_id, c.name", ["c_id"]),
        ("SELECT o.c_id, c.name, count(*) FROM o LEFT JOIN c ON o.c_id = c.id GROUP BY o.c_id, c.name", ["c_id"]),
        ("SELECT c.id, c.name, o.at, count(*) FROM c JOIN o ON o.c_id = c.id GROUP BY 1, 2, 3", ["id at"]),
        ("SELECT DISTINCT c.id, c.city FROM c LEFT JOIN o ON o.c_id = c.id", ["id"]),
        ("SELECT c.id, c.name, count(*) FROM o LEFT JOIN c ON o.c_id = c.id GROUP BY c.id, c.name", ["id"]),
        ("SELECT id, name, count(*) FROM (SELECT c.id, c.name FROM c, o) AS r GROUP BY id, name", ["id"]),
        ("SELECT c.id, o.c_id, count(*) AS n FROM c, o WHERE c.id = o.c_id GROUP BY 1, 2", ["id", "c_id"]),
        ("SELECT at, c_id, count(*) FROM o WHERE at = date '2024-01-01' GROUP BY at, c_id", ["c_id"]),
        ("SELECT c.id, c.name, string_agg(o.oid::text, ',') FROM c, o GROUP BY c.id, c.name", ["id"]),
        # no dependency is known
        ("SELECT c.city, c.name, count(*) FROM c JOIN o ON o.c_id = c.id GROUP BY c.city, c.name", ["city name"]),
        ("SELECT k, v, count(*) FROM loose GROUP BY k, v", ["k v"]),
        # a matching row of NULLs differs from a missing match
        ("SELECT l.k, l.v, count(*) FROM o LEFT JOIN (SELECT k, min(v) AS v FROM loose GROUP BY k) AS l ON c_id < l.k "
         "GROUP BY l.k, l.v", ["k v"]),
        # the condition on the order decides whether the name is NULL
        ("SELECT o.c_id, c.name, count(*) FROM o LEFT JOIN c ON o.c_id = c.id AND o.amount > 5 GROUP BY o.c_id, c.name",
         ["c_id name"]),
        # 0.0 equals -0.0, but an expression may distinguish them
        ("SELECT x, x * 2 AS y, count(*) FROM c GROUP BY x, x * 2", ["x y"]),
    ],
)  # fmt: skip
def test_keys_of_groups(sql: str, keys: list[str]) -> None:
    found = vectors.query(sql, _TABLES).relation.shape.keys
    assert set(found) == {frozenset(each.split()) for each in keys}


def test_a_column_that_is_a_constant_is_part_of_no_key() -> None:
    shape = vectors.query("SELECT * FROM o WHERE oid = 7", _TABLES).relation.shape
    assert shape.keys == (frozenset(),)
