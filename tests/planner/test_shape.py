"""The planner derives properties of views: keys, NULLs, append-only changes, and how joins run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sinkql import logical
from sinkql.testing import loads

_RELATIONS = """
CREATE TABLE a (id integer NOT NULL, g integer, x bigint, n numeric(10,2), r real, PRIMARY KEY (id));
CREATE TABLE b (g integer, x bigint, y integer NOT NULL, r real, s real);
CREATE SOURCE c (g integer NOT NULL, x bigint) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE SOURCE d (g integer NOT NULL, x bigint) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE CONNECTION broker TO KAFKA (BROKER 'localhost:1');
CREATE SOURCE u (id integer NOT NULL, g integer, x bigint, PRIMARY KEY (id) NOT ENFORCED)
  FROM KAFKA CONNECTION broker (TOPIC 'u') FORMAT JSON ENVELOPE DEBEZIUM;
"""
_BY_TWO = "(SELECT g, x, count(*) AS n FROM b GROUP BY g, x)"
_FILTERED = f"SELECT p.g, p.x, p.n FROM {_BY_TWO} p JOIN u ON u.id = p.x WHERE {{}}"
_NUMBERED = "(SELECT g, x, {}() OVER (PARTITION BY g ORDER BY x, y, r) AS n FROM b)"


@dataclass(frozen=True)
class Known:
    """A query and its derived properties: keys, nullable columns if they matter, the change, and joins by inputs."""

    sql: str
    keys: tuple[str, ...] = ()
    nullable: str | None = None
    change: str = "retract"
    joins: str | None = None


_CASES = {
    # joins
    "inner, the right side unique": Known("SELECT a.id, u.id AS v FROM a JOIN u ON a.g = u.id", ("id",)),
    "inner, the left side unique": Known("SELECT a.id, u.id AS v FROM a JOIN u ON a.id = u.g", ("v",)),
    "inner, neither side unique": Known("SELECT a.id, u.id AS v FROM a JOIN u ON a.g = u.g", ("id v",)),
    "inner, by both keys": Known("SELECT a.id, u.id AS v FROM a JOIN u ON a.id = u.id", ("id", "v")),
    "inner, by a part of a key": Known(f"SELECT a.id, p.x, p.n FROM a JOIN {_BY_TWO} p ON p.g = a.g", ("id x",)),
    "inner, by what is computed": Known("SELECT a.id, u.id AS v FROM a JOIN u ON a.g = u.id / 2", ("id v",)),
    "inner, by a wider number": Known("SELECT a.id, u.id AS v FROM a JOIN u ON a.x = u.id", ("id",)),
    "inner, by a narrower number": Known(
        "SELECT p.n, u.id AS v FROM (SELECT n, count(*) AS c FROM a GROUP BY n) p "
        "JOIN u ON p.n::numeric(10,0) = u.id",
        ("n",),
    ),
    "inner, by what is not exact": Known(
        "SELECT a.id, p.r FROM a JOIN (SELECT r, count(*) AS n FROM b GROUP BY r) p ON a.r = p.r", ("id r",)
    ),
    "inner, with a residual": Known("SELECT a.id, u.id AS v FROM a JOIN u ON a.g = u.id AND a.x < u.x", ("id",)),
    "inner, of rows that only come": Known("SELECT c.x, d.g FROM c JOIN d ON c.g = d.g", change="append"),
    "inner, without a key": Known("SELECT a.id, b.x FROM a JOIN b ON a.g = b.g"),
    "left, the right side unique": Known(
        "SELECT a.id, u.id AS v FROM a LEFT JOIN u ON a.g = u.id", ("id",), nullable="v"
    ),
    "left, the right side not unique": Known("SELECT a.id, u.id AS v FROM a LEFT JOIN u ON a.g = u.g", ("id v",)),
    "left, the left side unique": Known("SELECT a.id, u.id AS v FROM a LEFT JOIN u ON a.id = u.g", ("id v",)),
    "left, of rows that only come": Known("SELECT c.x, d.g FROM c LEFT JOIN d ON c.g = d.g", nullable="x g"),
    "right, the left side unique": Known(
        "SELECT a.id, u.id AS v FROM a RIGHT JOIN u ON u.g = a.id", ("v",), nullable="id"
    ),
    "full": Known("SELECT a.id, u.id AS v FROM a FULL JOIN u ON a.id = u.id", ("id v",), nullable="id v"),
    "full, of groups": Known(
        "SELECT p.g, q.x FROM (SELECT g, count(*) AS n FROM b GROUP BY g) p "
        "FULL JOIN (SELECT x, count(*) AS n FROM b GROUP BY x) q ON p.g = q.x"
    ),
    "full, of a part NOT NULL": Known(
        "SELECT p.g, p.y, q.x FROM (SELECT g, y, count(*) AS n FROM b GROUP BY g, y) p "
        "FULL JOIN (SELECT x, count(*) AS n FROM b GROUP BY x) q ON p.g = q.x",
        ("g x y",),
    ),
    "full by USING": Known("SELECT id, a.g, u.x FROM a FULL JOIN u USING (id)", ("id",), nullable="g x"),
    "full by USING, of groups": Known(
        "SELECT g, p.n, q.m FROM (SELECT g, count(*) AS n FROM b GROUP BY g) p "
        "FULL JOIN (SELECT g, count(*) AS m FROM a GROUP BY g) q USING (g)"
    ),
    "full by USING, of groups of two columns": Known(
        "SELECT g, y, p.n, q.m FROM (SELECT g, y, count(*) AS n FROM b GROUP BY g, y) p "
        "FULL JOIN (SELECT g, id AS y, count(*) AS m FROM a GROUP BY g, id) q USING (g, y)"
    ),
    "semi": Known("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g)", ("id",), joins="(a semi b)"),
    "semi, of rows that only come": Known(
        "SELECT c.x FROM c WHERE EXISTS (SELECT 1 FROM d WHERE d.g = c.g)", change="append"
    ),
    "semi, of rows that come and go": Known("SELECT c.x FROM c WHERE EXISTS (SELECT 1 FROM b WHERE b.g = c.g)"),
    "anti": Known("SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g)", ("id",), joins="(a anti b)"),
    "anti, of rows that only come": Known("SELECT c.x FROM c WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.g = c.g)"),
    "the order of joins": Known(
        "SELECT a.id, b.x FROM a, b, u WHERE a.g = u.id AND u.g = b.g", joins="((a inner u) inner b)"
    ),
    "what all sides of an OR have": Known(
        "SELECT a.id, u.id AS v FROM a, u WHERE (a.g = u.id) OR (a.g = u.id AND u.x > 1)", ("id",),
        joins="(a inner u)",
    ),
    # outer joins that become inner, left or right joins
    "a left join that is inner": Known(
        "SELECT a.id, u.x FROM a LEFT JOIN u ON a.g = u.id WHERE u.x = 1", ("id",), joins="(a inner u)"
    ),
    "a left join that is inner by OR": Known(
        "SELECT a.id FROM a LEFT JOIN u ON a.g = u.id WHERE u.x = 1 OR u.g > 2", ("id",), joins="(a inner u)"
    ),
    "a left join that is inner by AND": Known(
        "SELECT a.id FROM a LEFT JOIN u ON a.g = u.id WHERE (u.x = 1 AND a.x = 2) OR u.g > 2", ("id",),
        joins="(a inner u)",
    ),
    "a left join that stays": Known(
        "SELECT a.id FROM a LEFT JOIN u ON a.g = u.id WHERE u.x IS NULL", ("id",), joins="(a left u)"
    ),
    "a full join that is left": Known(
        "SELECT a.id, u.id AS v FROM a FULL JOIN u ON a.g = u.id WHERE a.n > 1", ("id",), joins="(a left u)"
    ),
    "a full join that is right": Known(
        "SELECT a.id, u.id AS v FROM a FULL JOIN u ON a.id = u.g WHERE u.x > 1", ("v",), joins="(u left a)"
    ),
    # filters
    "a constant": Known(_FILTERED.format("p.g = 1"), ("x",)),
    "no constant": Known(_FILTERED.format("p.g = p.n"), ("g x",)),
    "equal columns": Known(_FILTERED.format("p.x = p.n"), ("g x", "g n")),
    "equal columns that are not exact": Known(
        "SELECT p.r, p.s FROM (SELECT r, s, y, count(*) AS n FROM b GROUP BY r, s, y) p "
        "JOIN u ON u.id = p.y WHERE p.r = p.s AND p.y = 1",
        ("r s",),
    ),
    # first rows
    "the first": Known(f"SELECT g, x FROM {_NUMBERED.format('row_number')} p WHERE n = 1", ("g",)),
    "the first two": Known(f"SELECT g, x, n FROM {_NUMBERED.format('row_number')} p WHERE n <= 2", ("g n",)),
    "a limit that is turned": Known(f"SELECT g, x FROM {_NUMBERED.format('row_number')} p WHERE 2 > n", ("g",)),
    "the second": Known(f"SELECT g, x FROM {_NUMBERED.format('row_number')} p WHERE n = 2", ("g",)),
    "the first by rank": Known(f"SELECT g, x FROM {_NUMBERED.format('rank')} p WHERE n = 1"),
    "a number in a partition": Known(f"SELECT g, x, n FROM {_NUMBERED.format('row_number')} p", ("g n",)),
    "a rank in a partition": Known(f"SELECT g, x, n FROM {_NUMBERED.format('rank')} p"),
    "one of each": Known("SELECT DISTINCT ON (g) g, x FROM b ORDER BY g, x", ("g",)),
    # aggregates and other relations
    "an aggregate of all rows": Known("SELECT max(g) AS m, count(*) AS n FROM c", ("",), nullable="m"),
    "what is computed of an aggregate of all rows": Known("SELECT max(g) + 1 AS m FROM c", ("",), nullable="m"),
    "an aggregate by group": Known("SELECT x, max(g) AS m FROM c GROUP BY x", ("x",), nullable="x"),
    "grouping sets": Known("SELECT g, x, count(*) AS n FROM b GROUP BY ROLLUP (g, x)"),
    "grouping sets that a call tells apart": Known(
        "SELECT g, x, grouping(g, x) AS q FROM b GROUP BY ROLLUP (g, x)", ("g q x",)
    ),
    "grouping sets that a call does not tell apart": Known(
        "SELECT g, x, grouping(g) AS q, count(*) AS n FROM b GROUP BY ROLLUP (g, x)"
    ),
    "distinct rows of a key": Known("SELECT DISTINCT id, g FROM a", ("id",)),
    "distinct rows of several keys": Known(
        f"SELECT DISTINCT p.g, p.x, q.g AS h, q.x AS y, r.g AS i, r.x AS z FROM {_BY_TWO} p JOIN {_BY_TWO} q "
        f"ON p.g = q.g JOIN {_BY_TWO} r ON q.g = r.g",
        ("g x y z", "h x y z", "i x y z"),
    ),
    "a part of a key": Known(f"SELECT g, n FROM {_BY_TWO} p"),
    "a union of keys": Known("SELECT id FROM a UNION ALL SELECT id FROM u"),
    "a union with NULL": Known("SELECT id FROM a UNION ALL SELECT g FROM u", nullable="id"),
    "a union with NULL of outer rows": Known(
        "SELECT a.id, w.v FROM a, LATERAL (SELECT y AS v FROM b WHERE b.x < a.x UNION ALL SELECT g FROM b "
        "WHERE b.g > a.g) w",
        nullable="v",
    ),
    "except of a key": Known("SELECT g, x FROM b EXCEPT SELECT id, x FROM a", ("g x",)),
    "intersect with a key": Known("SELECT g, x FROM b INTERSECT SELECT id, x FROM a", ("g", "g x")),
    "numbers of rows that may be none": Known(
        "SELECT id, s.n FROM a LEFT JOIN unnest(ARRAY[g, id]) WITH ORDINALITY AS s (v, n) ON true", ("id n",),
        nullable="n",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def planned() -> Iterator[dict[str, logical.View]]:
    views = [f"CREATE VIEW v{place} AS {each.sql};" for place, each in enumerate(_CASES.values())]
    with loads(_RELATIONS + "".join(views)) as pipeline:
        items: Any = [pipeline._catalog.item(f"materialize.public.v{place}") for place in range(len(views))]
        yield dict(zip(_CASES, items, strict=True))


@pytest.mark.parametrize("name", _CASES)
def test_what_is_known(name: str, planned: dict[str, logical.View]) -> None:
    case, shape = _CASES[name], planned[name].shape
    assert {" ".join(sorted(key)) for key in shape.keys} == set(case.keys)
    assert shape.change.value == case.change
    if case.nullable is not None:
        assert {each.name for each in shape.columns if each.nullable} == set(case.nullable.split())
    if case.joins is not None:
        assert _joins(planned[name].relation) == case.joins


def _joins(relation: logical.Relation) -> str:
    match relation:
        case logical.Join():
            return f"({_joins(relation.left)} {relation.kind.value} {_joins(relation.right)})"
        case logical.Get():
            return relation.item.rpartition(".")[2]
        case _:
            (below,) = logical.inputs_of(relation)
            return _joins(below)
