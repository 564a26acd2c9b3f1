"""DROP → what goes, in which order: sinks first, then whatever reads, then what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sinkql import ast, logical
from sinkql.errors import Notice, SinkqlError, nearest
from sinkql.planner.later import check_kind
from sinkql.planner.name import BUILT_IN_CLUSTER, join_name, short_name, with_article

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
    named: list[str] = []
    notices = []
    for name in statement.names:
        full_name = _full_name(statement.kind, name, catalog)
        if statement.if_exists and catalog.entry(full_name) is None:
            notices.append(_skipped(statement.kind, name))
            continue
        _check(statement.kind, name, full_name, catalog)
        named.append(full_name)
    order = _closure(named, dependents)
    others = [each for each in order if each not in named]
    if others and not statement.cascade:
        raise _depended_on(statement, catalog, named, others)
    notices.extend(_also(catalog, each) for each in others)
    return Dropping(tuple(sorted(order, key=lambda each: not _sink(catalog, each))), tuple(notices))


def _full_name(kind: str, name: ast.Name, catalog: logical.CatalogReader) -> str:
    return join_name(name.parts[-1].value) if kind == "CLUSTER" else catalog.resolve(name)


def _check(kind: str, name: ast.Name, full_name: str, catalog: logical.CatalogReader) -> None:
    entry = catalog.entry(full_name)
    if entry is None:
        near = nearest(short_name(full_name), [short_name(each) for each in catalog.names(kind)])
        raise SinkqlError(
            "SQ2313" if kind == "CLUSTER" else "SQ2001",
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
    if full_name == BUILT_IN_CLUSTER:
        raise SinkqlError(
            "SQ2007",
            f'cluster "{name.text}" is built in',
            name.span,
            hint="Leave it: it takes nothing while nothing runs.",
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
    statement: ast.Drop, catalog: logical.CatalogReader, named: list[str], others: list[str]
) -> SinkqlError:
    listed = ", ".join(f'{_kind(catalog, each).lower()} "{short_name(each)}"' for each in sorted(others))
    subject = f'{statement.kind.lower()} "{short_name(named[0])}" is' if len(named) == 1 else "they are"
    span = next(name.span for name in statement.names if _full_name(statement.kind, name, catalog) in named)
    return SinkqlError(
        "SQ2006",
        f"{subject} still used",
        span,
        detail=f"used by {listed}",
        hint=f"Run DROP {statement.kind} {short_name(named[0])} CASCADE; to drop them too.",
    )


def _skipped(kind: str, name: ast.Name) -> Notice:
    return Notice("SQ2010", f'{kind.lower()} "{name.text}" does not exist, skipped', name.span)


def _also(catalog: logical.CatalogReader, full_name: str) -> Notice:
    return Notice("SQ2011", f'{_kind(catalog, full_name).lower()} "{short_name(full_name)}" is dropped too')
