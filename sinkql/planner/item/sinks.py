"""CREATE SINKS → the CREATE SINK of each table: its name, its key and its table's name come from that table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from sinkql import ast, logical
from sinkql.connector_api.options import option_span
from sinkql.errors import SinkqlError, Span
from sinkql.planner.name import as_name, find, qualified_name, short_name, split_name
from sinkql.planner.subsource import check_readable, stand_in

_KINDS = ("SOURCE", "TABLE", "MATERIALIZED VIEW")
_PREFIX = "TABLE PREFIX"
_LISTED = 10


def expand(statement: ast.CreateSinks, catalog: logical.CatalogReader) -> tuple[ast.CreateSink, ...]:
    """Return a statement for each table, in the order of their names, or as they are listed.

    Raises SQ2350 for a source of which nothing reads a table, SQ2351 for a table without a key, SQ2352 for a TABLE.
    """
    sink = statement.sink
    for option in sink.options:
        if option.name == "TABLE":
            hint = f"Leave it out, or write {_PREFIX} = '…': the tables are called as what they are read from."
            raise SinkqlError("SQ2352", "many sinks cannot have one TABLE", option.span, hint=hint)
    tables = list(_tables(statement, catalog))
    if sink.mode is None or sink.mode.mode == "upsert":
        _check_keys(tables, catalog)
    return tuple(_sink(sink, full, written, catalog) for full, written in tables)


def _tables(statement: ast.CreateSinks, catalog: logical.CatalogReader) -> Iterator[tuple[str, Span]]:
    for name in statement.tables:
        full = stand_in(find(catalog, name, *_KINDS).name, catalog)
        check_readable(catalog.item(full), name, catalog)
        yield full, name.span
    if statement.tables:
        return
    source = statement.sink.relation
    entry = find(catalog, source, "SOURCE")
    entries = ((name, catalog.entry(name)) for name in sorted(catalog.dependents(entry.name)))
    found = [name for name, each in entries if each is not None and isinstance(each.statement, ast.CreateTableFrom)]
    item = catalog.item(entry.name)
    if not found and isinstance(item, logical.Source) and not item.tables:
        found = [entry.name]
    if not found:
        raise SinkqlError(
            "SQ2350",
            f'no table of source "{source.text}" is read',
            source.span,
            hint="Create the source with FOR ALL TABLES, or run CREATE TABLE name FROM SOURCE … for some of them.",
        )
    yield from ((name, source.span) for name in found)


def _sink(sink: ast.CreateSink, full: str, span: Span, catalog: logical.CatalogReader) -> ast.CreateSink:
    *place, last = split_name(full)
    prefix = next((each for each in sink.options if each.name == _PREFIX), None)
    table = f"{_text(prefix)}{last}" if prefix is not None else last
    options = (each for each in sink.options if each is not prefix)
    where = option_span(sink.options, _PREFIX, span)
    key, mode = None, sink.mode
    if mode is None or mode.mode == "upsert":
        key = ast.Key(tuple(ast.Ident(name, span) for name in _key(full, catalog)), True, span)
        mode = mode or ast.Mode("upsert", span=span)
    return replace(
        sink,
        relation=as_name(full, span),
        name=as_name(_free_name(place, f"{last}_sink", catalog), span),
        options=(*options, ast.Option("TABLE", ast.Text(table, where), where, where)),
        key=key,
        mode=mode,
    )


def _free_name(place: Sequence[str], wanted: str, catalog: logical.CatalogReader) -> str:
    """Return the full name of a sink: another one than is wanted where something has that which is no sink."""
    last, numbers = wanted, count(2)
    while (entry := catalog.entry(qualified_name(*place, last))) and not isinstance(entry.statement, ast.CreateSink):
        last = f"{wanted}_{next(numbers)}"
    return qualified_name(*place, last)


def _text(option: ast.Option) -> str:
    match option.value:
        case ast.Text(value=value):
            return value
        case ast.Word(name=name):
            return name.value
        case _:
            span = option.value.span if option.value is not None else option.name_span
            hint = f"Write {_PREFIX} = 'shop_'."
            raise SinkqlError("SQ2103", f"option {_PREFIX} takes a string", span, hint=hint)


def _key(full: str, catalog: logical.CatalogReader) -> tuple[str, ...]:
    """Return the columns of a table's key; none where it has no key."""
    item = catalog.item(full)
    assert isinstance(item, logical.Source | logical.View)
    keys = item.shape.keys
    return tuple(column.name for column in item.shape.columns if column.name in keys[0]) if keys else ()


def _check_keys(tables: Sequence[tuple[str, Span]], catalog: logical.CatalogReader) -> None:
    """Raise SQ2351 for tables without a key."""
    lacking = [(short_name(full, catalog), span) for full, span in tables if not _key(full, catalog)]
    if not lacking:
        return
    (short, span), *more = lacking
    others = ", ".join(name for name, _ in more[:_LISTED])
    and_more = f" and {len(more) - _LISTED} more" if len(more) > _LISTED else ""
    raise SinkqlError(
        "SQ2351",
        f'table "{short}" has no key',
        span,
        detail=f"nor have {others}{and_more}" if more else None,
        hint=f"Give it one upstream, write MODE APPEND, or leave it out with FOR TABLES (…) and create a sink for "
        f'"{short}" with a KEY of its own.',
    )
