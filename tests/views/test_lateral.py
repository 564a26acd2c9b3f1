"""LATERAL queries agree with DuckDB, with each kind of join and each reference to the rows on their left."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from views.harness import Change, Relation, View, Views

_RELATIONS = (
    Relation("a", {"id": "bigint NOT NULL", "g": "int", "x": "int"}),
    Relation("b", {"id": "bigint NOT NULL", "g": "int", "y": "int"}),
    Relation("c", {"id": "bigint NOT NULL", "g": "int", "z": "int NOT NULL"}),
)
_LAST = "ORDER BY b.y DESC NULLS LAST, b.id"
_SQL = {
    "comma": "SELECT a.id, u.y FROM a, LATERAL (SELECT y FROM b WHERE b.g = a.g) u",
    "cross": "SELECT a.id, u.* FROM a CROSS JOIN LATERAL (SELECT id AS i, y FROM b WHERE b.y < a.x) u",
    "on": "SELECT a.id, u.y FROM a JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g) u ON u.y > a.x",
    "left_on": "SELECT a.id, u.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g) u ON u.y > a.x",
    "left_outer_alone": "SELECT a.id, u.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE a.x > 1) u ON true",
    "using": "SELECT g, a.id, u.y FROM a LEFT JOIN LATERAL (SELECT g, y FROM b WHERE b.y <= a.x) u USING (g)",
    "select_list": "SELECT a.id, u.s FROM a, LATERAL (SELECT a.x + b.y AS s FROM b WHERE b.g = a.g) u",
    "no_from": "SELECT a.id, u.s, w.t FROM a, LATERAL (SELECT x + g AS s) u, LATERAL (SELECT u.s * 2 AS t) w",
    "count": "SELECT a.id, u.n, u.s FROM a, LATERAL (SELECT count(*) AS n, sum(y) AS s FROM b WHERE b.g = a.g) u",
    "count_less": "SELECT a.id, u.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.y < a.x) u ON true",
    "count_less_or": "SELECT a.id, u.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.y < a.x OR a.x IS NULL) u",
    "count_on": "SELECT a.id, u.n FROM a JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g) u ON u.n = 0",
    "count_left_on": "SELECT a.id, u.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g) u "
    "ON u.n <> 1",
    "sum_outer": "SELECT a.id, u.s FROM a, LATERAL (SELECT sum(b.y + a.x) AS s FROM b WHERE b.g = a.g) u",
    "grouped": "SELECT a.id, u.y, u.n FROM a, LATERAL (SELECT y, count(*) AS n FROM b WHERE b.g = a.g GROUP BY y) u",
    "grouped_less": "SELECT id, u.* FROM a, LATERAL (SELECT g AS h, count(*) FROM b WHERE b.y < a.x GROUP BY g) u",
    "having": "SELECT a.id, u.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g HAVING count(*) > 1) u",
    "distinct": "SELECT a.id, u.y FROM a, LATERAL (SELECT DISTINCT y FROM b WHERE b.g = a.g) u",
    "last": f"SELECT a.id, a.x, u.y FROM a, LATERAL (SELECT y FROM b WHERE b.g = a.g {_LAST} LIMIT 1) u",
    "left_last": "SELECT a.id, a.x, u.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g AND b.y <= a.x "
    f"{_LAST} LIMIT 1) u ON true",
    "left_last_on": "SELECT a.id, a.x, u.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g "
    f"{_LAST} LIMIT 1) u ON u.y > a.x",
    "left_two": "SELECT a.id, u.i, u.y FROM a LEFT JOIN LATERAL (SELECT id AS i, y FROM b WHERE b.y <= a.x "
    f"{_LAST}, b.g LIMIT 2) u ON true",
    "offset": f"SELECT a.id, u.y FROM a, LATERAL (SELECT y FROM b WHERE b.g = a.g {_LAST} LIMIT 1 OFFSET 1) u",
    "order_outer": "SELECT a.id, u.y FROM a, LATERAL (SELECT y FROM b ORDER BY abs(b.y - a.x), b.y LIMIT 1) u",
    "window": "SELECT a.id, u.y, u.n FROM a, LATERAL (SELECT y, count(*) OVER (PARTITION BY y) AS n FROM b "
    "WHERE b.g <= a.g) u",
    "union": "SELECT a.id, u.v FROM a, LATERAL (SELECT y AS v FROM b WHERE b.g = a.g UNION ALL SELECT a.x) u",
    "full_join": "SELECT a.id, u.y, u.z FROM a, LATERAL (SELECT l.y, r.z FROM (SELECT * FROM b WHERE b.g = a.g) l "
    "FULL JOIN (SELECT * FROM c WHERE c.g <= a.g) r ON l.y = r.z) u",
    "full_join_of_one": "SELECT a.id, u.y, u.z FROM a, LATERAL (SELECT l.y, c.z FROM "
    "(SELECT * FROM b WHERE b.g = a.g) l FULL JOIN c ON l.y = c.z) u",
    "left_join_inside": "SELECT a.id, u.y, u.z FROM a, LATERAL (SELECT b.y, c.z FROM b LEFT JOIN c ON c.z = b.y "
    "AND c.g = a.g WHERE b.g = a.x) u",
    "of_first_of_comma": "SELECT a.id, u.y FROM a, c JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g) u ON u.y = c.z",
    "over_join": "SELECT a.id, c.id AS i, u.n FROM a JOIN c ON a.g = c.g CROSS JOIN LATERAL "
    "(SELECT count(*) AS n FROM b WHERE b.y BETWEEN a.x AND c.z) u",
    "two": f"SELECT a.id, u.y, w.z FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g {_LAST} LIMIT 1) u "
    "ON true LEFT JOIN LATERAL (SELECT z FROM c WHERE c.z >= u.y ORDER BY z LIMIT 1) w ON true",
    "nested": "SELECT a.id, u.y, u.z FROM a, LATERAL (SELECT b.y, w.z FROM b, LATERAL (SELECT z FROM c "
    "WHERE c.g = a.g AND c.z <= b.y ORDER BY z DESC LIMIT 1) w WHERE b.g = a.x) u",
    "exists_inside": "SELECT a.id, u.y FROM a, LATERAL (SELECT y FROM b WHERE b.g = a.g AND EXISTS "
    "(SELECT 1 FROM c WHERE c.z = b.y AND c.g = a.g)) u",
    "in_subquery": "SELECT id, (SELECT sum(u.z) FROM b, LATERAL (SELECT z FROM c WHERE c.g = a.g AND c.z = b.y) u "
    "WHERE b.g = a.g) AS m FROM a",
    "scalar": f"SELECT id, (SELECT y FROM b WHERE b.g = a.g {_LAST} LIMIT 1) AS m FROM a",
    "scalar_less": f"SELECT id, x, (SELECT y FROM b WHERE b.g = a.g AND b.y <= a.x {_LAST} LIMIT 1) AS m FROM a",
    "scalar_where": f"SELECT id FROM a WHERE x >= (SELECT y FROM b WHERE b.g = a.g {_LAST} LIMIT 1)",
    "in_first": f"SELECT id FROM a WHERE x IN (SELECT y FROM b WHERE b.g = a.g {_LAST} LIMIT 2)",
    "apart": "SELECT a.id, u.y FROM a, LATERAL (SELECT y FROM b WHERE y > 1) u",
    "alone": "SELECT u.y FROM LATERAL (SELECT y FROM b WHERE y > 1) u",
}
_ASKED = {
    "alone": "SELECT y FROM b WHERE y > 1",
    "left_join_inside": "SELECT a.id, b.y, c.z FROM a JOIN b ON b.g = a.x LEFT JOIN c ON c.z = b.y AND c.g = a.g",
    "full_join_of_one": "SELECT a.id, b.y, c.z FROM a JOIN b ON b.g = a.g LEFT JOIN c ON c.z = b.y UNION ALL "
    "SELECT a.id, NULL, c.z FROM a, c WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.y = c.z)",
    "full_join": "SELECT a.id, b.y, c.z FROM a JOIN b ON b.g = a.g LEFT JOIN c ON c.g <= a.g AND c.z = b.y UNION ALL "
    "SELECT a.id, NULL, c.z FROM a JOIN c ON c.g <= a.g WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g "
    "AND b.y = c.z)",  # DuckDB does not support this within LATERAL
}
_PARTS = {
    place: {f"lateral_{name}": View(sql, _ASKED.get(name)) for name, sql in list(_SQL.items())[place::3]}
    for place in range(3)
}


def _row(random_: random.Random, name: str) -> tuple[Any, ...]:
    value = random_.choice([0, 1, 2, 3] if name == "c" else [None, 0, 1, 2, 3])
    return random_.randrange(6), random_.choice([None, 0, 1, 2]), value


def _changes(views: Views, random_: random.Random, batch: int) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for name in ("a", "b", "c"):
        there = sorted(views.content.rows[name].elements(), key=repr)
        gone = random_.sample(there, min(len(there), random_.randrange(len(there) + 1 if batch == 3 else 4)))
        come = [] if batch == 1 and name != "a" else [_row(random_, name) for _ in range(random_.randrange(1, 5))]
        found[name] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
    return found


@pytest.mark.share(2)
@pytest.mark.parametrize("part", _PARTS)
def test_lateral_queries_are_what_their_sql_gives(tmp_path: Path, part: int) -> None:
    views, random_ = Views(tmp_path, _RELATIONS, _PARTS[part]), random.Random(f"lateral{part}")
    for batch in range(1, 6):
        views.batch(_changes(views, random_, batch))
    views.close()
