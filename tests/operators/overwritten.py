"""Views over a source whose rows overwrite each other by key, as SQL, and changes of the source."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import msgspec

from operators.pipeline import Change, Row
from sinkql import ast, logical, physical
from sinkql.connector_api.planning import PlanningContext, SourcePlan
from sinkql.connector_api.registry import Registry, discover
from sinkql.logical.type import decoded, parse_type
from sinkql.lowering.job import lower_view
from sinkql.program.compiler import compile_text

COLUMNS = {"k": "integer not null", "x": "bigint", "t": "text", "d": "double precision", "a": "bigint[]"}
VIEWS = {
    "whole": "SELECT * FROM e",
    "filtered": "SELECT * FROM e WHERE x > 1",
    "by key or not": "SELECT k, t FROM e WHERE x > 2 OR k > 8",
    "of some keys": "SELECT k, t FROM e WHERE k % 3 <> 0",
    "computed": "SELECT t, k AS n, 12 / x AS q, coalesce(t, 'none') AS u FROM e WHERE x <> 0",
    "twice": "SELECT n, y FROM (SELECT k AS n, x + 1 AS y FROM e WHERE x IS NOT NULL) AS f WHERE y < 4",
    "without key": "SELECT x, t, a FROM e",
    "filtered without key": "SELECT t FROM e WHERE x > 0",
    "grouped": """SELECT t, count(*) AS c, count(x) AS n, sum(x) AS s, max(x) AS g, count(DISTINCT d) AS d
        FROM e WHERE k > 1 GROUP BY t""",
    "one row": "SELECT count(*) AS c, sum(x) AS s FROM e",
    "distinct": "SELECT DISTINCT x, t FROM e",
    "united": "SELECT k, t FROM e UNION ALL SELECT x, 'x' FROM e WHERE x IS NOT NULL",
    "grouped again": "SELECT c, count(*) AS n FROM (SELECT t, count(*) AS c FROM e GROUP BY t) AS g GROUP BY c",
}


def registry() -> Registry:
    """Return a registry whose COUNTER source has the columns of `COLUMNS` and the key `k`."""
    found = discover()
    counter = found.sources["LOAD GENERATOR COUNTER"]
    columns = tuple(
        logical.Column(name, parse_type(text.removesuffix(" not null")), nullable="not null" not in text)
        for name, text in COLUMNS.items()
    )
    shape = logical.Shape(columns, (frozenset({"k"}),), logical.Change.UPSERT)

    def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
        return SourcePlan({}, shape)

    return replace(found, sources=found.sources | {counter.name: replace(counter, plan=plan)})


def view(text: str) -> physical.Operator:
    """Return the operators of a query over source `e`."""
    script = f"CREATE SOURCE e FROM LOAD GENERATOR COUNTER; CREATE MATERIALIZED VIEW v AS {text};"
    catalog = compile_text(script, registry=registry()).catalog
    assert catalog is not None
    item = catalog.item("materialize.public.v")
    assert isinstance(item, logical.View)
    body = _named(lower_view(item, catalog)[0].root)
    names = [column.name for column in physical.columns_of(body)]
    body = physical.narrowed(physical.Graph(body), names).root  # pruned like a sink's job
    (read, *_) = [each for each in physical.walk(body) if isinstance(each, physical.Read)]
    assert (read.change, read.key) == ("upsert", ("k",))
    return body


def _named(operator: physical.Operator) -> physical.Operator:
    """Return the operators with the source renamed to `e`."""
    data = msgspec.json.encode(physical.to_data(operator)).replace(b'"materialize.public.e"', b'"e"')
    found: physical.Operator = msgspec.json.decode(data, type=physical.Operator, dec_hook=decoded)
    return found


def changes(rng: random.Random, live: Counter[Row], size: int) -> list[Change]:
    """Return a batch of changes: new rows, repeated rows, and deletes by key."""
    found: list[Change] = []
    for _ in range(size):
        key = rng.randrange(12)
        if rng.random() < 0.3:
            found.append(((key, None, None, None, None), -1))
        elif live and rng.random() < 0.2:
            found.append((rng.choice(list(live)), 1))
        else:
            found.append((_row(rng, key), 1))
    return found


def _row(rng: random.Random, key: int) -> Row:
    return (
        key,
        rng.choice([0, 1, 2, 3, 4, None]),
        rng.choice(["a", "b", None]),
        rng.choice([0.0, -0.0, 1.5, float("nan"), None]),
        rng.choice([None, (), (1,), (1, None), (None, 1), (2, 3)]),
    )
