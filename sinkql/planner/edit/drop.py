"""Plan DROP: the items to drop, in order: sinks first, then dependents before the items that they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from sinkql import ast, logical
from sinkql.connector_api.registry import Registry
from sinkql.errors import MissingError, Notice, SinkqlError, nearest
from sinkql.planner.dependency import in_order, reached
from sinkql.planner.name import is_system, named, short_name, sql_name, with_article
from sinkql.planner.unsupported import check_kind
from sinkql.printer.clause import name as print_name

Dependents = Callable[[str], Iterable[str]]
"""A function that returns the full names of the items that use an item directly."""


@dataclass(frozen=True, slots=True)
class Dropping:
    """The full names of the items to drop, in order, and notices for the user."""

    names: tuple[str, ...]
    notices: tuple[Notice, ...] = ()


def plan_drop(statement: ast.Drop, catalog: logical.CatalogReader, dependents: Dependents) -> Dropping:
    """Return the items to drop.

    Raises SQ2001, SQ2003, SQ2006 (in use), SQ2007 (built in).
    """
    check_kind(statement)
    named_items: list[str] = []
    notices = []
    for name in statement.names:
        full_name = _full_name(statement, name, catalog)
        if full_name is None or (statement.if_exists and catalog.entry(full_name) is None):
            notices.append(_skipped_notice(statement.kind, name))
            continue
        _check(statement, name, full_name, catalog, dependents)
        named_items.append(full_name)
    order = _dependents_first(named_items, dependents)
    others = [name for name in order if name not in named_items]
    if not statement.cascade and not all(_is_part(catalog, other) for other in others):
        raise _in_use_error(statement, catalog, named_items, others)
    notices.extend(_cascade_notice(catalog, other) for other in others)
    return Dropping(tuple(sorted(order, key=lambda name: not _is_sink(catalog, name))), tuple(notices))


def check_targets(
    statement: ast.Drop, names: Iterable[str], catalog: logical.CatalogReader, registry: Registry
) -> None:
    """Raise SQ2374 for DROP SINK … WITH TABLE of a sink that writes to no table."""
    for name in names if statement.with_table else ():
        sink = catalog.item(name)
        if isinstance(sink, logical.Sink) and registry.sinks[sink.kind].drop is None:
            raise SinkqlError(
                "SQ2374",
                f'sink "{short_name(name, catalog)}" writes to no table',
                next(
                    (written.span for written in statement.names if named("SINK", written, catalog) == name),
                    statement.span,
                ),
                hint="Leave out WITH TABLE.",
            )


def _is_part(catalog: logical.CatalogReader, full_name: str) -> bool:
    """Return whether an item is dropped together with its owner: the progress of a source, or an index."""
    entry = catalog.entry(full_name)
    return entry is not None and isinstance(entry.statement, ast.CreateProgress | ast.CreateIndex)


def _full_name(statement: ast.Drop, name: ast.Name, catalog: logical.CatalogReader) -> str | None:
    """Return the full name of an item, None if its schema is missing and IF EXISTS allows that."""
    try:
        return named(statement.kind, name, catalog)
    except SinkqlError as error:
        if statement.if_exists and isinstance(error, MissingError):
            return None
        raise


def _check(
    statement: ast.Drop, name: ast.Name, full_name: str, catalog: logical.CatalogReader, dependents: Dependents
) -> None:
    kind, entry = statement.kind, catalog.entry(full_name)
    if (entry is not None and entry.id.startswith("s")) or is_system(full_name):
        raise SinkqlError(
            "SQ2007",
            f'{kind.lower()} "{name.text}" is built in',
            name.span,
            hint="Leave it: an unused cluster needs no resources."
            if kind == "CLUSTER"
            else "Drop the items in it instead.",
        )
    if entry is None:
        names = [short_name(name, catalog) for name in catalog.names(kind)]
        match = nearest(short_name(full_name, catalog), names)
        raise MissingError(
            "SQ2313" if kind == "CLUSTER" else "SQ2004" if full_name.endswith(".") else "SQ2001",
            f'{kind.lower()} "{name.text}" does not exist',
            name.span,
            name=name.parts[-1].value,
            hint=f'Did you mean "{match}"?'
            if match
            else f"Write DROP {kind} IF EXISTS {print_name(name)}; to skip a missing item.",
        )
    if entry.kind != kind:
        raise SinkqlError(
            "SQ2003",
            f'"{name.text}" is {with_article(entry.kind)}, not {with_article(kind)}',
            name.span,
            hint=_other_kind_hint(statement, name, entry, catalog, dependents),
        )


def _other_kind_hint(
    statement: ast.Drop, name: ast.Name, entry: logical.Entry, catalog: logical.CatalogReader, dependents: Dependents
) -> str:
    """Return the hint to drop an item of another kind, with CASCADE if other items use it."""
    others = [dependent for dependent in _dependents_first([entry.name], dependents) if dependent != entry.name]
    if not others:
        return f"Write DROP {entry.kind} {print_name(name)};"
    also = "" if statement.cascade else f" this also drops {_items_text(others, catalog)}."
    return f"Write DROP {entry.kind} {print_name(name)} CASCADE;{also}"


def _items_text(names: list[str], catalog: logical.CatalogReader) -> str:
    return ", ".join(f'{_kind(catalog, name).lower()} "{short_name(name, catalog)}"' for name in sorted(names))


def _dependents_first(names: list[str], dependents: Dependents) -> list[str]:
    """Return `given` and all their dependents, each after all items that depend on it."""
    cached_dependents = cache(dependents)
    return in_order({name: cached_dependents(name) for name in reached(names, cached_dependents)})


def _is_sink(catalog: logical.CatalogReader, full_name: str) -> bool:
    return _kind(catalog, full_name) == "SINK"


def _kind(catalog: logical.CatalogReader, full_name: str) -> str:
    entry = logical.get_entry(catalog, full_name)
    return entry.kind


def _stores_rows(catalog: logical.CatalogReader, name: str) -> bool:
    entry = catalog.entry(name)
    return entry is not None and isinstance(entry.statement, ast.CreateTable)


def _in_use_error(
    statement: ast.Drop, catalog: logical.CatalogReader, names: list[str], others: list[str]
) -> SinkqlError:
    kind, first = statement.kind, short_name(names[0], catalog)
    subject = f'{kind.lower()} "{first}" is' if len(names) == 1 else "they are"
    is_container = names[0].endswith(".")
    rows = next((other for other in others if _stores_rows(catalog, other)), None)
    listed = ", ".join(sql_name(name, catalog) for name in names)
    lost = f', with the rows of table "{short_name(rows, catalog)}"' if rows is not None else ""
    return SinkqlError(
        "SQ2006",
        f"{subject} {'not empty' if is_container else 'still used'}",
        next(name.span for name in statement.names if _full_name(statement, name, catalog) in names),
        detail=f"{'it contains' if is_container else 'used by'} {_items_text(others, catalog)}",
        hint=f"DROP {kind} {listed} CASCADE; also drops them{lost}."
        if lost
        else f"Run DROP {kind} {listed} CASCADE; to drop them as well.",
    )


def _skipped_notice(kind: str, name: ast.Name) -> Notice:
    return Notice("SQ2010", f'{kind.lower()} "{name.text}" does not exist, skipped', name.span)


def _cascade_notice(catalog: logical.CatalogReader, full_name: str) -> Notice:
    return Notice("SQ2011", f'{_kind(catalog, full_name).lower()} "{short_name(full_name, catalog)}" is dropped too')
