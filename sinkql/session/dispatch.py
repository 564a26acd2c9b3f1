"""Call the function that runs a statement."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import setting
from sinkql.planner.item.setting import plan_setting
from sinkql.session.item import alter as item_alter
from sinkql.session.item.alter import alter, validate
from sinkql.session.item.create import create, create_many
from sinkql.session.item.drop import drop
from sinkql.session.item.references import alter_references
from sinkql.session.result import Result, Workspace
from sinkql.session.row import dml as change
from sinkql.session.row.query import select
from sinkql.session.row.subscribe import subscribe
from sinkql.session.show import explain, show, show_create, show_variable
from sinkql.session.sink.error_recovery import replay, skip
from sinkql.session.sink.maintenance import optimize, publish


def dispatch(statement: ast.Statement, workspace: Workspace) -> Result:
    """Run one statement against the session's catalog, which must be fresh. The session runs BEGIN and COMMIT."""
    match statement:
        case ast.Drop():
            return drop(statement, workspace.catalog)
        case ast.Show():
            return show(statement, workspace.catalog)
        case ast.ShowCreate():
            return show_create(statement, workspace.catalog)
        case ast.ShowVariable():
            return show_variable(statement, workspace.catalog)
        case ast.Alter(action=ast.Rename() | ast.Swap()):
            return item_alter.rename(statement, workspace.catalog)
        case ast.Alter(action=ast.Publish()):
            return publish(statement, workspace)
        case ast.Alter(action=ast.Skip()):
            return skip(statement, workspace)
        case ast.Alter(action=ast.SetOwner() as action):
            return item_alter.change_owner(statement, action, workspace.catalog)
        case ast.CommentOn():
            return item_alter.comment(statement, workspace.catalog)
        case ast.Alter(action=ast.AddReferences() | ast.DropReferences() | ast.RefreshReferences() as action):
            return alter_references(statement, action, workspace.catalog)
        case ast.Alter():
            return alter(statement, workspace.catalog)
        case ast.ValidateConnection():
            return validate(statement, workspace.catalog)
        case ast.AlterSystem():
            return _alter_system(statement, workspace.catalog)
        case ast.SetVariable():
            setting = plan_setting(statement)
            for name, value in setting.values:
                workspace.catalog.set_variable(name, value)
            return Result("SET", setting.notices, skipped=not setting.values)
        case ast.Explain():
            return explain(statement, workspace.catalog)
        case ast.Select():
            return select(statement, workspace)
        case ast.Insert() | ast.Update() | ast.Delete():
            return change.run_dml(statement, workspace)
        case ast.Transaction():
            raise AssertionError("the session begins and ends transactions")
        case ast.OptimizeSink():
            return optimize(statement, workspace)
        case ast.CreateSinks():
            return create_many(statement, workspace.catalog)
        case ast.ReplayErrors():
            return replay(statement, workspace)
        case ast.Subscribe():
            return subscribe(statement, workspace)
        case (
            ast.CreateSecret()
            | ast.CreateConnection()
            | ast.CreateCluster()
            | ast.CreateSource()
            | ast.CreateView()
            | ast.CreateSink()
            | ast.CreateDatabase()
            | ast.CreateSchema()
            | ast.CreateTable()
            | ast.CreateTableFrom()
            | ast.CreateProgress()
            | ast.CreateIndex()
        ):
            return create(statement, workspace.catalog)


def _alter_system(statement: ast.AlterSystem, catalog: Catalog) -> Result:
    setting = plan_setting(statement)
    for name, value in setting.values:
        _set_system(name, value, catalog)
    return Result("ALTER SYSTEM", setting.notices, skipped=not setting.values)


def _set_system(name: str, value: str, catalog: Catalog) -> None:
    while True:
        try:
            catalog.change(setting(name, value))
        except ChangedError:
            catalog.refresh()
        else:
            return
