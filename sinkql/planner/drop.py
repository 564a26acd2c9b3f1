"""DROP → what goes, in which order: sinks first, then whatever reads, then what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sinkql import ast, logical
from sinkql.errors import Notice, SinkqlError, nearest
from sinkql.planner.later import check_kind
from sinkql.planner.name import named, short_name, system, with_article

Dependents = Callable[[str], Iterable[str]]
"""Full names of the items that use an item directly."""


@dataclass(frozen=True, slots=True)
class Dropping:
    """Hold the full names to drop, in that order, and what the user should know."""

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
        _check(statement.kind, name, full_name, catalog)
        given.append(full_name)
    order = _closure(given, dependents)
    others = [each for each in order if each not in given]
    if others and not statement.cascade:
        raise _depended_on(statement, catalog, given, others)
    notices.extend(_also(catalog, each) for each in others)
    return Dropping(tuple(sorted(order, key=lambda each: not _sink(catalog, each))), tuple(notices))


def _full_name(statement: ast.Drop, name: ast.Name, catalog: logical.CatalogReader) -> str | None:
    """Return what a name stands for; None where not even its schema is there, and need not be."""
    try:
        return named(statement.kind, name, catalog)
    except SinkqlError as error:
        if statement.if_exists and error.code == "SQ2004":
            return None
        raise


def _check(kind: str, name: ast.Name, full_name: str, catalog: logical.CatalogReader) -> None:
    entry = catalog.entry(full_name)
    if (entry is not None and entry.id.startswith("s")) or system(full_name):
        raise SinkqlError(
            "SQ2007",
            f'{kind.lower()} "{name.text}" is built in',
            name.span,
            hint="Leave it: it takes nothing while nothing runs." if kind == "CLUSTER" else "Drop what you made in it.",
        )
    if entry is None:
        known = [short_name(each, catalog) for each in catalog.names(kind)]
        near = nearest(short_name(full_name, catalog), known)
        raise SinkqlError(
            "SQ2313" if kind == "CLUSTER" else "SQ2004" if full_name.endswith(".") else "SQ2001",
            f'{kind.lower()} "{name.text}" does not exist',
            name.span,
            hint=f'Did you mean "{near}"?'
            if near
            else f"Write DROP {kind} IF EXISTS {name.text}; to go on without it.",
        )
    if entry.kind != kind:
        raise SinkqlError(
            "SQ2003",
            f'"{name.text}" is {with_article(entry.kind)}, not {with_article(kind)}',
            name.span,
            hint=f"Write DROP {entry.kind} {name.text};",
        )


def _closure(named: list[str], dependents: Dependents) -> list[str]:
    """Return `named` and all that depends on them, each after everything that depends on it."""
    order: dict[str, None] = {}

    def visit(full_name: str) -> None:
        if full_name in order:
            return
        for dependent in dependents(full_name):
            visit(dependent)
        order[full_name] = None

    for full_name in named:
        visit(full_name)
    return list(order)


def _sink(catalog: logical.CatalogReader, full_name: str) -> bool:
    return _kind(catalog, full_name) == "SINK"


def _kind(catalog: logical.CatalogReader, full_name: str) -> str:
    entry = catalog.entry(full_name)
    assert entry is not None
    return entry.kind


def _depended_on(
    statement: ast.Drop, catalog: logical.CatalogReader, given: list[str], others: list[str]
) -> SinkqlError:
    kind, first = statement.kind, short_name(given[0], catalog)
    listed = ", ".join(f'{_kind(catalog, each).lower()} "{short_name(each, catalog)}"' for each in sorted(others))
    subject = f'{kind.lower()} "{first}" is' if len(given) == 1 else "they are"
    full = given[0].endswith(".")
    return SinkqlError(
        "SQ2006",
        f"{subject} {'not empty' if full else 'still used'}",
        next(name.span for name in statement.names if _full_name(statement, name, catalog) in given),
        detail=f"{'it holds' if full else 'used by'} {listed}",
        hint=f"Run DROP {kind} {first} CASCADE; to drop them too.",
    )


def _skipped(kind: str, name: ast.Name) -> Notice:
    return Notice("SQ2010", f'{kind.lower()} "{name.text}" does not exist, skipped', name.span)


def _also(catalog: logical.CatalogReader, full_name: str) -> Notice:
    return Notice("SQ2011", f'{_kind(catalog, full_name).lower()} "{short_name(full_name, catalog)}" is dropped too')
