"""Find the ALTER statements between two definitions of an item, or the obstacle; `difference` decides on both."""

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
    """Return why an item must be created again. If ALTER may work, return None. Only a dry run proves that it does."""
    match old.statement, new.statement:
        case ast.CreateSecret(), ast.CreateSecret():
            return None
        case ast.CreateView(), ast.CreateView() if old.kind == new.kind:
            return None
        case ast.CreateTable() as present, ast.CreateTable() as wanted if unique_keys(present) != unique_keys(wanted):
            return "its keys change"  # the existing rows were not checked by the new keys
        case (
            (ast.CreateSource(), ast.CreateSource())
            | (ast.CreateTable(), ast.CreateTable())
            | (ast.CreateTableFrom(), ast.CreateTableFrom())
        ) if old.kind == new.kind:
            return _source_obstacle(old.name, before, after, registry)
        case ast.CreateSink() as present, ast.CreateSink() as wanted:
            return _sink_obstacle(present, wanted)
        case ast.CreateConnection(kind=present), ast.CreateConnection(kind=wanted):
            return None if present == wanted else "its type changes"
        case ast.CreateCluster(), ast.CreateCluster():
            return None
        case ast.CreateIndex(), ast.CreateIndex():
            return "it indexes other rows"
        case _:
            return f"it changes from a {old.kind.lower()} to a {new.kind.lower()}"


def _source_obstacle(name: str, before: MemoryCatalog, after: MemoryCatalog, registry: Registry) -> str | None:
    old, new = _comparable_read(name, before), _comparable_read(name, after)
    if old == new:
        return None
    if msgspec.structs.replace(new, columns=old.columns) != old:
        return "it reads another relation"
    kind = registry.sources.get(new.connector)
    new_names = {column.name for column in new.columns}
    by_name = kind is not None and kind.has_named_columns(new.options)
    remaining = [column for column in old.columns if column.name in new_names or not by_name]
    if not all(_can_widen(*pair) for pair in zip_longest(remaining, new.columns[: len(remaining)])):
        further_changes = ", wider types or removed columns" if by_name else " or wider types"
        return f"its columns change, not only by new columns at the end{further_changes}"
    entry = logical.get_entry(after, name)
    return _new_column_obstacle(entry.statement, {column.name for column in old.columns})


def _can_widen(old: Column, new: Column | None) -> bool:
    """Return whether a column is unchanged or has a wider type."""
    if new is None or (old.name, old.nullable) != (new.name, new.nullable):
        return False
    return old.type == new.type or can_widen_column(old.type, new.type)


def _new_column_obstacle(statement: ast.Create, old_names: Container[str]) -> str | None:
    """Return why existing rows could not have a new column."""
    columns = statement.columns if isinstance(statement, ast.CreateTable | ast.CreateSource) else ()
    for column in columns:
        constraints = [constraint.kind for constraint in column.constraints if constraint.kind != "NULL"]
        if column.name.value not in old_names and (column.not_null or constraints):
            rule = "is NOT NULL" if column.not_null else f"has a {constraints[0]}"
            return f'its rows could not have the new column "{column.name.value}", which {rule}'
    return None


def _comparable_read(name: str, catalog: MemoryCatalog) -> Read:
    """Return the read of a source without options that do not affect its rows."""
    item = logical.get_item(catalog, name, logical.Source)
    read = lower_relation(item, catalog)
    return Read(
        read.source,
        read.connector,
        deciding(read.options),
        read.columns,
        read.change,
        read.connection,
    )


def _sink_obstacle(old: ast.CreateSink, new: ast.CreateSink) -> str | None:
    if (old.kind, old.connection) != (new.kind, new.connection) or old.options != new.options:
        return "it writes to another table"
    if old.using != new.using:
        return "its files are written to another store"
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
    """Yield the ALTER statements that turn one definition of a connection, cluster or sink into another."""
    match old, new:
        case ast.CreateConnection(), ast.CreateConnection():
            actions = tuple(_option_changes(old.options, new.options))
            if actions:
                yield ast.Alter("CONNECTION", new.name, ast.ChangeConnection(actions))
        case ast.CreateCluster(), ast.CreateCluster():
            name = ast.Name((new.name,), new.name.span)
            yield from (ast.Alter("CLUSTER", name, action) for action in _option_changes(old.options, new.options))
        case ast.CreateSink(name=ast.Name() as name), ast.CreateSink():
            if old.relation != new.relation:
                yield ast.Alter("SINK", name, ast.SetFrom(new.relation))
            for action in _option_changes(old.with_options, new.with_options):
                yield ast.Alter("SINK", name, action)
            if old.cluster != new.cluster and new.cluster is not None:
                yield ast.Alter("SINK", name, ast.SetCluster(new.cluster))
        case _:
            return


def _option_changes(
    old: tuple[ast.Option, ...], new: tuple[ast.Option, ...]
) -> Iterator[ast.SetOptions | ast.ResetOptions]:
    present, wanted = {option.name: option for option in old}, {option.name: option for option in new}
    changed = tuple(option for name, option in wanted.items() if present.get(name) != option)
    if changed:
        yield ast.SetOptions(changed)
    removed = tuple(ast.OptionName(name) for name in present if name not in wanted)
    if removed:
        yield ast.ResetOptions(removed)
