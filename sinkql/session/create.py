"""CREATE → an item in the catalog: planned, purified, planned with its facts, stored."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sinkql import ast, logical
from sinkql.catalog.row import Stored
from sinkql.catalog.secret import SecretValue, given
from sinkql.catalog.store import Catalog, ChangedError
from sinkql.connectors.table.file import create as make_table
from sinkql.connectors.table.file import remove as remove_table
from sinkql.connectors.table.place import table_path
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.mask import without_literal
from sinkql.planner import Planned, plan, qualify
from sinkql.planner.name import short_name
from sinkql.planner.scope import Scope
from sinkql.planner.statement import item_name, kind_of
from sinkql.printer import to_sql
from sinkql.session.follow import following
from sinkql.session.result import Result
from sinkql.session.world import CatalogWorld

_NOT_VALIDATED_BY_DEFAULT = ("AWS", "GCP", "AWS PRIVATELINK", "SSH TUNNEL")


def create(statement: ast.Create, catalog: Catalog) -> Result:
    """Make an item, unless the same one is there already; SQ2014 if another one of its name is."""
    facts: dict[str, Any] | None = None
    while True:
        catalog.refresh()
        stored = catalog.stored(item_name(statement, catalog.plans))
        replaces = stored is not None and _replaces(statement, stored, catalog)
        if stored is not None and not replaces:
            return _present(statement, stored, catalog)
        if stored is None and statement.if_not_exists and _built_in(statement, catalog):
            return _skipped(statement, item_name(statement, catalog.plans), catalog)
        try:
            if stored is not None:
                return _replace(statement, stored, catalog)
            planned = plan(statement, facts or {}, catalog.plans, catalog.registry)
            if facts is None:
                facts = purify(statement, planned, catalog)
                planned = plan(statement, facts, catalog.plans, catalog.registry)
            secret = given(statement.value) if isinstance(statement, ast.CreateSecret) else None
            catalog.add(qualify(statement, catalog.plans), facts, secret=secret)
            return _made(statement, planned)
        except ChangedError:
            continue
        except BaseException:
            _undo(facts or {}, catalog)
            raise


def _undo(facts: Mapping[str, Any], catalog: Catalog) -> None:
    """Take back what purifying made outside of the catalog."""
    if "table_id" in facts:
        remove_table(table_path(catalog.database.path.parent, facts["table_id"], ""))


def _replace(statement: ast.Create, stored: Stored, catalog: Catalog) -> Result:
    """Put the statement in the place of an item of its name and kind, whose id and users stay."""
    others = catalog.plans.copy()
    if stored.name not in catalog.broken:
        others.remove(stored.name)
    planned = plan(statement, stored.facts, others, catalog.registry)  # its errors point into the user's text
    changes = {stored.name: (qualify(statement, catalog.plans), stored.facts)}
    if stored.name not in catalog.broken:
        after = catalog.plans.copy()
        after.update(changes)
        changes |= following(catalog.plans, after, _name_span(statement))
    catalog.update(changes)
    return _made(statement, planned)


def _made(statement: ast.Create, planned: Planned) -> Result:
    return Result(f"CREATE {kind_of(statement)}", planned.notices, names=(planned.item.name,))


def purify(statement: ast.Create, planned: Planned, catalog: Catalog) -> dict[str, Any]:
    """Ask the outside what planning needs to know, and check what it will need to reach."""
    world = CatalogWorld(catalog)
    match statement, planned.item:
        case ast.CreateConnection(), logical.Connection() as connection:
            validate_connection(statement, connection, catalog, world)
            return {}
        case ast.CreateSource(), logical.Source():
            find = catalog.registry.sources[statement.kind].facts
            return dict(find(statement, Scope(catalog.plans, catalog.registry), world)) if find else {}
        case ast.CreateSink(), logical.Sink() as sink:
            find_target = catalog.registry.sinks[statement.kind].facts
            found = find_target(statement, sink, world) if find_target else {}
            return {**found, "sink_id": str(uuid.uuid4())}
        case ast.CreateTable(), logical.Source():
            table_id = str(uuid.uuid4())
            make_table(table_path(catalog.database.path.parent, table_id, planned.item.name))
            return {"table_id": table_id}
        case _:
            return {}


def validate_connection(
    statement: ast.CreateConnection, connection: logical.Connection, catalog: Catalog, world: CatalogWorld
) -> None:
    """Check that the other side answers, where its kind is checked by default or the statement asks for it."""
    check = catalog.registry.connections[statement.kind].validate
    default = (
        catalog.plans.setting("enable_default_connection_validation") == "true"
        and statement.kind not in _NOT_VALIDATED_BY_DEFAULT
    )
    wanted = default if statement.validate is None else statement.validate
    if check is None or not wanted:
        return
    try:
        check(connection, world)
    except SinkqlError as error:
        if error.span is None:
            error.span = statement.kind_span
        raise


# --- what is there already -------------------------------------------------------------------------------------------


def _built_in(statement: ast.Create, catalog: Catalog) -> bool:
    """Tell whether what a statement makes is there without being stored."""
    entry = catalog.plans.entry(item_name(statement, catalog.plans))
    return entry is not None and entry.kind == kind_of(statement) and entry.id.startswith("s")


def _skipped(statement: ast.Create, full_name: str, catalog: Catalog) -> Result:
    kind = kind_of(statement)
    message = f'{kind.lower()} "{short_name(full_name, catalog.reader())}" already exists, skipped'
    notice = Notice("SQ2012", message, _name_span(statement))
    return Result(f"CREATE {kind}", (notice,), names=(full_name,), skipped=True)


def _present(statement: ast.Create, stored: Stored, catalog: Catalog) -> Result:
    """Say that an item of that name is there: a notice if it is the same, or if the statement leaves it be."""
    kind, name, span = kind_of(statement), short_name(stored.name, catalog.reader()), _name_span(statement)
    tag = f"CREATE {kind}"
    if stored.kind != kind:
        raise SinkqlError(
            "SQ2002",
            f'{stored.kind.lower()} "{name}" already exists',
            span,
            hint=f"Choose another name, or run DROP {stored.kind} {name}; before it.",
        )
    difference = _difference(statement, stored, catalog)
    if not difference:
        return _skipped(statement, stored.name, catalog)
    if statement.if_not_exists:
        notice = Notice("SQ2013", f'{kind.lower()} "{name}" already exists and is different, skipped', span)
        return Result(tag, (notice,), names=(stored.name,), skipped=True)
    raise SinkqlError(
        "SQ2014",
        f'{kind.lower()} "{name}" already exists and is different',
        span,
        detail=difference,
        hint=f"Choose another name, or run DROP {kind} {name}; before it.",
    )


def _difference(statement: ast.Create, stored: Stored, catalog: Catalog) -> str:
    """Return what differs, stored lines with a minus and new ones with a plus; empty if nothing does."""
    new = without_literal(qualify(statement, catalog.plans))
    if to_sql(new) == stored.create_sql:
        return "its value is another" if _other_value(statement, stored, catalog) else ""
    old_lines, new_lines = stored.redacted_sql.splitlines(), to_sql(new, redacted=True).splitlines()
    lines = list(difflib.unified_diff(old_lines, new_lines, lineterm="", n=0))[2:]
    shown = [line for line in lines if not line.startswith("@@")]
    return "\n".join(shown) if shown else "a text that is not shown here is another"


def _other_value(statement: ast.Create, stored: Stored, catalog: Catalog) -> bool:
    if not isinstance(statement, ast.CreateSecret):
        return False
    value: SecretValue | None = given(statement.value).value
    return value is not None and catalog.secret(stored.name) != value


def _replaces(statement: ast.Create, stored: Stored, catalog: Catalog) -> bool:
    """Tell whether OR REPLACE puts the statement in the place of another."""
    if not isinstance(statement, ast.CreateView) or not statement.or_replace or stored.kind != kind_of(statement):
        return False
    return bool(_difference(replace(statement, or_replace=False), stored, catalog))


def _name_span(statement: ast.Create) -> Span:
    return statement.name.span if statement.name is not None else statement.span
