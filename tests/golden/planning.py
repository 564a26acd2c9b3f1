"""The golden commands `exec` and `plan`: statements → what they mean, over the catalog of the file they stand in."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.errors import Notice, SinkqlError, render
from sinkql.explain import to_text
from sinkql.parser import parse
from sinkql.planner import plan_drop
from sinkql.planner.setting import plan_setting


def plan(text: str, catalog: MemoryCatalog) -> str:
    """Return each statement's meaning and notices, up to the first error; what was right is kept."""
    return _run(text, catalog, verbose=True)


def execute(text: str, catalog: MemoryCatalog) -> str:
    """Keep all items, and return their names alone."""
    return _run(text, catalog, verbose=False)


def _run(text: str, catalog: MemoryCatalog, *, verbose: bool) -> str:
    lines: list[str] = []
    try:
        for statement in parse(text):
            lines.extend(_outcome(statement, text, catalog, verbose=verbose))
    except SinkqlError as error:
        lines.append(render(error.within(path=None, text=text)))
    return "\n".join(lines)


def _outcome(statement: ast.Statement, text: str, catalog: MemoryCatalog, *, verbose: bool) -> list[str]:
    match statement:
        case ast.CreateSecret() | ast.CreateConnection() | ast.CreateCluster() | ast.CreateSource() | ast.CreateView():
            planned = catalog.add(statement, {})
        case ast.CreateSink():
            planned = catalog.add(statement, {})
        case ast.Drop():
            dropping = plan_drop(statement, catalog, catalog.dependents)
            for name in dropping.names:
                catalog.remove(name)
            return [f"drop {name}" for name in dropping.names] + [_notice(each, text) for each in dropping.notices]
        case ast.AlterSystem() | ast.SetVariable():
            name, value = plan_setting(statement)
            catalog.set(name, value)
            return [f"{name} = {value}"]
        case _:
            raise AssertionError(statement)
    shown = [to_text(planned.item)] if verbose else [planned.item.name]
    if verbose and planned.dependencies:
        shown.append("  depends on: " + ", ".join(planned.dependencies))
    return shown + [_notice(each, text) for each in planned.notices]


def _notice(notice: Notice, text: str) -> str:
    error = SinkqlError(notice.code, notice.message, notice.span, hint=notice.hint, text=text)
    return render(error, level="notice")
