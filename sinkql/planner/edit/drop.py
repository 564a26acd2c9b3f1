"""DROP → what goes, in which order: sinks first, then whatever reads, then what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from sinkql import ast, logical
from sinkql.connector_api.registry import Registry
from sinkql.errors import MissingError, Notice, SinkqlError, nearest
from sinkql.planner.dependency import in_order, reached
from sinkql.planner.name import named, short_name, sql_name, system, with_article
from sinkql.planner.unsupported import check_kind
from sinkql.printer.clause import name as print_name

Dependents = Callable[[str], Iterable[str]]
"""Full names of the items that use an item directly."""


@dataclass(frozen=True, slots=True)
class Dropping:
    """The full names to drop, in that order, and what the user should know."""

    names: tuple[str, ...]
    notices: tuple[Notice, ...] = ()


def plan_drop(statement: ast.Drop, catalog: logical.CatalogReader, dependents: Dependents) -> Dropping:
    """Return what DROP takes away. Raises SQ2001, SQ2003, SQ2006 (others depend on it), SQ2007 (built in)."""
    check_kind(statement)
    given: list[str] = []
    notices = []
    for name in statement.names:
        full_name = _full_name(statement, name, catalog)
        if statement.if_exists and (full_name is None or catalog.entry(full_name) is None):
            notices.append(_skipped(statement.kind, name))
            continue
        assert full_name is not None
        _check(statement, name, full_name, catalog, dependents)
        given.append(full_name)
    order = _dependents_first(given, dependents)
    others = [each for each in order if each not in given]
    if not statement.cascade and not all(_goes_along(catalog, each) for each in others):
        raise _depended_on(statement, catalog, given, others)
    notices.extend(_also(catalog, each) for each in others)
    return Dropping(tuple(sorted(order, key=lambda each: not _sink(catalog, each))), tuple(notices))


def check_targets(
    statement: ast.Drop, names: Iterable[str], catalog: logical.CatalogReader, registry: Registry
) -> None:
    """Raise SQ2374 where a sink that is to be dropped with its table writes to no table."""
    for name in names if statement.with_table else ():
        sink = catalog.item(name)
        if isinstance(sink, logical.Sink) and registry.sinks[sink.kind].drop is None:
            raise SinkqlError(
                "SQ2374",
                f'sink "{short_name(name, catalog)}" writes to no table',
                next((each.span for each in statement.names if named("SINK", each, catalog) == name), statement.span),
                hint="Leave out WITH TABLE.",
            )


def _goes_along(catalog: logical.CatalogReader, full_name: str) -> bool:
    """Tell whether an item goes with what it is of: the progress of a source, and an index."""
    entry = catalog.entry(full_name)
    return entry is not None and isinstance(entry.statement, ast.CreateProgress | ast.CreateIndex)


def _full_name(statement: ast.Drop, name: ast.Name, catalog: logical.CatalogReader) -> str | None:
    """Return what a name stands for; None where not even its schema is there, and need not be."""
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
    if (entry is not None and entry.id.startswith("s")) or system(full_name):
        raise SinkqlError(
            "SQ2007",
            f'{kind.lower()} "{name.text}" is built in',
            name.span,
            hint="Keep it: it uses nothing while nothing runs."
            if kind == "CLUSTER"
            else "Drop the items in it instead.",
        )
    if entry is None:
        known = [short_name(each, catalog) for each in catalog.names(kind)]
        near = nearest(short_name(full_name, catalog), known)
        raise MissingError(
            "SQ2313" if kind == "CLUSTER" else "SQ2004" if full_name.endswith(".") else "SQ2001",
            f'{kind.lower()} "{name.text}" does not exist',
            name.span,
            name=name.parts[-1].value,
            hint=f'Did you mean "{near}"?'
            if near
            else f"Write DROP {kind} IF EXISTS {print_name(name)}; to go on without it.",
        )
    if entry.kind != kind:
        raise SinkqlError(
            "SQ2003",
            f'"{name.text}" is {with_article(entry.kind)}, not {with_article(kind)}',
            name.span,
            hint=_of_its_kind(statement, name, entry, catalog, dependents),
        )


def _of_its_kind(
    statement: ast.Drop, name: ast.Name, entry: logical.Entry, catalog: logical.CatalogReader, dependents: Dependents
) -> str:
    """Return the hint to drop an item of another kind, which has to say CASCADE where others use it."""
    others = [each for each in _dependents_first([entry.name], dependents) if each != entry.name]
    if not others:
        return f"Write DROP {entry.kind} {print_name(name)};"
    also = "" if statement.cascade else f" that drops {_listed(others, catalog)} too."
    return f"Write DROP {entry.kind} {print_name(name)} CASCADE;{also}"


def _listed(names: list[str], catalog: logical.CatalogReader) -> str:
    return ", ".join(f'{_kind(catalog, each).lower()} "{short_name(each, catalog)}"' for each in sorted(names))


def _dependents_first(given: list[str], dependents: Dependents) -> list[str]:
    """Return `given` and all that depends on them, each after everything that depends on it."""
    known = cache(dependents)
    return in_order({name: known(name) for name in reached(given, known)})


def _sink(catalog: logical.CatalogReader, full_name: str) -> bool:
    return _kind(catalog, full_name) == "SINK"


def _kind(catalog: logical.CatalogReader, full_name: str) -> str:
    entry = catalog.entry(full_name)
    assert entry is not None
    return entry.kind


def _keeps_rows(catalog: logical.CatalogReader, name: str) -> bool:
    entry = catalog.entry(name)
    return entry is not None and isinstance(entry.statement, ast.CreateTable)


def _depended_on(
    statement: ast.Drop, catalog: logical.CatalogReader, given: list[str], others: list[str]
) -> SinkqlError:
    kind, first = statement.kind, short_name(given[0], catalog)
    subject = f'{kind.lower()} "{first}" is' if len(given) == 1 else "they are"
    full = given[0].endswith(".")
    rows = next((each for each in others if _keeps_rows(catalog, each)), None)
    all_of_them = ", ".join(sql_name(each, catalog) for each in given)
    lost = f', with the rows of table "{short_name(rows, catalog)}"' if rows is not None else ""
    return SinkqlError(
        "SQ2006",
        f"{subject} {'not empty' if full else 'still used'}",
        next(name.span for name in statement.names if _full_name(statement, name, catalog) in given),
        detail=f"{'it contains' if full else 'used by'} {_listed(others, catalog)}",
        hint=f"DROP {kind} {all_of_them} CASCADE; drops them too{lost}."
        if lost
        else f"Run DROP {kind} {all_of_them} CASCADE; to drop them too.",
    )


def _skipped(kind: str, name: ast.Name) -> Notice:
    return Notice("SQ2010", f'{kind.lower()} "{name.text}" does not exist, skipped', name.span)


def _also(catalog: logical.CatalogReader, full_name: str) -> Notice:
    return Notice("SQ2011", f'{_kind(catalog, full_name).lower()} "{short_name(full_name, catalog)}" is dropped too')
