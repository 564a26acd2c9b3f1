"""SELECT → rows: of the system catalog by SQLite, of items what is plain in Python, all else by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sinkql import ast, evaluate, logical
from sinkql.catalog.system import RELATIONS
from sinkql.catalog.system.item import SystemCatalog, SystemRows
from sinkql.catalog.system.system_names import System, over_system
from sinkql.errors import Span
from sinkql.planner.name import qualified_name
from sinkql.printer.clause import name as print_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.result import Result, Workspace
from sinkql.session.row.files import FileQuery, over_files
from sinkql.session.row.inputs import Columns, Inputs, python_rows
from sinkql.session.row.view_contents import WithContents, at_one_moment

if TYPE_CHECKING:
    from sinkql.planner.query.order_by import Order
    from sinkql.planner.query.plan import OneShotQuery

Row = tuple[Any, ...]


def select(statement: ast.Select, workspace: Workspace) -> Result:
    """Run a query."""
    query, plans = statement.query, workspace.catalog.plans
    files = over_files(query, plans, workspace.catalog.registry, CatalogAccess(workspace.catalog))
    match over_system(query, plans):
        case System.NONE:
            return run_select(query if files is None else files.query, workspace, files)
        case System.ALONE if files is None:
            return _of_system(query, workspace)
        case _:
            return _beside_system(query, workspace, files)


def _of_system(query: ast.Query, workspace: Workspace) -> Result:
    """Run a query over system relations alone, by SQLite or, where that has no form of it, as any other query."""
    from sinkql.catalog.system.general import select_or_plan  # sqlglot loads only where there is a query

    catalog = workspace.catalog
    found = select_or_plan(query, catalog.database, catalog.plans, lambda: _beside_system(query, workspace, None))
    return found if isinstance(found, Result) else Result("SELECT", columns=found.columns, rows=found.rows)


def _beside_system(query: ast.Query, workspace: Workspace, files: FileQuery | None) -> Result:
    """Run a query that reads system relations as it reads items and files."""
    catalog = workspace.catalog
    found = files or FileQuery(query, catalog.plans, {})
    system = {
        qualified_name(schema, name): SystemRows(each, catalog.database) for (schema, name), each in RELATIONS.items()
    }
    both = FileQuery(found.query, SystemCatalog(found.plans), {**system, **found.files})
    return run_select(both.query, workspace, both)


def run_select(query: ast.Query, workspace: Workspace, files: FileQuery | None = None) -> Result:
    """Run a query over items, and files."""
    from sinkql.planner.query.plan import plan_one_shot  # sqlglot loads only where there is a query

    plans = files.plans if files is not None else workspace.catalog.plans
    once = plan_one_shot(query, plans, rows_now())
    with at_one_moment(once.relation, workspace.catalog) as contents:
        limit = first_rows(once, WithContents(plans, contents))
        inputs = Inputs(workspace, query.span, limit, files, contents)
        rows = rows_of(once, workspace, inputs)
        inputs.notices.extend(contents.notices())
    shown = tuple(row[: once.width] for row in rows)
    return Result("SELECT", tuple(inputs.notices), once.names, shown, types=once.types)


def rows_of(once: OneShotQuery, workspace: Workspace, inputs: Inputs) -> list[Row]:
    """Return a query's rows, with the columns that only order them; by Spark where Python is not enough."""
    run = evaluate.rows_of(once.relation, inputs.plans)
    if run is not None:
        try:
            ordered = in_order(run(inputs.tuples), once.order)
        except evaluate.NotEvaluableError:
            return by_spark(once, workspace, inputs.rows, inputs.plans)
        return ordered[once.offset : None if once.limit is None else once.offset + once.limit]
    return by_spark(once, workspace, inputs.rows, inputs.plans)


def preview(name: ast.Name, workspace: Workspace, limit: int) -> Result:
    """Give the first rows of a relation."""
    head = "SELECT * FROM "
    text = f"{head}{print_name(name)} LIMIT {limit}"
    return select(ast.Select(ast.Query(text, Span(0, len(text)))), workspace)


def rows_now() -> datetime:
    """Return the time of a statement."""
    return datetime.now(UTC).replace(tzinfo=None)


def by_spark(
    once: OneShotQuery, workspace: Workspace, read: Callable[[str], Columns], plans: logical.CatalogReader | None = None
) -> list[Row]:
    """Run a query in Spark over all rows of what it reads; `plans` has more than the session's catalog."""
    from sinkql.lowering.spark.query import QuerySql

    text = QuerySql(plans or workspace.catalog.plans)
    sql = text.once(once)
    inputs = {name: read(full_name) for full_name, name in text.inputs.items()}
    found = workspace.spark.query(sql, inputs, [each.type for each in once.relation.shape.columns])
    return python_rows(found)


# --- in Python -----------------------------------------------------------------------------------------------------


def first_rows(once: OneShotQuery, catalog: logical.CatalogReader) -> int | None:
    """Return how many rows of the one relation are enough, where nothing stands between it and the LIMIT."""
    if once.order or once.limit is None or not _straight(once.relation, catalog):
        return None
    return once.offset + once.limit


def _straight(relation: logical.Relation, catalog: logical.CatalogReader) -> bool:
    """Tell whether each row of a relation comes of a row of the one item that it reads."""
    match relation:
        case logical.Get():
            item = catalog.item(relation.item)
            return _straight(item.relation, catalog) if isinstance(item, logical.View) else True
        case logical.Project():
            return _straight(relation.input, catalog)
        case (
            logical.Filter()
            | logical.Aggregate()
            | logical.Union()
            | logical.Join()
            | logical.Rank()
            | logical.Window()
            | logical.Collect()
            | logical.Bound()
            | logical.Flatten()
            | logical.Repeat()
        ):
            return False


def in_order(rows: Iterable[Row], order: Sequence[Order]) -> list[Row]:
    """Return rows in an order; rows that are equal in it stay as they are."""
    found = list(rows)
    for term in reversed(order):
        nulls = [row for row in found if row[term.place] is None]
        values = [row for row in found if row[term.place] is not None]
        key = evaluate.order_key(term.type) or evaluate.comparable
        values.sort(key=lambda row: key(row[term.place]), reverse=term.descending)
        found = [*nulls, *values] if term.nulls_first else [*values, *nulls]
    return found
