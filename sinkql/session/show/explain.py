"""EXPLAIN → a table of one column: the lines of a stage."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.catalog import Catalog
from sinkql.session.item.commented import comments_on_input
from sinkql.session.result import Result


def explain(statement: ast.Explain, catalog: Catalog) -> Result:
    """Give a stage of what EXPLAIN names, as one column of lines; raises what `explained` raises."""
    from sinkql.lowering.explained import explained  # Spark's SQL is written only where it is shown

    facts = comments_on_input(statement.explainee, catalog) if isinstance(statement.explainee, ast.CreateSink) else {}
    lines = explained(statement, catalog.plans, catalog.registry, facts).splitlines()
    return Result("EXPLAIN", columns=("plan",), rows=tuple((line,) for line in lines))
