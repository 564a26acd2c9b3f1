"""Run a statement: plan its operation, and call the function that executes it."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import setting
from sinkql.session.item.alter import alter, change_owner, comment, rename, validate
from sinkql.session.item.create import create, replace_item
from sinkql.session.item.drop import drop
from sinkql.session.item.references import change_references
from sinkql.session.result import Result, Workspace
from sinkql.session.row.dml import change_rows
from sinkql.session.row.query import select
from sinkql.session.row.subscribe import subscribe
from sinkql.session.show import explain, show, show_create, show_variable
from sinkql.session.sink.error_recovery import replay, skip
from sinkql.session.sink.maintenance import optimize, publish
from sinkql.statement import operation as operations
from sinkql.statement.plan import plan_statement, run_each


def dispatch(statement: ast.Statement, workspace: Workspace) -> Result:
    """Run one statement against the session's catalog. The session runs BEGIN and COMMIT.

    If another process changes the catalog during it, plan the statement again.
    """
    while True:
        workspace.catalog.refresh()
        try:
            return _execute(plan_statement(statement, workspace.catalog), workspace)
        except ChangedError:
            continue


def _execute(operation: operations.Operation, workspace: Workspace) -> Result:
    catalog = workspace.catalog
    match operation:
        case operations.SkipStatement(tag=tag, notices=notices, names=names):
            return Result(tag, notices, names=names, skipped=True)
        case operations.CreateItem():
            return create(operation, catalog)
        case operations.ReplaceItem():
            return replace_item(operation, catalog)
        case operations.CreateSinks():
            return _create_sinks(operation, workspace)
        case operations.DropItems():
            return drop(operation, catalog)
        case operations.AlterItem():
            return alter(operation, catalog)
        case operations.ChangeReferences():
            return change_references(operation, catalog)
        case operations.RenameItems():
            return rename(operation, catalog)
        case operations.SetOwner():
            return change_owner(operation, catalog)
        case operations.SetComment():
            return comment(operation, catalog)
        case operations.ChangeSettings():
            return _change_settings(operation, catalog)
        case operations.CheckConnection():
            return validate(operation, catalog)
        case operations.PublishBranch():
            return publish(operation, workspace)
        case operations.AcceptLoss():
            return skip(operation, workspace)
        case operations.CompactSink():
            return optimize(operation, workspace)
        case operations.ReplayRecords():
            return replay(operation, workspace)
        case operations.ChangeRows():
            return change_rows(operation, workspace)
        case operations.FollowRelation():
            return subscribe(operation, workspace)
        case operations.ShowDefinition():
            return show_create(operation, catalog)
        case operations.ReadRows(statement=statement):
            return _read(statement, workspace)


def _read(statement: ast.Select | ast.Show | ast.ShowVariable | ast.Explain, workspace: Workspace) -> Result:
    match statement:
        case ast.Select():
            return select(statement, workspace)
        case ast.Show():
            return show(statement, workspace.catalog)
        case ast.ShowVariable():
            return show_variable(statement, workspace.catalog)
        case ast.Explain():
            return explain(statement, workspace.catalog)


def _create_sinks(operation: operations.CreateSinks, workspace: Workspace) -> Result:
    """Create the sinks that do not exist. The session runs the statement in a transaction."""
    results = run_each(operation, lambda statement: dispatch(statement, workspace))
    notices = tuple(notice for result in results for notice in result.notices)
    return Result("CREATE SINKS", notices, names=tuple(name for result in results for name in result.names))


def _change_settings(operation: operations.ChangeSettings, catalog: Catalog) -> Result:
    for name, value in operation.values:
        if operation.system:
            catalog.change(setting(name, value))
        else:
            catalog.set_variable(name, value)
    tag = "ALTER SYSTEM" if operation.system else "SET"
    return Result(tag, operation.notices, skipped=not operation.values)
