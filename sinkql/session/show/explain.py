"""EXPLAIN → a table of one column: the lines of a stage."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.catalog import Catalog
from sinkql.session.result import Result


def explain(statement: ast.Explain, catalog: Catalog) -> Result:
    """Give a stage of what EXPLAIN names, as one column of lines; raises what `explained` raises."""
    from sinkql.lowering.explained import explained  # Spark's SQL is written only where it is shown

    lines = explained(statement, catalog.plans, catalog.registry).splitlines()
    return Result("EXPLAIN", columns=("plan",), rows=tuple((line,) for line in lines))
