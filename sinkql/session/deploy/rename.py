"""Sinks as they are and as scripts describe them → which of them have another name, and their new names put in."""

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
    """Return the full names before and after of the sinks that scripts give another name in the same schema.

    Such a sink writes the rows of the same relation to the same place, by the same key and mode. A sink of the same
    definition goes before one whose options have changed, too.
    """
    old, new = _sinks(before), _sinks(after)
    stay = {name for name in old.keys() & new.keys() if _follows(old[name], new[name], before, after, registry)}
    left, wanted = ([name for name in names if name not in stay] for names in (old, new))
    found: dict[str, str] = {}
    for exactly in (True, False):
        for name in wanted:
            if name in found.values():
                continue
            was = next((each for each in left if each != name and each not in found
                        and _beside(each, name)
                        and _moved(old[each], new[name], before, after, registry, exactly=exactly)), None)  # fmt: skip
            if was is not None:
                found[was] = name
    return free(found, before)


def free(names: Mapping[str, str], before: MemoryCatalog) -> dict[str, str]:
    """Return the names without those that something else has, which keeps it."""
    taken = before.present().keys() | before.broken.keys()
    left = {was: name for was, name in names.items() if name not in taken or name in names}
    return left if len(left) == len(names) else free(left, before)


def rename(names: Mapping[str, str], plans: MemoryCatalog) -> None:
    """Give the sinks of a catalog in memory their new names, all at once."""
    redefine(plans, dict(rename_sinks(names, plans)))


def rename_sinks(
    names: Mapping[str, str], catalog: logical.CatalogReader
) -> Iterator[tuple[str, tuple[ast.Create, logical.Facts]]]:
    """Yield what becomes of each sink, by its full name from before."""
    for was, name in names.items():
        entry = catalog.entry(was)
        assert entry is not None
        yield was, (with_last_name(entry.statement, ast.Ident(split_name(name)[-1])), entry.facts)


def with_facts(names: Mapping[str, str], before: MemoryCatalog, after: MemoryCatalog) -> MemoryCatalog:
    """Return the catalog that scripts describe, in which renamed sinks have the facts that are known of them."""
    plans = after.copy()
    changes = {}
    for was, name in names.items():
        present, wanted = before.entry(was), plans.entry(name)
        assert present is not None
        assert wanted is not None
        changes[name] = wanted.statement, present.facts
    redefine(plans, changes)
    return plans


def _sinks(catalog: MemoryCatalog) -> dict[str, logical.Entry]:
    entries = {name: catalog.entry(name) for name in catalog.names("SINK")}
    return {name: entry for name, entry in entries.items() if entry is not None}


def _beside(one: str, other: str) -> bool:
    return split_name(one)[:-1] == split_name(other)[:-1]


def _moved(
    old: logical.Entry,
    new: logical.Entry,
    before: MemoryCatalog,
    after: MemoryCatalog,
    registry: Registry,
    *,
    exactly: bool,
) -> bool:
    """Tell whether a sink is another one under a new name, and nothing else where it is to be so exactly."""
    statement = with_last_name(old.statement, ast.Ident(split_name(new.name)[-1]))
    if not exactly:
        return _follows(old, new, before, after, registry)
    if to_sql(statement) == to_sql(new.statement):
        return True
    was = before.item(old.name)
    assert isinstance(was, logical.Sink)
    return differs_only_in_spelling(statement, new.statement, replace(was, name=new.name), after.item(new.name))


def _follows(
    old: logical.Entry, new: logical.Entry, before: MemoryCatalog, after: MemoryCatalog, registry: Registry
) -> bool:
    """Tell whether a sink can become another one by ALTER, reading what it reads."""
    assert isinstance(old.statement, ast.CreateSink)
    assert isinstance(new.statement, ast.CreateSink)
    if obstacle(old, new, before, after, registry) is None:
        return old.statement.relation == new.statement.relation
    return False
