"""Run EXPLAIN and SHOW, which return tables."""

from __future__ import annotations

import json
from functools import partial

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.system.show import LISTINGS, check_variable, checked_query, conditions_of
from sinkql.catalog.system.view import Table, select_views
from sinkql.explain import Held
from sinkql.lowering.materialized_view import view_id
from sinkql.parser import parse
from sinkql.planner.item.setting import DEFAULTS
from sinkql.planner.item.source import with_found_columns
from sinkql.printer import to_sql
from sinkql.session.item.destination import comments_on_input
from sinkql.session.result import Result
from sinkql.statement.operation import ShowDefinition


def explain(statement: ast.Explain, catalog: Catalog) -> Result:
    """Return a stage of a plan as one column of lines. Raise what `explained` raises."""
    from sinkql.lowering.explain import explained  # only EXPLAIN needs the SQL for Spark

    facts = comments_on_input(statement.explainee, catalog) if isinstance(statement.explainee, ast.CreateSink) else {}
    lines = explained(
        statement, catalog.plans, catalog.registry, facts, partial(_arrangement_sizes, catalog)
    ).splitlines()
    return Result("EXPLAIN", columns=("plan",), rows=tuple((line,) for line in lines))


def _arrangement_sizes(catalog: Catalog, sink: str) -> Held:
    """Return the last reported sizes of the arrangements of a sink or materialized view job."""
    entry = logical.get_entry(catalog.plans, sink)
    job_id = entry.facts.get("sink_id") or view_id(sink, catalog.plans)
    with catalog.database.read() as connection:
        encoded = connection.scalar("SELECT figures FROM measures WHERE id = ?", job_id)
    figures = json.loads(encoded) if encoded is not None else {}
    held: Held = figures.get("$state", {}).get("arrangements", {})
    return held


def show(statement: ast.Show, catalog: Catalog) -> Result:
    """Return the items of a kind. Raise SQ2004 for an unknown schema and SQ2313 for an unknown cluster."""
    listing = LISTINGS[statement.kind]
    conditions = list(conditions_of(statement, listing, catalog.reader()))
    if statement.where is None and statement.like is None:
        views = listing.views_query(conditions)
        return _result("SHOW", select_views(views, catalog.database, booleans=listing.booleans))
    from sinkql.catalog.system.query import select  # loads sqlglot, which only a condition needs

    table = select(
        checked_query(statement, listing, conditions, catalog.plans),
        catalog.database,
        within=statement.where.span if statement.where is not None else statement.span,
    )
    return _result("SHOW", table)


def show_create(operation: ShowDefinition, catalog: Catalog) -> Result:
    """Return an item's name and CREATE statement. Secrets are redacted even without REDACTED."""
    statement, entry = operation.statement, operation.entry
    stored = catalog.stored(entry.name)
    if stored is None:
        text = to_sql(entry.statement)
    else:
        text = "\n".join(
            to_sql(_with_columns(definition, stored.facts), redacted=catalog.registry.keywords)
            for definition in parse(stored.create_sql)
        )
    name = entry.name.removesuffix(".")
    return Result(f"SHOW CREATE {statement.kind}", columns=("name", "create_sql"), rows=((name, text),))


def _with_columns(statement: ast.Statement, facts: logical.Facts) -> ast.Statement:
    return with_found_columns(statement, facts) if isinstance(statement, ast.CreateSource) else statement


def show_variable(statement: ast.ShowVariable, catalog: Catalog) -> Result:
    """Return the value of a setting, or all settings."""
    if statement.name is None:
        rows = tuple((name, catalog.plans.setting(name)) for name in sorted(DEFAULTS))
        return Result("SHOW", columns=("name", "setting"), rows=rows)
    name = statement.name.value
    check_variable(statement)
    return Result("SHOW", columns=(name,), rows=((catalog.plans.setting(name),),))


def _result(tag: str, table: Table) -> Result:
    return Result(tag, columns=table.columns, rows=table.rows)
