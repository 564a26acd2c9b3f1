"""ALTER → an item's new statement in the catalog; VALIDATE CONNECTION → whether the other side answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.secret import given
from sinkql.catalog.store import Catalog, ChangedError
from sinkql.codegen import lower
from sinkql.errors import SinkqlError, Span
from sinkql.planner.alter import Altering, plan_alter
from sinkql.planner.name import find, short_name
from sinkql.session.create import validate_connection
from sinkql.session.result import Result
from sinkql.session.world import CatalogWorld


def alter(statement: ast.Alter, catalog: Catalog) -> Result:
    """Change an item; whoever runs a sink that depends on it follows. Nothing changes if anything is wrong.

    Raises what `plan_alter` raises, SQ2016 where dependents would not plan, and what the outside answers of the altered
    connection and of all sinks that depend on the item.
    """
    while True:
        catalog.refresh()
        altering = plan_alter(statement, catalog.reader(), catalog.registry)
        tag = f"ALTER {statement.kind}"
        if altering.statement is None:
            return Result(tag, altering.notices, skipped=True)
        try:
            _store(statement, altering, catalog)
        except ChangedError:
            continue
        return Result(tag, altering.notices, names=(altering.name,))


def _store(statement: ast.Alter, altering: Altering, catalog: Catalog) -> None:
    if isinstance(altering.statement, ast.CreateSecret):
        catalog.rotate(altering.name, given(altering.statement.value))
        return
    if altering.name not in catalog.broken:
        after = catalog.plans.copy()
        after.update(altering.changes)
        if altering.follows:
            altering = _following(altering, catalog.plans, after)
        _ask_outside(statement, altering, after, catalog)
    catalog.update(altering.changes)


def _following(altering: Altering, before: MemoryCatalog, after: MemoryCatalog) -> Altering:
    """Note the plan that the sink's table was written by, so that the new one may go on in it."""
    old, new = lower(altering.name, before).plan, lower(altering.name, after).plan
    facts = altering.facts or {}
    plans = [plan for plan in facts.get("plans", ()) if plan != old]
    return altering if old == new else replace(altering, facts={**facts, "plans": [*plans, old]})


def _ask_outside(statement: ast.Alter, altering: Altering, after: MemoryCatalog, catalog: Catalog) -> None:
    """Check what the altered item, and the sinks that depend on it, reach."""
    world = CatalogWorld(catalog, after)
    altered, item, action = altering.statement, after.item(altering.name), statement.action
    if isinstance(altered, ast.CreateConnection) and isinstance(action, ast.ChangeConnection):
        assert isinstance(item, logical.Connection)
        validate_connection(replace(altered, validate=action.validate), item, catalog, world)
        if action.validate is False:
            return
    for name in _sinks(altering.name, after):
        entry, sink = after.entry(name), after.item(name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateSink)
        assert isinstance(sink, logical.Sink)
        find_target = catalog.registry.sinks[sink.kind].facts
        if find_target is None:
            continue
        # The rows that are in the table already are the sink's own.
        own = replace(sink, options={**sink.options, "existing_rows": "keep"})
        try:
            find_target(entry.statement, own, world)
        except SinkqlError as error:
            raise _of_sink(error, name, altering.name, action.span) from error


def _sinks(name: str, after: MemoryCatalog) -> Iterator[str]:
    """Yield the sinks that depend on an item, which may be one itself."""
    entry = after.entry(name)
    if entry is not None and entry.kind == "SINK":
        yield name
    seen, waiting = {name}, [name]
    while waiting:
        for user in after.dependents(waiting.pop()):
            if user in seen:
                continue
            seen.add(user)
            waiting.append(user)
            found = after.entry(user)
            if found is not None and found.kind == "SINK":
                yield user


def _of_sink(error: SinkqlError, sink: str, altered: str, span: Span) -> SinkqlError:
    message = error.message if sink == altered else f'sink "{short_name(sink)}": {error.message}'
    return SinkqlError(error.code, message, span, detail=error.detail, hint=error.hint)


def validate(statement: ast.ValidateConnection, catalog: Catalog) -> Result:
    """Check that a connection's other side answers; raises SQ2984 where nothing can be asked, and SQ4… ."""
    entry = find(catalog.plans, statement.name, "CONNECTION")
    connection = catalog.plans.item(entry.name)
    assert isinstance(connection, logical.Connection)
    check = catalog.registry.connections[connection.kind].validate
    if check is None:
        raise SinkqlError(
            "SQ2984",
            f"VALIDATE CONNECTION of a connection to {connection.kind} is not supported yet",
            statement.name.span,
            hint="Create a sink or a source that uses it: that reaches the other side.",
        )
    try:
        check(connection, CatalogWorld(catalog))
    except SinkqlError as error:
        error.span = error.span or statement.name.span
        raise
    return Result("VALIDATE CONNECTION", names=(entry.name,))
