"""EXPLAIN → a table of one column: the lines of a stage."""

from __future__ import annotations

import json
from functools import partial

from sinkql import ast
from sinkql.catalog.catalog import Catalog
from sinkql.explain import Held
from sinkql.lowering.materialized_view import view_id
from sinkql.session.item.commented import comments_on_input
from sinkql.session.result import Result


def explain(statement: ast.Explain, catalog: Catalog) -> Result:
    """Give a stage of what EXPLAIN names, as one column of lines; raises what `explained` raises."""
    from sinkql.lowering.explain import explained  # Spark's SQL is written only where it is shown

    facts = comments_on_input(statement.explainee, catalog) if isinstance(statement.explainee, ast.CreateSink) else {}
    lines = explained(statement, catalog.plans, catalog.registry, facts, partial(_held, catalog)).splitlines()
    return Result("EXPLAIN", columns=("plan",), rows=tuple((line,) for line in lines))


def _held(catalog: Catalog, sink: str) -> Held:
    """Return what the state of a sink, or of a view with a log, held when it was last told."""
    entry = catalog.plans.entry(sink)
    assert entry is not None
    known = entry.facts.get("sink_id") or view_id(sink, catalog.plans)
    with catalog.database.read() as connection:
        found = connection.scalar("SELECT figures FROM measures WHERE id = ?", known)
    figures = json.loads(found) if found is not None else {}
    held: Held = figures.get("$state", {}).get("arrangements", {})
    return held
