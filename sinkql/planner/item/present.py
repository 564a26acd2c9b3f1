"""CREATE of what is there already → a notice where it is the same, else an error that shows what differs."""

from __future__ import annotations

import difflib

from sinkql import ast, logical
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.planner.item.statement import changing, kind_of, replacing
from sinkql.planner.name import short_name, sql_name


def existing_item(
    statement: ast.Create,
    full_name: str,
    kind: str,
    difference: str,
    catalog: logical.CatalogReader,
    *,
    rows: bool = False,
) -> Notice:
    """Return the notice for an item that exists; raises SQ2002 for one of another kind, SQ2014 if it is different.

    `rows` tells whether it is a table that keeps rows itself.
    """
    name, span = short_name(full_name, catalog), name_span(statement)
    called, used = sql_name(full_name, catalog), bool(catalog.dependents(full_name))
    hint = replacing(kind, called, rows=rows, used=used)
    if kind != kind_of(statement):
        raise SinkqlError("SQ2002", f'{kind.lower()} "{name}" already exists', span, hint=hint)
    about = f'{kind.lower()} "{name}" already exists'
    if not difference:
        return Notice("SQ2012", f"{about}, skipped", span)
    if statement.if_not_exists:
        return Notice("SQ2013", f"{about} and is different, skipped", span)
    raise SinkqlError(
        "SQ2014",
        f"{about} and is different",
        span,
        detail=difference,
        hint=changing(kind, called, rows=rows, used=used),
    )


def definition_diff(old_redacted: str, new_redacted: str) -> str:
    """Return what differs between two texts that do: old lines with a minus, new ones with a plus."""
    lines = list(difflib.unified_diff(old_redacted.splitlines(), new_redacted.splitlines(), lineterm="", n=0))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@")) or "a hidden string changes"


def built_in(statement: ast.Create, entry: logical.Entry | None) -> bool:
    """Tell whether what a statement creates is built in."""
    return entry is not None and entry.kind == kind_of(statement) and entry.id.startswith("s")


def name_span(statement: ast.Create) -> Span:
    """Return the place of the name that a statement gives."""
    return statement.name.span if statement.name is not None else statement.span
