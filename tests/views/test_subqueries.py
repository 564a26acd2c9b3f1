"""Subqueries agree with DuckDB in every place, with each kind of reference to outer rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.testing import loads
from views.harness import Change, Relation, View, Views

_RELATIONS = (
    Relation("a", {"id": "bigint NOT NULL", "g": "int", "x": "int"}),
    Relation("b", {"id": "bigint NOT NULL", "g": "int", "y": "int"}),
    Relation("c", {"id": "bigint NOT NULL", "g": "int", "z": "int NOT NULL"}),
)
_SQL = {
    "exists": "SELECT id, x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g)",
    "not_exists": "SELECT id, x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.y > 1)",
    "exists_unequal": "SELECT id, x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.y <> a.x)",
    "not_exists_less": "SELECT id, g FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y < a.x)",
    "exists_of_all": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE y > 2)",
    "not_exists_of_all": "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE y > 2)",
    "exists_aggregate": "SELECT id FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.g = a.g)",
    "exists_having": "SELECT id FROM a WHERE EXISTS (SELECT b.y FROM b WHERE b.g = a.g GROUP BY b.y HAVING "
    "count(*) > 1)",
    "exists_having_whole": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g HAVING count(*) = 0)",
    "in_": "SELECT id, x FROM a WHERE x IN (SELECT y FROM b)",
    "in_of_group": "SELECT id, x FROM a WHERE x IN (SELECT y FROM b WHERE b.g = a.g)",
    "not_in": "SELECT id, x FROM a WHERE x NOT IN (SELECT y FROM b)",
    "not_in_filtered": "SELECT id, x FROM a WHERE x NOT IN (SELECT y FROM b WHERE y IS NOT NULL AND g = 1)",
    "not_in_of_group": "SELECT id, x FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.g = a.g)",
    "not_in_sure": "SELECT id FROM a WHERE id NOT IN (SELECT z FROM c)",
    "not_in_less": "SELECT id, x FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.g < a.g)",
    "in_or": "SELECT id, x FROM a WHERE x IN (SELECT y FROM b) OR g = 1",
    "in_value": "SELECT id, x IN (SELECT y FROM b) AS r, x NOT IN (SELECT y FROM b WHERE b.g = a.g) AS s FROM a",
    "exists_value": "SELECT id, EXISTS (SELECT 1 FROM b WHERE b.g = a.g) AS r, NOT EXISTS (SELECT 1 FROM c) AS "
    "s FROM a",
    "exists_case": "SELECT CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.y > a.x) THEN x ELSE g END AS r FROM a",
    "rows_in": "SELECT id FROM a WHERE (g, x) IN (SELECT g, y FROM b)",
    "rows_not_in": "SELECT id FROM a WHERE (g, x) NOT IN (SELECT g, y FROM b WHERE y <> 1)",
    "rows_value": "SELECT id, (g, x) IN (SELECT g, y FROM b) AS r FROM a",
    "less_any": "SELECT id, x < ANY (SELECT y FROM b) AS r, x >= ANY (SELECT y FROM b WHERE b.g = a.g) AS s FROM a",
    "less_all": "SELECT id, x < ALL (SELECT y FROM b) AS r, x >= ALL (SELECT y FROM b WHERE b.g = a.g) AS s FROM a",
    "equal_any": "SELECT id, x = ANY (SELECT y FROM b) AS r, x <> ALL (SELECT y FROM b WHERE b.g = a.g) AS s FROM a",
    "equal_all": "SELECT id, x = ALL (SELECT y FROM b) AS r, x <> ANY (SELECT y FROM b WHERE b.g = a.g) AS s FROM a",
    "all_where": "SELECT id FROM a WHERE x >= ALL (SELECT y FROM b WHERE b.g = a.g)",
    "scalar": "SELECT id, (SELECT max(y) FROM b) AS m FROM a",
    "scalar_of_group": "SELECT id, (SELECT max(y) FROM b WHERE b.g = a.g) AS m FROM a",
    "count_bug": "SELECT id, (SELECT count(*) FROM b WHERE b.g = a.g) AS m FROM a",
    "count_where": "SELECT id FROM a WHERE x > (SELECT count(*) FROM b WHERE b.g = a.g)",
    "count_less": "SELECT id, (SELECT count(y) + 1 FROM b WHERE b.y < a.x) AS m FROM a",
    "sum_outer": "SELECT id, (SELECT sum(b.y + a.x) FROM b WHERE b.g = a.g) AS m FROM a",
    "having_inside": "SELECT id, (SELECT count(*) FROM b WHERE b.g = a.g HAVING count(*) > 1) AS m FROM a",
    "having_few": "SELECT id, (SELECT count(*) FROM b WHERE b.g = a.g HAVING count(*) < 2) AS m FROM a",
    "count_of_group": "SELECT id, (SELECT count(*) FROM b WHERE b.g = a.g GROUP BY b.g) AS m FROM a",
    "max_of_same": "SELECT id, (SELECT max(y) FROM b WHERE b.g IS NOT DISTINCT FROM a.g) AS m FROM a",
    "of_join": "SELECT id, (SELECT max(c.z) FROM b JOIN c ON b.g = c.g WHERE b.id = a.id) AS m FROM a",
    "of_left_join": "SELECT id, (SELECT count(c.z) FROM b LEFT JOIN c ON b.y = c.z AND c.g > 0 WHERE b.g = "
    "a.g) AS m FROM a",
    "of_union": "SELECT id, (SELECT count(*) FROM (SELECT g FROM b WHERE b.g = a.g UNION ALL SELECT g FROM "
    "c WHERE c.z = a.x) u) AS m FROM a",
    "distinct_inside": "SELECT id, (SELECT count(*) FROM (SELECT DISTINCT y FROM b WHERE b.g = a.g) u) AS m FROM a",
    "nested": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND EXISTS (SELECT 1 FROM "
    "c WHERE c.z = b.y))",
    "nested_over_two": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND EXISTS (SELECT 1 FROM "
    "c WHERE c.z = b.y AND c.g = a.x))",
    "nested_count": "SELECT id, (SELECT count(*) FROM b WHERE b.g = a.g AND b.y > (SELECT count(*) FROM c "
    "WHERE c.g = a.g)) AS m FROM a",
    "nested_not_in": "SELECT id FROM a WHERE x IN (SELECT y FROM b WHERE b.g NOT IN (SELECT z FROM c WHERE c.g = a.g))",
    "grouped": "SELECT g, count(*) AS n FROM a GROUP BY g HAVING count(*) >= (SELECT count(*) FROM b WHERE b.g = a.g)",
    "having_exists": "SELECT g, sum(x) AS n FROM a GROUP BY g HAVING EXISTS (SELECT 1 FROM b WHERE b.g = a.g)",
    "grouped_value": "SELECT g, (SELECT max(y) FROM b WHERE b.g = a.g) AS m, count(*) AS n FROM a GROUP BY g",
    "group_by": "SELECT (SELECT max(y) FROM b WHERE b.g = a.g) AS m, count(*) AS n FROM a GROUP BY 1",
    "group_by_again": "SELECT 1 + (SELECT max(y) FROM b WHERE b.g = a.g) AS m, count(*) AS n FROM a "
    "GROUP BY 1 + (SELECT max(y) FROM b WHERE b.g = a.g)",
    "one_text_of_several": "SELECT id, x < ANY (SELECT y FROM b) AS r, x > ALL (SELECT y FROM b) AS s, x IN (SELECT y "
    "FROM b) AS t, EXISTS (SELECT y FROM b) AS u FROM a WHERE x <= ANY (SELECT y FROM b) OR EXISTS (SELECT y FROM b)",
    "distinct_on_again": "SELECT DISTINCT ON ((SELECT min(y) FROM b WHERE b.g = a.g)) id FROM a "
    "ORDER BY (SELECT min(y) FROM b WHERE b.g = a.g), id DESC",
    "in_aggregate": "SELECT g, sum((SELECT max(y) FROM b WHERE b.g = a.x)) AS m FROM a GROUP BY g",
    "over_join": "SELECT a.id, c.z FROM a JOIN c ON a.g = c.g WHERE a.x > (SELECT min(y) FROM b WHERE b.g = c.z)",
    "two": "SELECT id FROM a WHERE x IN (SELECT y FROM b) AND EXISTS (SELECT 1 FROM c WHERE c.g = a.g) AND g > 0",
    "self": "SELECT id, x FROM a WHERE x = (SELECT max(x) FROM a AS i WHERE i.g = a.g)",
    "without_from": "SELECT id, (SELECT a.x + 1) AS m FROM a",
    "not_in_of_nulls": "SELECT id FROM a WHERE id NOT IN (SELECT y FROM b)",
    "not_in_of_null": "SELECT id, x FROM a WHERE x NOT IN (SELECT z FROM c)",
    "in_value_of_nulls": "SELECT id, id IN (SELECT y FROM b) AS r, x IN (SELECT z FROM c) AS s FROM a",
    "all_unequal": "SELECT id, x FROM a WHERE x <> ALL (SELECT y FROM b WHERE b.g = a.g)",
    "of_left_join_on_outer": "SELECT id, (SELECT count(c.z) FROM b LEFT JOIN c ON b.y = c.z AND c.g = a.g WHERE b.g = "
    "a.g) AS m FROM a",
    "of_join_of_both": "SELECT id, (SELECT count(*) FROM b JOIN (SELECT * FROM c WHERE c.g = a.x) q ON b.y = q.z "
    "WHERE b.g = a.g) AS m FROM a",
    "filtered_twice": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM (SELECT * FROM b WHERE b.g = a.g) q "
    "WHERE q.y > a.x)",
    "empty_or_null": "SELECT id, (SELECT CASE WHEN count(*) = 0 THEN 7 ELSE max(y) END FROM b WHERE b.g = a.g) AS m "
    "FROM a",
    "beyond": "SELECT id, x FROM a WHERE x > (SELECT max(y) - 2 FROM b)",
    "beyond_or_at": "SELECT id FROM a WHERE (SELECT avg(y) FROM b) <= x AND g > 0",
    "beyond_computed": "SELECT g, x FROM a WHERE g + x < coalesce((SELECT min(y) + 1 FROM b WHERE g = 1), 3)",
    "unsure": "SELECT id FROM a WHERE x > (SELECT max(y) FROM b WHERE g > 0) - 1",
    "beyond_one_of_a_key": "SELECT id FROM a WHERE x >= (SELECT max(z) FROM c WHERE id = 1)",
    "between": "SELECT id, x FROM a WHERE x BETWEEN (SELECT min(y) FROM b) AND (SELECT max(y) FROM b)",
    "between_one": "SELECT id, x FROM a WHERE x BETWEEN 1 AND (SELECT max(y) FROM b WHERE g = 1)",
    "between_same": "SELECT id FROM a WHERE x BETWEEN (SELECT max(y) FROM b) AND (SELECT max(y) FROM b)",
    "beyond_twice": "SELECT id, (SELECT max(y) FROM b) AS m FROM a WHERE x >= (SELECT max(y) FROM b) AND g < "
    "(SELECT max(y) FROM b)",
    "having_same": "SELECT g, (SELECT max(y) FROM b) AS m FROM a GROUP BY g HAVING min(x) > (SELECT max(y) FROM b)",
    "beyond_in_having": "SELECT g, sum(x) AS n FROM a GROUP BY g HAVING sum(x) > (SELECT sum(x) * 0.3 FROM a)",
    "beyond_over_join": "SELECT a.id, c.z FROM a JOIN c ON a.g = c.g WHERE a.x + c.z <= (SELECT max(y) FROM b)",
    "beyond_and_counted": "SELECT count(*) AS n, sum(x) AS s FROM a WHERE x > (SELECT min(y) FROM b)",
    "beyond_first": "SELECT id FROM a WHERE x > (SELECT y FROM b ORDER BY y DESC NULLS LAST, id LIMIT 1)",
    "not_beyond": "SELECT id FROM a WHERE NOT x > (SELECT max(y) FROM b)",
    "nested_beyond": "SELECT id FROM a WHERE x IN (SELECT y FROM b WHERE y > (SELECT min(z) FROM c))",
    "duplicates": "SELECT g, x FROM a WHERE x IN (SELECT y FROM b WHERE b.g <= a.g)",
    "on": "SELECT a.id, c.z FROM a JOIN c ON a.g = c.g AND (SELECT max(y) FROM b WHERE b.g = a.x) > c.z",
    "on_exists": "SELECT a.id, c.z FROM a JOIN c ON a.g = c.g AND EXISTS (SELECT 1 FROM b WHERE b.g = a.x AND y = z) "
    "LEFT JOIN b ON b.g = c.g",
    "on_not_in": "SELECT a.id, c.z FROM a JOIN c ON a.g = c.g AND a.x NOT IN (SELECT y FROM b WHERE b.g = c.g)",
    "on_same_name": "SELECT a.id, d.z FROM a, b JOIN c AS d ON b.g = d.g AND d.z > (SELECT min(x) FROM a WHERE a.g = "
    "d.g) WHERE a.id = b.id",
    "on_function": "SELECT a.id, s FROM a JOIN generate_series(0, 2) AS t (s) ON s < (SELECT max(y) FROM b "
    "WHERE b.g = s)",
    "left_of_left": "SELECT a.id, c.z FROM a LEFT JOIN c ON a.g = c.g AND a.x IN (SELECT y FROM b WHERE b.g = a.g)",
    "left_of_right": "SELECT a.id, c.z FROM a LEFT JOIN c ON a.g = c.g AND c.z > (SELECT min(y) FROM b "
    "WHERE b.g = c.g)",
    "left_of_none": "SELECT a.id, c.z FROM a LEFT JOIN c ON a.g = c.g AND c.z > (SELECT avg(y) FROM b)",
    "left_of_both": "SELECT a.id, c.z FROM a LEFT JOIN c ON a.g = c.g AND (SELECT max(y) FROM b WHERE b.g = a.x) > c.z",
    "left_of_pairs": "SELECT a.id, c.z FROM a LEFT JOIN c ON a.g = c.g AND a.x NOT IN (SELECT y FROM b "
    "WHERE b.g = c.z)",
    "left_of_pairs_alone": "SELECT a.id, c.id AS other FROM a LEFT JOIN c ON EXISTS (SELECT 1 FROM b WHERE b.y < a.x "
    "AND b.g = c.z) AND c.g > 0",
    "left_of_lateral": "SELECT a.id, d.z FROM a LEFT JOIN LATERAL (SELECT z FROM c WHERE c.g = a.g) AS d "
    "ON EXISTS (SELECT 1 FROM b WHERE b.y = d.z AND b.g = a.x)",
    "right_of_pairs": "SELECT a.id, c.z FROM a RIGHT JOIN c ON a.g = c.g AND a.x >= ALL (SELECT y FROM b "
    "WHERE y > c.z)",
    "full_of_sides": "SELECT a.id, c.z FROM a FULL JOIN c ON a.g = c.g AND a.x IN (SELECT y FROM b) AND c.z > (SELECT "
    "min(y) FROM b WHERE b.g = c.g)",
    "values_": "SELECT x, t FROM (VALUES ((SELECT max(y) FROM b), 1), ((SELECT count(*) FROM c)::int, NULL)) "
    "AS v (x, t)",
    "values_lateral": "SELECT a.id, v.x FROM a, LATERAL (VALUES (a.g), ((SELECT max(y) FROM b WHERE b.g = "
    "a.x))) AS v (x)",
    "in_aggregate_filter": "SELECT g, count(*) FILTER (WHERE x IN (SELECT y FROM b)) AS n FROM a GROUP BY g",
    "in_order": "SELECT id, row_number() OVER (PARTITION BY g ORDER BY (SELECT count(*) FROM b WHERE b.g = a.x), "
    "id, x) AS n FROM a",
}
_BOUNDS = ("beyond", "between")  # prefixes of the names of views that compare with a threshold
_EQUAL = "SELECT 1 FROM b WHERE b.g = a.g AND b.y = a.x"
_PERHAPS = (
    "SELECT 1 FROM b WHERE (b.g = a.g OR b.g IS NULL OR a.g IS NULL) AND (b.y = a.x OR b.y IS NULL OR a.x IS NULL)"
)
_ASKED = {  # DuckDB treats NULL in a row as a value, and has no outer joins on outer columns
    "of_left_join_on_outer": "SELECT id, (SELECT count(*) FROM b JOIN c ON b.y = c.z AND c.g = a.g WHERE b.g = a.g) "
    "AS m FROM a",
    "rows_in": f"SELECT id FROM a WHERE EXISTS ({_EQUAL})",
    "rows_not_in": f"SELECT id FROM a WHERE NOT EXISTS ({_PERHAPS} AND b.y <> 1)",
    "rows_value": f"SELECT id, CASE WHEN EXISTS ({_EQUAL}) THEN true WHEN EXISTS ({_PERHAPS}) THEN NULL ELSE "
    f"false END FROM a",
    # DuckDB has no subqueries in ON of outer joins
    **{
        name: _SQL[name].replace("c ON", "LATERAL (SELECT * FROM c WHERE") + ") AS c ON true"
        for name in _SQL
        if name.startswith("left_of") and "LATERAL" not in _SQL[name]
    },
    "left_of_lateral": "SELECT a.id, d.z FROM a LEFT JOIN LATERAL (SELECT z FROM c WHERE c.g = a.g "
    "AND EXISTS (SELECT 1 FROM b WHERE b.y = c.z AND b.g = a.x)) AS d ON true",
    "right_of_pairs": "SELECT a.id, c.z FROM c LEFT JOIN LATERAL (SELECT * FROM a WHERE a.g = c.g AND a.x >= ALL "
    "(SELECT y FROM b WHERE y > c.z)) AS a ON true",
    "full_of_sides": "SELECT a.id, c.z FROM (SELECT *, x IN (SELECT y FROM b) AS r FROM a) AS a FULL JOIN (SELECT *, "
    "z > (SELECT min(y) FROM b WHERE b.g = c.g) AS s FROM c) AS c ON a.g = c.g AND r AND s",
}
_PARTS = {
    place: {name: View(sql, _ASKED.get(name)) for name, sql in list(_SQL.items())[place::8]} for place in range(8)
}


def _row(random_: random.Random, name: str) -> tuple[Any, ...]:
    value = random_.choice([0, 1, 2, 3] if name == "c" else [None, 0, 1, 2, 3])
    return random_.randrange(4), random_.choice([None, 0, 1, 2]), value


def _changes(views: Views, random_: random.Random, batch: int) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for name in ("a", "b", "c"):
        there = sorted(views.content.rows[name].elements(), key=repr)
        gone = random_.sample(there, min(len(there), random_.randrange(len(there) + 1 if batch == 3 else 4)))
        come = [_row(random_, name) for _ in range(random_.randrange(4))]
        if batch == 1 and name != "a":  # b and c are empty at first
            come = []
        found[name] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
    return found


@pytest.mark.share(8)
@pytest.mark.parametrize("part", _PARTS)
def test_subqueries_are_what_their_sql_gives(tmp_path: Path, part: int) -> None:
    views, random_ = Views(tmp_path, _RELATIONS, _PARTS[part]), random.Random(f"subqueries{part}")
    for name in _PARTS[part]:
        bounds = [each for each in views.operators(name) if isinstance(each, physical.Join) and each.compared]
        assert bool(bounds) == name.startswith(_BOUNDS), name
    for batch in range(1, 6):
        views.batch(_changes(views, random_, batch))
    views.close()


def test_a_second_row_of_a_value_is_an_error_of_the_row_until_it_is_gone() -> None:
    pipeline = loads(
        "CREATE TABLE a (id bigint PRIMARY KEY); CREATE TABLE b (id bigint, g bigint, y bigint, PRIMARY KEY (id, g));"
        "CREATE MATERIALIZED VIEW v AS SELECT id, (SELECT y FROM b WHERE b.g = a.id) AS m FROM a;"
    )
    pipeline.insert("a", [{"id": 1}, {"id": 2}])
    pipeline.insert("b", [{"id": 1, "g": 1, "y": 7}])
    assert sorted(pipeline.rows("v"), key=lambda row: row["id"]) == [{"id": 1, "m": 7}, {"id": 2, "m": None}]
    pipeline.insert("b", [{"id": 2, "g": 1, "y": None}])
    with pytest.raises(SinkqlError) as caught:
        pipeline.rows("v")
    assert caught.value.code == "SQ3212"
