"""Random batches of changes: after each one, views and sinks have the rows that DuckDB computes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sinkql.testing
from sinkql.testing import Pipeline

_INTO = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')"
_VIEWS = {
    "many": "SELECT id, upper(name) AS name FROM t WHERE n >= 2",
    "grouped": "SELECT g, count(*) AS c, sum(n) AS s, max(n) AS m, count(DISTINCT name) AS d FROM t GROUP BY g",
    "above": "SELECT g, sum(n) / count(n) AS a FROM t GROUP BY g HAVING count(n) > 1",
    "whole": "SELECT count(*) AS c, sum(n) AS s, min(name) AS l FROM t",
    "together": "SELECT id, name FROM t WHERE n > 3 UNION ALL SELECT id, name FROM s",
    "once": "SELECT name FROM t UNION SELECT name FROM s",
    "came": "SELECT id, f * 2 AS f FROM s WHERE f > 0",
    "floats": "SELECT name, count(*) AS c, sum(f) AS s, avg(f) AS a, max(f) AS m FROM s GROUP BY name",
}
_KEYS = {"many": "id", "grouped": "g", "above": "g", "floats": "name"}
_TYPES = {
    "t": {"id": pa.int64(), "g": pa.int32(), "n": pa.decimal128(10, 2), "name": pa.string()},
    "s": {"id": pa.int64(), "f": pa.float64(), "name": pa.string()},
}


def _script() -> str:
    texts = [
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake')",
        "CREATE TABLE t (id bigint PRIMARY KEY, g int, n numeric(10, 2), name text)",
        "CREATE SOURCE s (id bigint, f double precision, name text) FROM FILES (PATH = 'in') FORMAT JSON",
    ]
    for name, query in _VIEWS.items():
        mode = f"KEY ({_KEYS[name]}) MODE UPSERT" if name in _KEYS else "MODE APPEND"
        texts.append(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        texts.append(f"CREATE SINK k_{name} FROM {name} {_INTO.format(name=name)} {mode} WITH (COMMIT INTERVAL = '5s')")
    return "; ".join(texts)


def _change(pipeline: Pipeline, random_: random.Random) -> None:
    amount = random_.choice([None, Decimal(0), Decimal("1.5"), Decimal(2), Decimal("3.25"), Decimal(7)])
    name = random_.choice([None, "a", "b", "c"])
    key = random_.randrange(12)
    match random_.randrange(4):
        case 0:
            pipeline.upsert("t", {"id": key, "g": random_.choice([None, 1, 2]), "n": amount, "name": name})
        case 1 if any(row["id"] == key for row in pipeline.rows("t")):
            pipeline.delete("t", {"id": key})
        case 2:
            pipeline.insert("s", [{"id": key, "f": random_.choice([None, -1.0, 0.5, 3.0]), "name": name}] * 2)
        case _:
            pipeline.insert("t", {"id": 100 + _greatest(pipeline), "g": 3, "n": amount, "name": name})


def _greatest(pipeline: Pipeline) -> int:
    return max((row["id"] for row in pipeline.rows("t")), default=0)


def _expected(duck: duckdb.DuckDBPyConnection, pipeline: Pipeline, query: str) -> Counter[tuple[Any, ...]]:
    for name, types in _TYPES.items():
        rows = pipeline.rows(name)
        arrays = [pa.array([row[column] for row in rows], type_) for column, type_ in types.items()]
        duck.register(name, pa.table(arrays, names=list(types)))
    return Counter(duck.execute(query).fetchall())


def _table(pipeline: Pipeline, name: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in pipeline.rows(name):
        found[_values(row)] += row.get("_mz_diff", 1)
    return +found


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in row.items() if name != "_mz_diff")


def _same(left: Counter[tuple[Any, ...]], right: Counter[tuple[Any, ...]]) -> bool:
    """Return whether rows are equal; DuckDB returns quotients as floats."""
    return left == right or _rounded(left) == _rounded(right)


def _rounded(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows.items():
        found[tuple(round(float(each), 9) if isinstance(each, float | Decimal) else each for each in row)] += count
    return found


def _sorted(rows: Sequence[dict[str, Any]], key: str) -> list[Any]:
    return sorted((row[key] for row in rows), key=lambda value: (value is None, value or 0))


@pytest.mark.long
def test_views_and_sinks_hold_what_their_sql_gives_after_every_batch() -> None:
    pipeline, random_ = sinkql.testing.loads(_script()), random.Random(7)
    duck = duckdb.connect(config={"threads": 1})
    tables: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in _VIEWS}
    for batch in range(6):
        for _ in range(random_.randrange(1, 6)):
            _change(pipeline, random_)
        pipeline.commit()
        for name, query in _VIEWS.items():
            expected = _expected(duck, pipeline, query)
            assert _same(_table(pipeline, f"k_{name}"), expected), (batch, name)
            assert _same(_table(pipeline, name), expected), (batch, name)
            for diff, row in pipeline.changes(f"k_{name}"):
                tables[name][_values(row)] += diff
            assert +tables[name] == _table(pipeline, f"k_{name}"), (batch, name)
            if name in _KEYS and name != "floats":
                rows = pipeline.rows(f"k_{name}")
                assert [row[_KEYS[name]] for row in rows] == _sorted(rows, _KEYS[name])
