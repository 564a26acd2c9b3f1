"""Two definitions of one item → the ALTER statements between them, or what stands in the way."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import zip_longest

import msgspec

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import Registry
from sinkql.lowering.job import lower_relation
from sinkql.physical import Column, Read
from sinkql.physical.evolution import can_widen_column
from sinkql.physical.identity import deciding
from sinkql.planner.item.table import unique_keys


def obstacle(
    old: logical.Entry, new: logical.Entry, before: MemoryCatalog, after: MemoryCatalog, registry: Registry
) -> str | None:
    """Return the reason why an item must be created again, None if ALTER may do; whether it does, trying shows."""
    match old.statement, new.statement:
        case ast.CreateSecret(), ast.CreateSecret():
            return None
        case ast.CreateView(), ast.CreateView() if old.kind == new.kind:
            return None
        case ast.CreateTable() as present, ast.CreateTable() as wanted if unique_keys(present) != unique_keys(wanted):
            return "its keys change"  # by which the rows that are there are not known
        case (
            (ast.CreateSource(), ast.CreateSource())
            | (ast.CreateTable(), ast.CreateTable())
            | (ast.CreateTableFrom(), ast.CreateTableFrom())
        ) if old.kind == new.kind:
            return _source(old.name, before, after, registry)
        case ast.CreateSink() as present, ast.CreateSink() as wanted:
            return _sink(present, wanted)
        case ast.CreateConnection(kind=present), ast.CreateConnection(kind=wanted):
            return None if present == wanted else "its type changes"
        case ast.CreateCluster(), ast.CreateCluster():
            return None
        case ast.CreateIndex(), ast.CreateIndex():
            return "its rows are kept by something else"
        case _:
            return f"it changes from a {old.kind.lower()} to a {new.kind.lower()}"


def _source(name: str, before: MemoryCatalog, after: MemoryCatalog, registry: Registry) -> str | None:
    old, new = _read(name, before), _read(name, after)
    if old == new:
        return None
    if msgspec.structs.replace(new, columns=old.columns) != old:
        return "it reads another relation"
    kind = registry.sources.get(new.connector)
    kept = {column.name for column in new.columns}
    by_name = kind is not None and kind.named(new.options)
    stay = [column for column in old.columns if column.name in kept or not by_name]
    if not all(_wider(*pair) for pair in zip_longest(stay, new.columns[: len(stay)])):
        others = ", wider types or less of them" if by_name else " or wider types"
        return f"its columns change, and not by others behind them{others}"
    entry = after.entry(name)
    assert entry is not None
    return _unfit(entry.statement, {column.name for column in old.columns})


def _wider(old: Column, new: Column | None) -> bool:
    """Tell whether a column is still the same, or has a wider type."""
    if new is None or (old.name, old.nullable) != (new.name, new.nullable):
        return False
    return old.type == new.type or can_widen_column(old.type, new.type)


def _unfit(statement: ast.Create, known: Container[str]) -> str | None:
    """Return why rows that are there could not have a column that is new."""
    columns = statement.columns if isinstance(statement, ast.CreateTable | ast.CreateSource) else ()
    for column in columns:
        held = [each.kind for each in column.constraints if each.kind != "NULL"]
        if column.name.value not in known and (column.not_null or held):
            what = "is NOT NULL" if column.not_null else f"has a {held[0]}"
            return f'its rows could not have the new column "{column.name.value}", which {what}'
    return None


def _read(name: str, catalog: MemoryCatalog) -> Read:
    """Return how a source is read, without what decides no rows."""
    item = catalog.item(name)
    assert isinstance(item, logical.Source)
    found = lower_relation(item, catalog)
    return Read(
        found.source,
        found.connector,
        deciding(found.options),
        found.columns,
        found.change,
        found.connection,
    )


def _sink(old: ast.CreateSink, new: ast.CreateSink) -> str | None:
    if (old.kind, old.connection) != (new.kind, new.connection) or old.options != new.options:
        return "it writes to another table"
    if old.using != new.using:
        return "its files go to another store"
    if old.key != new.key:
        return "its key changes"
    if old.mode != new.mode:
        return "its mode changes"
    if old.partition_by != new.partition_by:
        return "its partitions change"
    if old.sort_by != new.sort_by:
        return "the order of its files changes"
    return None


def alterations(old: ast.Create, new: ast.Create) -> Iterator[ast.Alter]:
    """Yield the ALTER statements, of full names, that make one definition of a connection, cluster or sink another."""
    match old, new:
        case ast.CreateConnection(), ast.CreateConnection():
            actions = tuple(_options(old.options, new.options))
            if actions:
                yield ast.Alter("CONNECTION", new.name, ast.ChangeConnection(actions))
        case ast.CreateCluster(), ast.CreateCluster():
            name = ast.Name((new.name,), new.name.span)
            yield from (ast.Alter("CLUSTER", name, action) for action in _options(old.options, new.options))
        case ast.CreateSink(name=ast.Name() as name), ast.CreateSink():
            if old.relation != new.relation:
                yield ast.Alter("SINK", name, ast.SetFrom(new.relation))
            for action in _options(old.with_options, new.with_options):
                yield ast.Alter("SINK", name, action)
            if old.cluster != new.cluster and new.cluster is not None:
                yield ast.Alter("SINK", name, ast.SetCluster(new.cluster))
        case _:
            return


def _options(old: tuple[ast.Option, ...], new: tuple[ast.Option, ...]) -> Iterator[ast.SetOptions | ast.ResetOptions]:
    there, wanted = {each.name: each for each in old}, {each.name: each for each in new}
    given = tuple(option for name, option in wanted.items() if there.get(name) != option)
    if given:
        yield ast.SetOptions(given)
    gone = tuple(ast.OptionName(name) for name in there if name not in wanted)
    if gone:
        yield ast.ResetOptions(gone)
