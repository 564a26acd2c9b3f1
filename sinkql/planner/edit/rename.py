"""Plan ALTER … RENAME TO and SWAP WITH, and find the items of OWNER TO and COMMENT ON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sinkql import ast, logical
from sinkql.errors import MissingError, Notice, SinkqlError, nearest
from sinkql.logical.type import shown_name
from sinkql.planner.name import (
    SYSTEM_SCHEMAS,
    is_system,
    missing,
    named,
    qualified_name,
    short_name,
    split_name,
    with_article,
)
from sinkql.printer.clause import name as print_name

_RELATIONS = ("TABLE", "SOURCE", "VIEW", "MATERIALIZED VIEW")


@dataclass(frozen=True, slots=True)
class Renaming:
    """The renamed statements, as catalogs take them; empty if IF EXISTS found no item."""

    changes: Mapping[str, tuple[ast.Create, logical.Facts]]
    notices: tuple[Notice, ...] = ()


def plan_rename(statement: ast.Alter, catalog: logical.CatalogReader) -> Renaming:
    """Return the statements with new names; raise errors of `find_altered`, SQ2002 (taken) and SQ2005 (system)."""
    entry, notices = find_altered(statement, catalog)
    if entry is None:
        return Renaming({}, notices)
    match statement.action:
        case ast.Rename(to=to):
            return Renaming(_rename(entry, to, catalog))
        case ast.Swap(other=other):
            return Renaming(_swap(statement, entry, other, catalog))
        case _:
            raise AssertionError(statement.action)


def find_altered(
    statement: ast.Alter, catalog: logical.CatalogReader
) -> tuple[logical.Entry | None, tuple[Notice, ...]]:
    """Return the item to alter, or a notice if IF EXISTS found no item.

    Raises SQ2001, SQ2004 and SQ2313 (missing), SQ2003 (another kind), SQ2007 (built in).
    """
    kind, name = statement.kind, statement.name
    try:
        entry = catalog.entry(named(kind, name, catalog))
    except SinkqlError as error:
        if not statement.if_exists or not isinstance(error, MissingError):
            raise
        entry = None
    if entry is None and statement.if_exists:
        return None, (Notice("SQ2010", f'{kind.lower()} "{name.text}" does not exist, skipped', name.span),)
    if (entry is not None and entry.id.startswith("s")) or is_system(named(kind, name, catalog)):
        message = f'{kind.lower()} "{name.text}" is built in'
        raise SinkqlError("SQ2007", message, name.span, hint=f"Create another one with CREATE {kind}.")
    if entry is None:
        raise missing(catalog, name, kind)
    if entry.kind != kind:
        raise SinkqlError(
            "SQ2003",
            f'"{name.text}" is {with_article(entry.kind)}, not {with_article(kind)}',
            name.span,
            hint=f"Use the name of a {kind.lower()}."
            if isinstance(statement.action, ast.Publish | ast.Skip)
            else f"Write ALTER {entry.kind} {print_name(name)} ….",
        )
    return entry, ()


def find_commented(statement: ast.CommentOn, catalog: logical.CatalogReader) -> tuple[logical.Entry, int]:
    """Return the item to comment on, and the 1-based position of its column; 0 is for the item itself."""
    kind, name = statement.kind, statement.name
    if kind != "COLUMN":
        entry = catalog.entry(named(kind, name, catalog))
        if entry is None or entry.kind != kind:
            raise missing(catalog, name, kind)
        return entry, 0
    relation = ast.Name(name.parts[:-1], name.span)
    column = name.parts[-1]
    entry = catalog.entry(catalog.resolve(relation)) if relation.parts else None
    item = catalog.item(entry.name) if entry is not None else None
    if entry is None or not isinstance(item, logical.Source | logical.View):
        raise missing(catalog, relation if relation.parts else name, *_RELATIONS)
    names = [column.name for column in item.shape.columns]
    if column.value not in names:
        match = nearest(column.value, names)
        hint = (
            f"Did you mean {shown_name(match)}?" if match else f"The columns are {', '.join(map(shown_name, names))}."
        )
        raise SinkqlError("SQ2204", f'column "{column.value}" does not exist', column.span, hint=hint)
    return entry, names.index(column.value) + 1


def _rename(
    entry: logical.Entry, to: ast.Ident, catalog: logical.CatalogReader
) -> Mapping[str, tuple[ast.Create, logical.Facts]]:
    dot = "." if entry.name.endswith(".") else ""
    full_name = qualified_name(*split_name(entry.name)[:-1], to.value) + dot
    existing = catalog.entry(full_name)
    if entry.kind == "SCHEMA" and to.value in SYSTEM_SCHEMAS:
        raise SinkqlError("SQ2005", f'schema "{to.value}" is built in', to.span, hint="Choose another name.")
    if existing is not None:
        message = f'{existing.kind.lower()} "{short_name(full_name, catalog)}" already exists'
        raise SinkqlError("SQ2002", message, to.span, hint="Choose another name.")
    return {entry.name: (with_last_name(entry.statement, to), entry.facts)}


def _swap(
    statement: ast.Alter, entry: logical.Entry, other: ast.Ident, catalog: logical.CatalogReader
) -> Mapping[str, tuple[ast.Create, logical.Facts]]:
    around = statement.name.parts[:-1]
    swapped, _ = find_altered(
        ast.Alter(statement.kind, ast.Name((*around, other), other.span), statement.action), catalog
    )
    assert swapped is not None
    present_name = ast.Ident(split_name(entry.name)[-1], other.span)
    return {
        entry.name: (with_last_name(entry.statement, other), entry.facts),
        swapped.name: (with_last_name(swapped.statement, present_name), swapped.facts),
    }


def with_last_name(statement: ast.Create, to: ast.Ident) -> ast.Create:
    """Return a statement with full names under another last name."""
    name = statement.name
    match statement, name:
        case ((ast.CreateCluster() | ast.CreateDatabase() | ast.CreateIndex()), _):
            return replace(statement, name=to)
        case _, ast.Name(parts=parts):
            return replace(statement, name=ast.Name((*parts[:-1], to), to.span))
        case _:
            raise AssertionError(statement)
