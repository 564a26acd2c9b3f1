"""Set-returning functions, in FROM and in select lists: the rows from one input row are added and deleted together."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from views.changing import changes
from views.harness import Relation, View, Views

_RELATIONS = (
    Relation("t", {"id": "bigint NOT NULL", "a": "integer[]", "b": "text[]"}),
    Relation("s", {"id": "bigint", "a": "integer[]", "b": "text[]"}, kind="append"),
    Relation("u", {"id": "bigint NOT NULL", "a": "integer[]"}, ("id",), "upsert"),
    Relation("d", {"id": "bigint NOT NULL", "j": "jsonb", "l": "jsonb"}, ("id",), "upsert"),
    Relation("r", {"x": "integer", "y": "integer", "d": "timestamp"}),
)
_SERIES = "SELECT x, y, n FROM r, LATERAL (SELECT unnest(generate_series(x, y)) AS n)"
_VIEWS = {
    "comma": View("SELECT id, x FROM t, unnest(t.a) AS x", "SELECT id, unnest(a) AS x FROM t"),
    "listed": View("SELECT id, unnest(a) AS x FROM s"),
    "upserted": View("SELECT id, x + 1 AS x FROM u, unnest(a) AS x", "SELECT id, unnest(a) + 1 AS x FROM u"),
    "numbered": View(
        "SELECT id, x, n FROM u, unnest(a) WITH ORDINALITY AS e (x, n)",
        "SELECT id, unnest(a) AS x, generate_subscripts(a, 1) AS n FROM u",
    ),
    "in_lockstep": View("SELECT id, unnest(a) AS x, unnest(b) AS y FROM t"),
    "together": View(
        "SELECT id, x, y FROM t CROSS JOIN unnest(a, b) AS e (x, y)", "SELECT id, unnest(a) AS x, unnest(b) AS y FROM t"
    ),
    "kept": View(
        "SELECT id, x FROM t LEFT JOIN LATERAL unnest(a) AS x ON true",
        "SELECT id, unnest(CASE WHEN a IS NULL OR len(a) = 0 THEN [NULL] ELSE a END) AS x FROM t",
    ),
    "grouped": View(
        "SELECT x, count(*) AS n FROM s, unnest(a) AS x WHERE x > 1 GROUP BY x",
        "SELECT x, count(*) AS n FROM (SELECT unnest(a) AS x FROM s) AS q WHERE x > 1 GROUP BY x",
    ),
    "distinct_": View("SELECT DISTINCT unnest(b) AS y FROM t"),
    "constants": View("SELECT n * 2 AS m FROM generate_series(1, 5, 2) AS q (n)"),
    "none_of_some": View(
        "SELECT m, n FROM generate_series(1, 3) AS m, generate_series(2, m) AS n",
        "SELECT m, n FROM generate_series(1, 3) AS p (m), generate_series(1, 3) AS q (n) WHERE n BETWEEN 2 AND m",
    ),
    "numbered_constants": View(
        "SELECT x, n FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS q (x, n)",
        "SELECT * FROM (VALUES ('a', 1), ('b', 2)) AS q",
    ),
    "back": View("SELECT n FROM generate_series(3, 1, -1) AS q (n)"),
    "series_lateral": View("SELECT x, y, n FROM r CROSS JOIN LATERAL generate_series(x, y) AS q (n)", _SERIES),
    "series": View("SELECT x, y, n FROM r, generate_series(x, y) AS n", _SERIES),
    "beside_join": View(
        "SELECT t.id, v, r.y FROM t, unnest(t.a) AS v JOIN r ON r.x = v",
        "SELECT q.id, q.x, r.y FROM (SELECT id, unnest(a) AS x FROM t) AS q JOIN r ON r.x = q.x",
    ),
    "days": View(
        "SELECT x, n FROM r, generate_series(d, TIMESTAMP '2024-03-02', INTERVAL '1 day') AS n",
        """SELECT x, n FROM r, LATERAL (SELECT unnest(generate_series(d, TIMESTAMP '2024-03-02', INTERVAL '1 day'))
            AS n)""",
    ),
    "members": View(
        "SELECT id, key, value FROM d, jsonb_each(j)",
        """SELECT id, key, CAST(j -> ('$.' || key) AS text) AS value
            FROM (SELECT id, j, unnest(json_keys(j)) AS key FROM d) AS q""",
    ),
    "member_texts": View(
        "SELECT d.id, e.k, e.v FROM d LEFT JOIN LATERAL jsonb_each_text(j) AS e (k, v) ON true",
        """SELECT id, key AS k, j ->> ('$.' || key) AS v FROM (
            SELECT id, j, unnest(CASE WHEN len(json_keys(j)) > 0 THEN json_keys(j) ELSE [NULL] END) AS key FROM d
        ) AS q""",
    ),
    "keys": View("SELECT id, jsonb_object_keys(j) AS k FROM d", "SELECT id, unnest(json_keys(j)) AS k FROM d"),
    "items": View(
        "SELECT id, i ->> 'q' AS q, n FROM d, jsonb_array_elements(l -> 'k') WITH ORDINALITY AS e (i, n)",
        """SELECT id, i ->> 'q' AS q, n FROM (
            SELECT id, unnest(l -> '$.k[*]') AS i, generate_subscripts(l -> '$.k[*]', 1) AS n FROM d
        ) AS p""",
    ),
    "item_texts": View(
        "SELECT id, x FROM d CROSS JOIN LATERAL jsonb_array_elements_text(l -> 't') AS e (x)",
        "SELECT id, unnest(l ->> '$.t[*]') AS x FROM d",
    ),
    "two_series": View(
        "SELECT m, n FROM generate_series(1, 3) AS m, generate_series(m, 3) AS n",
        "SELECT m, n FROM generate_series(1, 3) AS p (m), generate_series(1, 3) AS q (n) WHERE n >= m",
    ),
}


def _row(random_: random.Random) -> tuple[Any, ...]:
    return random_.randrange(4), _array(random_, [1, 2, 3, None]), _array(random_, ["x", "y", None])


def _array(random_: random.Random, values: list[Any]) -> tuple[Any, ...] | None:
    length = random_.choice([0, 1, 2, 3, None])
    return None if length is None else tuple(random_.choice(values) for _ in range(length))


def _bounds(random_: random.Random) -> tuple[Any, ...]:
    day = datetime(2024, 2, 28, 12) + timedelta(days=random_.randrange(4))
    return random_.choice([1, 2, 3, None]), random_.choice([1, 2, 3, None]), random_.choice([day, None])


def _document(random_: random.Random) -> tuple[Any, ...]:
    items = [f'{{"q": {random_.randrange(3)}}}' for _ in range(random_.randrange(3))]
    scalars = {"a": "1", "bb": '"x"', "c": "true"}
    lists = {"k": f"[{', '.join(items)}]", "t": random_.choice(["[]", '["x", 1, "x"]', '["y"]'])}
    return random_.randrange(6), *(_some(random_, each) for each in (scalars, lists))


def _some(random_: random.Random, members: dict[str, str]) -> str | None:
    """Return a JSON object with some of the members, or NULL."""
    names = random_.sample(sorted(members), random_.randrange(len(members) + 1))
    text = ", ".join(f'"{name}": {members[name]}' for name in sorted(names, key=lambda name: (len(name), name)))
    return f"{{{text}}}" if random_.randrange(6) else None


def _keyed(random_: random.Random) -> tuple[Any, ...]:
    return _row(random_)[:2]


def test_rows_of_a_row_come_and_go_together(tmp_path: Path) -> None:
    views = Views(tmp_path, _RELATIONS, _VIEWS)
    assert views.planned("numbered").shape.keys == (frozenset({"id", "n"}),)
    assert views.planned("members").shape.keys == (frozenset({"id", "key"}),)
    assert views.planned("upserted").shape.keys == ()
    random_ = random.Random(4)
    for _ in range(6):
        views.batch(changes(views, random_, {"t": _row, "s": _row, "u": _keyed, "d": _document, "r": _bounds}))
    views.check_parts()
    views.check_cut([2, 4])
    assert all(views.checked[name] > 3 for name in _VIEWS), views.checked
    views.close()
