"""Run SELECT: on the system catalog in SQLite, over constants in Python, over items in this process or in Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sinkql import ast, evaluate, logical
from sinkql.catalog.system import RELATIONS
from sinkql.catalog.system.item import SystemCatalog, SystemRows
from sinkql.catalog.system.system_names import System, over_system
from sinkql.errors import Span
from sinkql.lowering.relation import reads_nothing
from sinkql.planner.name import qualified_name
from sinkql.printer.clause import name as print_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.result import Result, Workspace
from sinkql.session.row.files import FileQuery, resolve_files
from sinkql.session.row.inputs import Columns, Inputs, python_rows
from sinkql.session.row.view_contents import WithContents, snapshot_of_views

if TYPE_CHECKING:
    from sinkql.planner.query.order_by import Order
    from sinkql.planner.query.plan import OneShotQuery

Row = tuple[Any, ...]


def select(statement: ast.Select, workspace: Workspace) -> Result:
    """Run a query."""
    query, plans = statement.query, workspace.catalog.plans
    files = resolve_files(query, plans, workspace.catalog.registry, CatalogAccess(workspace.catalog))
    match over_system(query, plans):
        case System.NONE:
            return run_select(query if files is None else files.query, workspace, files)
        case System.ALONE if files is None:
            return _select_system(query, workspace)
        case _:
            return _select_with_system(query, workspace, files)


def _select_system(query: ast.Query, workspace: Workspace) -> Result:
    """Run a query over system relations only, in SQLite if it can express the query."""
    from sinkql.catalog.system.general import select_or_plan  # loads sqlglot, which only queries need

    catalog = workspace.catalog
    result = select_or_plan(query, catalog.database, catalog.plans, lambda: _select_with_system(query, workspace, None))
    return result if isinstance(result, Result) else Result("SELECT", columns=result.columns, rows=result.rows)


def _select_with_system(query: ast.Query, workspace: Workspace, files: FileQuery | None) -> Result:
    """Run a query over system relations together with items and files."""
    catalog = workspace.catalog
    base = files or FileQuery(query, catalog.plans, {})
    system = {
        qualified_name(schema, name): SystemRows(relation, catalog.database)
        for (schema, name), relation in RELATIONS.items()
    }
    combined = FileQuery(base.query, SystemCatalog(base.plans), {**system, **base.files})
    return run_select(combined.query, workspace, combined)


def run_select(query: ast.Query, workspace: Workspace, files: FileQuery | None = None) -> Result:
    """Run a query over items and files."""
    from sinkql.planner.query.plan import plan_one_shot  # loads sqlglot, which only queries need

    plans = files.plans if files is not None else workspace.catalog.plans
    one_shot = plan_one_shot(query, plans, rows_now())
    with snapshot_of_views(one_shot.relation, workspace.catalog) as contents:
        limit = first_rows(one_shot, WithContents(plans, contents))
        inputs = Inputs(workspace, query.span, limit, files, contents)
        rows = rows_of(one_shot, workspace, inputs)
        inputs.notices.extend(contents.notices())
    visible = tuple(row[: one_shot.width] for row in rows)
    return Result("SELECT", tuple(inputs.notices), one_shot.names, visible, types=one_shot.types)


def rows_of(query: OneShotQuery, workspace: Workspace, inputs: Inputs) -> list[Row]:
    """Return the rows of a query, including columns that only order them. Use Spark if this process cannot."""
    rows = _rows_here(query.relation, inputs)
    if rows is None:
        return by_spark(query, workspace, inputs.rows, inputs.plans)
    ordered = in_order(rows, query.order)
    return ordered[query.offset : None if query.limit is None else query.offset + query.limit]


def _rows_here(relation: logical.Relation, inputs: Inputs) -> list[Row] | None:
    """Return the rows of a relation: of constants as for any plan, of items by the engine of small batches."""
    if reads_nothing(relation):
        constant_rows = evaluate.rows_of(relation, inputs.plans)
        try:
            return None if constant_rows is None else list(constant_rows(lambda name: []))
        except evaluate.NotEvaluableError:
            return None
    from sinkql.session.row.local_query import local_rows  # loads the engine, which constants do not need

    table = local_rows(relation, inputs)
    return None if table is None else python_rows(table)


def preview(name: ast.Name, workspace: Workspace, limit: int) -> Result:
    """Return the first rows of a relation."""
    head = "SELECT * FROM "
    text = f"{head}{print_name(name)} LIMIT {limit}"
    return select(ast.Select(ast.Query(text, Span(0, len(text)))), workspace)


def rows_now() -> datetime:
    """Return the present time in UTC, the time of a statement."""
    return datetime.now(UTC).replace(tzinfo=None)


def by_spark(
    once: OneShotQuery, workspace: Workspace, read: Callable[[str], Columns], plans: logical.CatalogReader | None = None
) -> list[Row]:
    """Run a query in Spark over all rows of its inputs. `plans` may have more than the session's catalog."""
    from sinkql.lowering.spark.query import QuerySql  # loads sqlglot

    text = QuerySql(plans or workspace.catalog.plans)
    sql = text.once(once)
    inputs = {name: read(full_name) for full_name, name in text.inputs.items()}
    result = workspace.spark.query(sql, inputs, [column.type for column in once.relation.shape.columns])
    return python_rows(result)


# --- in Python -----------------------------------------------------------------------------------------------------


def first_rows(once: OneShotQuery, catalog: logical.CatalogReader) -> int | None:
    """Return how many rows of its only relation a query needs; None if it may need all."""
    if once.order or once.limit is None or not _maps_rows(once.relation, catalog):
        return None
    return once.offset + once.limit


def _maps_rows(relation: logical.Relation, catalog: logical.CatalogReader) -> bool:
    """Return whether each row of a relation results from one row of its only item."""
    match relation:
        case logical.Get():
            item = catalog.item(relation.item)
            return _maps_rows(item.relation, catalog) if isinstance(item, logical.View) else True
        case logical.Project():
            return _maps_rows(relation.input, catalog)
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
    """Return sorted rows. The sort is stable."""
    ordered = list(rows)
    for term in reversed(order):
        nulls = [row for row in ordered if row[term.place] is None]
        values = [row for row in ordered if row[term.place] is not None]
        key = evaluate.order_key(term.type) or evaluate.comparable
        values.sort(key=lambda row: key(row[term.place]), reverse=term.descending)
        ordered = [*nulls, *values] if term.nulls_first else [*values, *nulls]
    return ordered
