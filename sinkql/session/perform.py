"""One statement → what it does in a session: every family of statements has its own place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinkql import ast
from sinkql.catalog.store import Catalog, ChangedError
from sinkql.planner.later import later
from sinkql.planner.setting import plan_setting, plan_settings
from sinkql.session import change, naming
from sinkql.session.alter import alter, validate
from sinkql.session.create import create
from sinkql.session.drop import drop
from sinkql.session.explain import explain
from sinkql.session.query import select
from sinkql.session.result import Result
from sinkql.session.show import show, show_create, show_variable

if TYPE_CHECKING:
    from sinkql.session.session import Session


def perform(statement: ast.Statement, session: Session) -> Result:
    """Run one statement against the session's catalog, which was just read."""
    match statement:
        case ast.Drop():
            return drop(statement, session.catalog)
        case ast.Show():
            return show(statement, session.catalog)
        case ast.ShowCreate():
            return show_create(statement, session.catalog)
        case ast.ShowVariable():
            return show_variable(statement, session.catalog)
        case ast.Alter(action=ast.Rename() | ast.Swap()):
            return naming.rename(statement, session.catalog)
        case ast.Alter(action=ast.SetOwner()):
            return naming.give(statement, session.catalog)
        case ast.CommentOn():
            return naming.comment(statement, session.catalog)
        case ast.Alter():
            return alter(statement, session.catalog)
        case ast.ValidateConnection():
            return validate(statement, session.catalog)
        case ast.AlterSystem():
            return _alter_system(statement, session.catalog)
        case ast.SetVariable():
            session.catalog.set_variable(*plan_setting(statement))
            return Result("SET")
        case ast.Explain():
            return explain(statement, session.catalog)
        case ast.Select():
            return select(statement, session)
        case ast.Insert() | ast.Update() | ast.Delete():
            return change.run(statement, session)
        case ast.Transaction():
            return session.transact(statement)
        case ast.OptimizeSink() | ast.ReplayErrors() | ast.Subscribe():
            raise later(statement)
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
            | ast.CreateIndex()
        ):
            return create(statement, session.catalog)


def _alter_system(statement: ast.AlterSystem, catalog: Catalog) -> Result:
    for name, value in plan_settings(statement):
        _set_system(name, value, catalog)
    return Result("ALTER SYSTEM")


def _set_system(name: str, value: str, catalog: Catalog) -> None:
    while True:
        try:
            catalog.set_system(name, value)
        except ChangedError:
            catalog.refresh()
        else:
            return
