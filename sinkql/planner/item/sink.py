"""Plan CREATE SINK: its relation, destination, mode and options; `sink_rules` checks its rules.

Also expands CREATE SINKS into one CREATE SINK for each table, with names and keys from the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from sinkql import ast, logical
from sinkql.connector_api.options import option_span
from sinkql.connector_api.planning import SinkKind
from sinkql.connector_api.sink_options import check_pace
from sinkql.errors import SinkqlError, Span, one_of
from sinkql.planner.item.sink_rules import (
    check_changes,
    check_key,
    check_key_types,
    check_mode_and_key,
    check_start,
    check_unique,
    effective_mode,
    exported_relation,
)
from sinkql.planner.name import as_name, cluster_name, find, qualified_name, short_name, split_name
from sinkql.planner.scope import Scope, kinds_hint
from sinkql.planner.subsource import check_readable, stand_in


def plan_sink(full_name: str, statement: ast.CreateSink, facts: logical.Facts, scope: Scope) -> logical.Sink:
    """Plan a sink: check its rules in order, with the connector's options and types in between."""
    kind = _kind(statement, scope)
    _check_clauses(statement, kind)
    mode = effective_mode(statement, messages=kind.messages)
    relation, shape = exported_relation(statement, scope)
    check_key(statement, shape)
    check_key_types(statement, shape)
    proven = check_unique(statement, shape)
    check_mode_and_key(statement, mode, shape, proven=proven, notice=scope.notice, messages=kind.messages)
    check_changes(statement, mode, shape)
    planned = kind.plan(statement, shape, facts, scope)
    check_pace(statement, planned.common)
    check_start(statement, mode, relation, scope, snapshot=planned.common.snapshot, proven=proven, final=kind.final)
    connection = scope.connection(statement.connection, kind.name)
    store = _store(statement.using, scope) if statement.using is not None else None
    cluster = cluster_name(scope.catalog, statement.cluster, statement.kind_span)
    scope.use(cluster)
    sink = logical.Sink(
        name=full_name,
        relation=relation,
        kind=kind.name,
        connection=connection.name,
        store=store,
        cluster=cluster,
        mode=logical.SinkMode(mode.mode),
        changelog=mode.mode == "append" and mode.changelog,
        key=tuple(column.value for column in statement.key.columns) if statement.key else (),
        enforced=statement.key is None or statement.key.enforced,
        commit_interval=planned.common.commit_interval,
        max_rows_per_commit=planned.common.max_rows_per_commit,
        buckets=planned.common.buckets,
        snapshot=planned.common.snapshot,
        options=planned.options,
        shape=shape,
        final=kind.final,
    )
    if kind.check is not None:
        kind.check(statement, sink, scope)
    return replace(sink, destination=kind.destination(sink)) if kind.destination is not None else sink


def _check_clauses(statement: ast.CreateSink, kind: SinkKind) -> None:
    """Raise SQ2332 for clauses that sinks of the kind do not take."""
    mode = statement.mode
    if mode is not None and mode.mode not in kind.modes:
        word = "ENVELOPE" if kind.messages else "MODE"
        written = one_of([f"{word} {mode.upper()}" for mode in kind.modes])
        written_mode = "NONE" if mode.mode == "append" and not mode.changelog else mode.mode.upper()
        raise _clause_error(kind, f"ENVELOPE {written_mode}", mode.span, f"Write {written}.")
    if mode is not None and kind.messages and mode.word == "MODE":
        raise _clause_error(kind, "MODE", mode.span, f"Write ENVELOPE {mode.mode.upper()}.")
    if statement.key_format is not None and not kind.messages:
        raise _clause_error(kind, "KEY FORMAT", statement.key_format.span, "Leave it out.")
    if statement.format is not None and statement.format.name not in kind.formats and not kind.messages:
        formats = [f"FORMAT {format_}" for format_ in kind.formats]
        hint = f"Write {one_of(formats)}, or leave it out." if formats else "Leave it out."
        raise _clause_error(kind, f"FORMAT {statement.format.name}", statement.format.span, hint)
    if statement.headers is not None and not kind.messages:
        raise _clause_error(kind, "HEADERS", statement.headers.span, "Leave it out.")
    for option in statement.with_options:
        if option.name == "ON ERROR":
            raise _clause_error(kind, "ON ERROR", option.name_span, _ON_ERROR_HINT)
    if statement.partition_by and not kind.partitions:
        raise _clause_error(kind, "PARTITION BY", statement.partition_by[0].span, "Leave it out.")
    if statement.sort_by and not kind.partitions:
        raise _clause_error(kind, "SORT BY", statement.sort_by[0].span, "Leave it out.")


_ON_ERROR_HINT = (
    "Without the failed row, the table would differ from the view, so the sink stops. Guard the expression in the "
    "view, as in CASE WHEN x ~ '^[0-9]{1,9}$' THEN x::integer END."
)


def _clause_error(kind: SinkKind, clause: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2332", f"{kind.owner} do not take {clause}", span, hint=hint)


def _store(using: ast.Using, scope: Scope) -> str:
    """Return the full name of the connection to a sink's files; raise SQ2331 if the kind is not a file store."""
    stores = scope.registry.stores()
    if using.kind not in stores:
        raise SinkqlError(
            "SQ2331",
            f"connections to {using.kind} cannot store files",
            using.span,
            hint=kinds_hint(using.kind, stores),
        )
    return scope.connection(using.connection, using.kind).name


def _kind(statement: ast.CreateSink, scope: Scope) -> SinkKind:
    kind = scope.registry.sinks.get(statement.kind)
    if kind is not None:
        return kind
    kinds = tuple(scope.registry.sinks)
    raise SinkqlError(
        "SQ2321",
        f"no connector writes to {statement.kind}",
        statement.kind_span,
        hint=kinds_hint(statement.kind, kinds, scope.registry.expected("SINK")),
    )


_KINDS = ("SOURCE", "TABLE", "MATERIALIZED VIEW")
_PREFIX = "TABLE PREFIX"
_MAX_LISTED = 10


def expand(statement: ast.CreateSinks, catalog: logical.CatalogReader) -> tuple[ast.CreateSink, ...]:
    """Return one CREATE SINK for each table, in the order of their names or of the list.

    Raises SQ2350 for a source without tables that are read, SQ2351 for a table without a key, SQ2352 for a TABLE
    option.
    """
    sink = statement.sink
    for option in sink.options:
        if option.name == "TABLE":
            hint = f"Leave it out, or write {_PREFIX} = '…'; the names of the tables come from their sources."
            raise SinkqlError("SQ2352", "CREATE SINKS cannot have option TABLE", option.span, hint=hint)
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
    names = [name for name, entry in entries if entry is not None and isinstance(entry.statement, ast.CreateTableFrom)]
    item = catalog.item(entry.name)
    if not names and isinstance(item, logical.Source) and not item.tables:
        names = [entry.name]
    if not names:
        raise SinkqlError(
            "SQ2350",
            f'no table of source "{source.text}" is read',
            source.span,
            hint="Create the source with FOR ALL TABLES, or run CREATE TABLE name FROM SOURCE … for some of them.",
        )
    yield from ((name, source.span) for name in names)


def _sink(sink: ast.CreateSink, full: str, span: Span, catalog: logical.CatalogReader) -> ast.CreateSink:
    *place, last = split_name(full)
    prefix = next((option for option in sink.options if option.name == _PREFIX), None)
    table = f"{_option_text(prefix)}{last}" if prefix is not None else last
    options = (option for option in sink.options if option is not prefix)
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
    """Return the full name of a new sink: the wanted name, or a numbered one if another item has it."""
    last, numbers = wanted, count(2)
    while (entry := catalog.entry(qualified_name(*place, last))) and not isinstance(entry.statement, ast.CreateSink):
        last = f"{wanted}_{next(numbers)}"
    return qualified_name(*place, last)


def _option_text(option: ast.Option) -> str:
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
    """Return the columns of a table's key, empty if the table has no key."""
    item = logical.get_relation(catalog, full)
    keys = item.shape.keys
    return tuple(column.name for column in item.shape.columns if column.name in keys[0]) if keys else ()


def _check_keys(tables: Sequence[tuple[str, Span]], catalog: logical.CatalogReader) -> None:
    """Raise SQ2351 for tables without a key."""
    keyless = [(short_name(full, catalog), span) for full, span in tables if not _key(full, catalog)]
    if not keyless:
        return
    (short, span), *more = keyless
    further = ", ".join(name for name, _ in more[:_MAX_LISTED])
    and_more = f" and {len(more) - _MAX_LISTED} more" if len(more) > _MAX_LISTED else ""
    raise SinkqlError(
        "SQ2351",
        f'table "{short}" has no key',
        span,
        detail=f"{further}{and_more} have no key either" if more else None,
        hint=f"Add a key upstream, write MODE APPEND, or leave the table out with FOR TABLES (…) and create a sink "
        f'with a KEY for "{short}".',
    )
