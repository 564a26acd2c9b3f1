"""Views over several relations agree with DuckDB after every batch: each form of join, keys, NULLs and edge cases."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sinkql import physical
from views.harness import Change, Relation, View, Views

_RELATIONS = (
    Relation("t", {"id": "bigint NOT NULL", "g": "int", "n": "numeric(10,2)", "name": "text"}),
    Relation("s", {"id": "bigint", "x": "int", "name": "text"}, kind="append"),
    Relation("r", {"id": "bigint", "y": "int"}, kind="append"),
    Relation("u", {"id": "bigint NOT NULL", "x": "int", "name": "text"}, ("id",), "upsert"),
    Relation("k", {"id": "bigint NOT NULL", "line": "int NOT NULL", "v": "int"}, ("id", "line"), "upsert"),
)
_INNER = {
    "equality": "SELECT t.id, t.g, u.x, u.name FROM t JOIN u ON t.id = u.id",
    "by_comma": "SELECT t.id AS i, u.x, s.name FROM t, u, s WHERE t.id = u.id AND u.x = s.x AND t.n > 2",
    "appended": "SELECT s.id, s.x, r.y FROM s JOIN r ON s.id = r.id AND s.x < r.y",
    "expressions": "SELECT t.id AS a, u.id AS b FROM t JOIN u ON t.g + 1 = u.x AND lower(t.name) = u.name",
    "numbers": "SELECT t.id, u.id AS other FROM t JOIN u ON t.n = u.x",
    "itself": "SELECT a.id AS one, b.id AS other FROM u a JOIN u b ON a.x = b.id",
    "safe": "SELECT t.id, u.id AS other FROM t JOIN u ON t.name IS NOT DISTINCT FROM u.name AND t.g = u.x",
    "factored": "SELECT t.id, u.id AS v FROM t, u WHERE (t.id = u.id AND t.g = 1) OR (t.id = u.id AND u.x > 1)",
    "with_using": "SELECT * FROM t JOIN u USING (id, name)",
    "natural": "SELECT * FROM u NATURAL JOIN k",
    "four": "SELECT t.id AS a, u.x, k.v, s.name FROM s, k, t, u WHERE t.id = u.id AND k.id = u.id AND s.id = k.line",
}
_OUTER = {
    "to_left": "SELECT t.id AS a, t.g, u.id AS b, u.x FROM t LEFT JOIN u ON t.g = u.id",
    "to_right": "SELECT t.id AS a, u.id AS b, u.x FROM t RIGHT JOIN u ON t.g = u.id",
    "both": "SELECT t.id AS a, t.g, u.id AS b, u.x FROM t FULL JOIN u ON t.g = u.x",
    "keyed": "SELECT u.id, u.x, k.line, k.v FROM u LEFT JOIN k ON k.id = u.id AND k.line = u.x",
    "of_left": "SELECT t.id AS a, t.g, u.id AS b FROM t LEFT JOIN u ON t.g = u.id AND t.n > 2",
    "of_right": "SELECT t.id AS a, t.g, u.id AS b FROM t LEFT JOIN u ON t.g = u.id AND u.x > 1",
    "of_both_full": "SELECT t.id AS a, u.id AS b FROM t FULL JOIN u ON t.g = u.x AND t.n > 2 AND u.name = 'a'",
    "where_right": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE u.x = 1",
    "where_null": "SELECT t.id AS a, t.g FROM t LEFT JOIN u ON t.g = u.id WHERE u.id IS NULL",
    "where_left_of_full": "SELECT t.id AS a, u.id AS b FROM t FULL JOIN u ON t.g = u.id WHERE t.n > 2",
    "where_right_of_full": "SELECT t.id AS a, u.id AS b FROM t FULL JOIN u ON t.g = u.id WHERE u.x > 1",
    "where_or": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE u.x > 1 OR t.g IS NULL",
    "full_using": "SELECT id, u.name, k.v FROM u FULL JOIN k USING (id)",
    "full_of_counts": "SELECT id, a.c AS x, b.c AS y FROM (SELECT id, count(*) AS c FROM t GROUP BY id) a "
    "FULL JOIN (SELECT id, count(*) AS c FROM s GROUP BY id) b USING (id)",
    "three": "SELECT t.id AS a, u.id AS b, k.line, k.v FROM t LEFT JOIN (u LEFT JOIN k ON k.id = u.id) ON u.id = t.g",
    "mixed": "SELECT t.id AS a, u.x, k.v FROM t JOIN u ON u.id = t.id LEFT JOIN k ON k.id = t.g "
    "FULL JOIN s ON s.id = u.x",
}
_PAIRS = {
    "left_safe": "SELECT t.id, u.id AS b FROM t LEFT JOIN u ON t.name IS NOT DISTINCT FROM u.name AND t.g = 1",
    "constant": "SELECT t.id, u.id AS b FROM t LEFT JOIN u ON FALSE",
    "self_pairs": "SELECT a.id, b.id AS c FROM u a LEFT JOIN u b ON a.x = b.x AND a.id < b.id",
    "named": "WITH c AS (SELECT t.id, t.g, u.x FROM t JOIN u ON t.id = u.id) "
    "SELECT a.id, a.x, b.x AS y FROM c a FULL JOIN c b ON a.g = b.x AND a.id <> b.id",
    "left_pairs": "SELECT t.id AS a, t.g, u.id AS b, u.x FROM t LEFT JOIN u ON t.g = u.id AND t.id > u.x",
    "keyed_pairs": "SELECT u.id, k.id AS b, k.line FROM u LEFT JOIN k ON u.x = k.v AND u.id > k.line",
    "full_pairs": "SELECT t.id AS a, t.n, u.id AS b FROM t FULL JOIN u ON t.g = u.x AND t.id > u.id",
    "all_pairs": "SELECT t.id AS a, u.id AS b FROM t CROSS JOIN u",
    "less": "SELECT t.id AS a, u.id AS b FROM t JOIN u ON t.id < u.x",
    "left_less": "SELECT t.id AS a, t.name, u.id AS b FROM t LEFT JOIN u ON t.id < u.x",
    "left_all": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON TRUE",
    "full_less": "SELECT t.id AS a, t.name, u.id AS b FROM t FULL JOIN u ON t.id < u.x",
    "beside_one": "SELECT t.id, m.c FROM t CROSS JOIN (SELECT count(*) AS c FROM u) AS m WHERE t.id < m.c",
    "one_left": "SELECT m.c, u.id FROM (SELECT count(*) AS c FROM t) AS m LEFT JOIN u ON u.id < m.c",
    "counted": "SELECT count(*) AS c FROM t JOIN u ON t.g = u.x",
    "summed": "SELECT u.name, sum(t.n) AS n, count(*) AS c FROM t LEFT JOIN u ON t.g = u.id GROUP BY u.name",
}
_RULES = {
    "where_left": "SELECT t.id AS a, t.g, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE t.n > 2",
    "where_not_true": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE (u.x = 1) IS NOT TRUE",
    "where_not_false": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE (u.x = 1) IS NOT FALSE",
    "where_between": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE NOT (t.g BETWEEN u.x AND 0)",
    "where_in": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE t.g IN (1, 2, 3, u.x)",
    "where_coalesce": "SELECT t.id AS a, u.id AS b FROM t LEFT JOIN u ON t.g = u.id WHERE coalesce(u.x, 1) = 1",
    "where_case": "SELECT t.id AS a FROM t LEFT JOIN u ON t.g = u.id WHERE CASE WHEN u.x > 1 THEN false ELSE true END",
    "where_case_null": "SELECT t.id AS a FROM t LEFT JOIN u ON t.g = u.id "
    "WHERE CASE WHEN u.x IS NULL THEN true ELSE false END",
    "where_null_of_full": "SELECT t.id AS a, t.g, u.id AS b FROM t FULL JOIN u ON t.g = u.id WHERE t.g IS NULL",
    "where_computed": "SELECT * FROM (SELECT t.id, t.g, u.x + 1 AS y FROM t LEFT JOIN u ON t.g = u.id) q "
    "WHERE y > 2 AND g > 0",
    "or_of_some": "SELECT t.id AS a, u.id AS b FROM t, u WHERE t.id = u.id AND (t.g = 1 AND u.x > 1 OR u.name = 'a')",
    "filtered_twice": "SELECT p.id, u.x FROM (SELECT * FROM t WHERE n > 2) p LEFT JOIN u ON p.g = u.id WHERE p.g > 0",
    "wide_numbers": "SELECT t.id, u.id AS b FROM t JOIN u ON t.n::numeric(38,10) = "
    "CASE WHEN u.x = 3 THEN 10000000000000000000000000000000::numeric(38,0) ELSE u.x::numeric(38,0) END",
    "left_using": "SELECT id, t.g, u.x FROM t LEFT JOIN u USING (id)",
    "right_using": "SELECT id, t.g, u.x FROM t RIGHT JOIN u USING (id)",
    "full_using_nulls": "SELECT id, s.x, r.y FROM s FULL JOIN r USING (id)",
}
"""Implicit decisions: outer joins that are inner joins, conditions that move down, the columns of USING."""
_REPLICATED = {
    "equality": "u", "by_comma": "u, s", "safe": "u", "to_right": "t", "where_null": "u", "keyed": "k",
    "mixed": "u, k", "left_pairs": "u", "less": "t", "left_less": "u",
}  # fmt: skip
"""Views with the relations that their joins replicate."""
_ORACLES = {
    "with_using": "SELECT t.id, t.name, t.g, t.n, u.x FROM t JOIN u USING (id, name)",
    "wide_numbers": "SELECT t.id, u.id AS b FROM t JOIN u ON t.n = u.x WHERE u.x <> 3",
}
"""The SQL for DuckDB if it returns other columns for USING, or has smaller numbers."""


def _row(name: str, random_: random.Random) -> tuple[Any, ...]:
    def small() -> int | None:
        return random_.choice([None, 0, 1, 2, 3])

    match name:
        case "t":
            n = random_.choice([None, Decimal(2), Decimal("3.00"), Decimal("3.25")])
            return random_.randrange(5), small(), n, random_.choice(["a", "a", "B", None])
        case "r":
            return small(), small()
        case "k":
            return random_.randrange(4), random_.randrange(3), small()
        case "s":
            return small(), small(), random_.choice([None, "a", "b"])
        case _:
            return random_.randrange(5), small(), random_.choice(["a", "a", "b", None])


def _changes(views: Views, random_: random.Random) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {each.name: [] for each in _RELATIONS}
    there = sorted(views.content.rows["t"].elements(), key=repr)
    found["t"] += [(row, -1) for row in random_.sample(there, min(len(there), random_.randrange(4)))]
    for name in found:
        for _ in range(random_.randrange(2, 7)):
            row = _row(name, random_)
            found[name].append((row, -1 if name in ("u", "k") and not random_.randrange(3) else 1))
    return found


@pytest.mark.share(7)
@pytest.mark.parametrize(
    ("views", "seed"),
    [(_INNER, 1), (_INNER, 2), (_OUTER, 1), (_OUTER, 2), (_PAIRS, 1), (_PAIRS, 2), (_RULES, 2)],
    ids=["inner1", "inner2", "outer1", "outer2", "pairs1", "pairs2", "rules"],
)
def test_joins_give_what_their_sql_says(tmp_path: Path, views: dict[str, str], seed: int) -> None:
    made = {name: View(sql, _ORACLES.get(name)) for name, sql in views.items()}
    running = Views(tmp_path, _RELATIONS, made, sinks=seed == 1)
    random_ = random.Random(seed)
    for _ in range(5):
        running.batch(_changes(running, random_))
    if seed == 2:
        running.check_parts()
        running.check_cut([2, 4])
    assert not [name for name in views if not running.checked[name]]
    running.close()


def test_joins_give_the_same_where_a_side_is_in_every_task(tmp_path: Path) -> None:
    every = _INNER | _OUTER | _PAIRS
    options = {name: f"WITH (REPLICATE = ({names}))" for name, names in _REPLICATED.items()}
    made = {name: View(every[name], options=options[name]) for name in _REPLICATED}
    running = Views(tmp_path, _RELATIONS, made, buckets=3)
    random_ = random.Random(3)
    for _ in range(3):
        running.batch(_changes(running, random_))
    for name in made:
        joins = [each for each in running.operators(name) if isinstance(each, physical.Join)]
        assert any(each.left.replicated or each.right.replicated for each in joins), name
    running.check_cut([2])
    running.close()
