"""Run ALTER SOURCE … ADD TABLE, DROP TABLE and REFRESH REFERENCES. Sinks continue to read their tables."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.operation import extending
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.drop import drop
from sinkql.session.item.plan_history import dependent_plans, stored_plan
from sinkql.session.result import Result
from sinkql.statement.operation import ChangeReferences
from sinkql.statement.plan import plan_drop
from sinkql.statement.references import definition_without_dropped, plan_extension, tables_to_drop

_TAG = "ALTER SOURCE"


def change_references(operation: ChangeReferences, catalog: Catalog) -> Result:
    """Drop tables of a source, or ask its server for its present tables and add new columns and tables."""
    entry, action = operation.entry, operation.action
    if isinstance(action, ast.DropReferences):
        for statement in tables_to_drop(operation, action, catalog):
            drop(plan_drop(statement, catalog), catalog)
        catalog.refresh()
        remaining = definition_without_dropped(operation, catalog.plans)
        catalog.change(extending({entry.name: (remaining, entry.facts)}, (), catalog.reader()))
        return Result(_TAG, names=(entry.name,))
    source = plan_extension(operation, action, catalog, CatalogAccess(catalog))
    following = dependent_plans([entry.name], catalog, source.after, action.span)
    changes = {entry.name: (source.definition, source.facts), **following}
    check = stored_plan([entry.name], catalog.plans, source.after)
    catalog.change(extending(changes, source.added, catalog.reader(), check=check))
    return Result(_TAG, source.notices, names=(entry.name, *source.names))
