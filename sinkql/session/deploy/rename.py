"""Detect sinks that scripts give another name, and rename them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import redefine
from sinkql.connector_api.registry import Registry
from sinkql.planner.edit.rename import with_last_name
from sinkql.planner.item.statement import differs_only_in_spelling
from sinkql.planner.name import split_name
from sinkql.printer import to_sql
from sinkql.session.deploy.alteration import obstacle


def renames(before: MemoryCatalog, after: MemoryCatalog, registry: Registry) -> dict[str, str]:
    """Return the new full names of renamed sinks by their old full names. A rename stays in the schema.

    A renamed sink has the same relation, destination, key and mode. A sink with an identical definition is preferred to
    a sink whose options have changed.
    """
    old, new = _sinks(before), _sinks(after)
    unchanged = {name for name in old.keys() & new.keys() if _can_alter(old[name], new[name], before, after, registry)}
    unmatched, wanted = ([name for name in names if name not in unchanged] for names in (old, new))
    new_names: dict[str, str] = {}
    for exact in (True, False):
        for name in wanted:
            if name in new_names.values():
                continue
            old_name = next((sink for sink in unmatched if sink != name and sink not in new_names
                        and _has_same_schema(sink, name)
                        and _is_renamed(old[sink], new[name], before, after, registry, exact=exact)), None)  # fmt: skip
            if old_name is not None:
                new_names[old_name] = name
    return without_conflicts(new_names, before)


def without_conflicts(names: Mapping[str, str], before: MemoryCatalog) -> dict[str, str]:
    """Return the renames whose new names no other item has."""
    used_names = before.present().keys() | before.broken.keys()
    free_names = {old_name: name for old_name, name in names.items() if name not in used_names or name in names}
    return free_names if len(free_names) == len(names) else without_conflicts(free_names, before)


def rename(names: Mapping[str, str], plans: MemoryCatalog) -> None:
    """Rename the sinks of a catalog in memory in one change."""
    redefine(plans, dict(rename_sinks(names, plans)))


def rename_sinks(
    names: Mapping[str, str], catalog: logical.CatalogReader
) -> Iterator[tuple[str, tuple[ast.Create, logical.Facts]]]:
    """Yield the new statement and facts of each sink with its old full name."""
    for old_name, name in names.items():
        entry = logical.get_entry(catalog, old_name)
        yield old_name, (with_last_name(entry.statement, ast.Ident(split_name(name)[-1])), entry.facts)


def with_facts(names: Mapping[str, str], before: MemoryCatalog, after: MemoryCatalog) -> MemoryCatalog:
    """Return the described catalog in which renamed sinks have their present facts."""
    plans = after.copy()
    changes = {}
    for old_name, name in names.items():
        present, wanted = logical.get_entry(before, old_name), logical.get_entry(plans, name)
        changes[name] = wanted.statement, present.facts
    redefine(plans, changes)
    return plans


def _sinks(catalog: MemoryCatalog) -> dict[str, logical.Entry]:
    entries = {name: catalog.entry(name) for name in catalog.names("SINK")}
    return {name: entry for name, entry in entries.items() if entry is not None}


def _has_same_schema(one: str, other: str) -> bool:
    return split_name(one)[:-1] == split_name(other)[:-1]


def _is_renamed(
    old: logical.Entry,
    new: logical.Entry,
    before: MemoryCatalog,
    after: MemoryCatalog,
    registry: Registry,
    *,
    exact: bool,
) -> bool:
    """Return whether a sink is a renamed one. With `exact`, nothing but the name may differ."""
    statement = with_last_name(old.statement, ast.Ident(split_name(new.name)[-1]))
    if not exact:
        return _can_alter(old, new, before, after, registry)
    if to_sql(statement) == to_sql(new.statement):
        return True
    sink = logical.get_item(before, old.name, logical.Sink)
    return differs_only_in_spelling(statement, new.statement, replace(sink, name=new.name), after.item(new.name))


def _can_alter(
    old: logical.Entry, new: logical.Entry, before: MemoryCatalog, after: MemoryCatalog, registry: Registry
) -> bool:
    """Return whether ALTER can change a sink into another one with the same relation."""
    return (
        isinstance(old.statement, ast.CreateSink)
        and isinstance(new.statement, ast.CreateSink)
        and obstacle(old, new, before, after, registry) is None
        and old.statement.relation == new.statement.relation
    )
