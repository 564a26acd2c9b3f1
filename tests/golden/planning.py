"""The golden commands `exec`, `plan`, `purify` and `job`: run statements over the catalog of a golden file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.planning import PlanningContext, SourcePlan
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import Notice, SinkqlError
from sinkql.explain import to_text
from sinkql.lowering.job import lower_sink
from sinkql.lowering.spark.query import job_sql
from sinkql.object_store.store import ObjectStore
from sinkql.parser import parse
from sinkql.planner import plan as plan_item
from sinkql.planner.item.sink import expand
from sinkql.printer import to_sql
from sinkql.statement.in_memory import InMemoryItems
from sinkql.statement.operation import AlterItem, ChangeSettings, DropItems, Operation, SkipStatement
from sinkql.statement.plan import plan_statement
from support.keywords import WORDS


def catalog_of(things: dict[str, object], argument: str = "") -> MemoryCatalog:
    """Return the catalog of a golden file, created on first use; `odd types` adds sources with unusual columns."""
    registry = discover()
    if argument == "odd types":
        registry = with_odd_types(registry)
    catalog = things.setdefault("catalog", MemoryCatalog(registry))
    assert isinstance(catalog, MemoryCatalog)
    return catalog


def with_odd_types(registry: Registry) -> Registry:
    """Return a registry with load generators of shapes that no source has: odd types, and rows overwritten by key."""
    counter = registry.sources["LOAD GENERATOR COUNTER"]

    def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
        name = statement.kind.removeprefix("LOAD GENERATOR ")
        return SourcePlan({"holes": True} if name == "MARKETING" else {}, _ODD[name])

    names = [f"LOAD GENERATOR {name}" for name in _ODD]
    odd = {name: replace(counter, name=name, plan=plan) for name in names}
    return replace(registry, sources=registry.sources | odd)


_ID = logical.Column("id", logical.Type("bigint"), nullable=False)
_ODD = {
    "DATUMS": logical.Shape(
        (_ID, logical.Column("owner", logical.Type("regproc")), logical.Column("rights", logical.Type("aclitem")))
    ),
    "CLOCK": logical.Shape((_ID, logical.Column("took", logical.Type("interval")))),
    "KEY VALUE": logical.Shape(
        (_ID, logical.Column("value", logical.Type("text"))), (frozenset({"id"}),), logical.Change.UPSERT
    ),
    "MARKETING": logical.Shape(
        (_ID, logical.Column("body", logical.Type("text"))), (frozenset({"id"}),), logical.Change.UPSERT
    ),
}


def plan(text: str, catalog: MemoryCatalog) -> str:
    """Return each statement's plan and notices, up to the first error; the items before it remain."""
    return _run(text, catalog, verbose=True)


def execute(text: str, catalog: MemoryCatalog) -> str:
    """Add the items of all statements, up to the first error; return only their names."""
    return _run(text, catalog, verbose=False)


def purify(text: str, catalog: MemoryCatalog) -> str:
    """Return the facts that purification learns about a sink, without adding the sink."""
    (statement,) = parse(text, WORDS)
    assert isinstance(statement, ast.CreateSink)
    registry = discover()
    item = plan_item(statement, {}, catalog, registry).item
    assert isinstance(item, logical.Sink)
    find = registry.sinks[item.kind].facts
    assert find is not None
    try:
        return str(find(statement, item, _Access(catalog, registry)))
    except SinkqlError as error:
        error.detail = None  # the detail has the words of a library or a system
        raise


def job(text: str, catalog: MemoryCatalog) -> str:
    """Return a sink's job and its SQL, without adding the sink."""
    (statement,) = parse(text, WORDS)
    assert isinstance(statement, ast.CreateSink)
    item = plan_item(statement, {}, catalog, discover()).item
    assert isinstance(item, logical.Sink)
    lowered = lower_sink(item, catalog)
    return "\n".join(filter(None, [to_text(lowered), job_sql(lowered)]))


@dataclass(frozen=True)
class _Access:
    """Access to the outside with the catalog's connections; the value of each secret is its name."""

    catalog: MemoryCatalog
    registry: Registry

    def secret(self, full_name: str) -> str:
        return full_name

    def connection(self, full_name: str) -> logical.Connection:
        item = self.catalog.item(full_name)
        assert isinstance(item, logical.Connection)
        return item

    def store(self, full_name: str) -> ObjectStore:
        connection = self.connection(full_name)
        return self.registry.store(connection.kind, connection.options, self.secret)

    def path(self, option: str) -> Path:
        return Path(option)


def _run(text: str, catalog: MemoryCatalog, *, verbose: bool) -> str:
    lines: list[str] = []
    try:
        for statement in parse(text, WORDS):
            lines.extend(_outcome(statement, text, catalog, verbose=verbose))
    except SinkqlError as error:
        lines.append(error.within(path=None, text=text).shown())
    return "\n".join(lines)


def _outcome(statement: ast.Statement, text: str, catalog: MemoryCatalog, *, verbose: bool) -> list[str]:
    match statement:
        case _ if isinstance(statement, ast.Create):
            planned = catalog.add(statement, {})
        case ast.CreateSinks():
            made = expand(statement, catalog)
            dry_run = catalog.copy()
            notices = [show_notice(notice, text) for each in made for notice in dry_run.add(each, {}).notices]
            return [to_sql(each, redacted=WORDS) for each in made] + notices
        case _:
            items = InMemoryItems(catalog, lambda statement, name: {})
            operation = plan_statement(statement, items)
            notices = [show_notice(notice, text) for notice in items.apply(operation)]
            return _changes(operation) + notices
    shown = [to_text(planned.item)] if verbose else [planned.item.name]
    if verbose and isinstance(planned.item, logical.Sink):
        shown.extend(f"  {name.replace('_', ' ')}: {value}" for name, value in planned.item.options.items())
    if verbose and planned.dependencies:
        shown.append("  depends on: " + ", ".join(planned.dependencies))
    return shown + [show_notice(each, text) for each in planned.notices]


def _changes(operation: Operation) -> list[str]:
    match operation:
        case DropItems(names=names):
            return [f"drop {name}" for name in names]
        case AlterItem(definition=definition):
            return [to_sql(definition, redacted=WORDS)]
        case ChangeSettings(values=values):
            return [f"{name} = {value}" for name, value in values]
        case SkipStatement():
            return []
        case _:
            raise AssertionError(operation)


def show_notice(notice: Notice, text: str) -> str:
    """Return a notice as the user sees it."""
    error = SinkqlError(notice.code, notice.message, notice.span, hint=notice.hint, text=text)
    return error.shown(level="notice")
