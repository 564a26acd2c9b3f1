"""Replace the statements of items, and plan all dependent items again."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError
from itertools import count

from sinkql import ast, logical
from sinkql.catalog.memory import IDENTITY, Broken, Entries, MemoryCatalog
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.planner import Planned
from sinkql.planner.dependency import Edges, in_order, reached
from sinkql.planner.edit.qualify import mentions, rename
from sinkql.planner.item.secret import without_literal
from sinkql.planner.item.statement import differs_only_in_spelling, own_name
from sinkql.planner.name import around, inside, short_name
from sinkql.printer import to_sql

Definitions = Mapping[str, tuple[ast.Create, logical.Facts]]
"""By an item's full name: its new statement, with full names, and its facts. A new name is a rename."""

_READ = ("SOURCE", "TABLE")  # items whose offsets are stored under their first name


@dataclass(frozen=True, slots=True)
class Replacement:
    """One item's entry before and after the change."""

    old: logical.Entry
    new: logical.Entry


@dataclass(frozen=True, slots=True)
class Replanned:
    """A replacement with its plan; None if the item is broken, as it was before."""

    replacement: Replacement
    planned: Planned | None


def redefine(plans: MemoryCatalog, changes: Definitions) -> None:
    """Replace the statements of items, which keep their ids, and plan all dependent items again.

    On errors nothing changes. Changed items move to the end of `entries`.
    """
    after = plans.copy()
    replan(after, replacements(changes, Entries(plans), plans.dependents), changes=changes)
    plans.take(after)


def means_the_same(statement: ast.Create, name: str, plans: MemoryCatalog) -> bool:
    """Return whether a statement with full names differs from an item's only in the text of its options."""
    entry = plans.entry(name)
    if entry is None:
        return False
    after = plans.copy()
    try:
        redefine(after, {name: (statement, entry.facts)})
    except SinkqlError:
        return False
    return differs_only_in_spelling(entry.statement, statement, plans.item(name), after.item(name))


def replacements(changes: Definitions, entries: Mapping[str, logical.Entry], users: Edges) -> tuple[Replacement, ...]:
    """Return the replacements of the changed items and all dependent items, in order of dependency.

    `users` are the full names of the direct users of an item. The statements in `changes` use the old names. Raises
    SQ2017 if an item would use itself.
    """
    renames = _renames(changes, entries)
    after = {name: _after(entries[name], changes, renames) for name in reached([*changes, *renames], users)}
    by_name = {entry.name: old for old, entry in after.items()}
    uses = {
        old: sorted(by_name[used] for used in {*mentions(entry.statement), *around(entry.name)} if used in by_name)
        for old, entry in after.items()
    }
    try:
        order = in_order(uses)
    except CycleError as error:
        raise _cycle_error(error.args[1], changes) from None
    return tuple(Replacement(entries[old], after[old]) for old in order)


def replan(plans: MemoryCatalog, replacements_to_do: Iterable[Replacement], *, changes: Definitions) -> list[Replanned]:
    """Apply the replacements to `plans`, which has all their entries except the broken ones.

    Raises the errors of planning a statement in `changes`. Raises SQ2016 with a list of other items that can no longer
    be planned.
    """
    done: list[Replanned] = []
    worse: list[tuple[Replacement, SinkqlError]] = []
    failed: set[str] = set()
    replacements_to_do = tuple(replacements_to_do)
    broken = {
        replacement.old.name: plans.broken.pop(replacement.old.name)
        for replacement in replacements_to_do
        if plans.entry(replacement.old.name) is None
    }
    for replacement in replacements_to_do:
        if replacement.old.name not in broken:
            plans.remove(replacement.old.name)
    for replacement in replacements_to_do:
        new = replacement.new
        try:
            done.append(Replanned(replacement, plans.add(new.statement, new.facts, id=new.id)))
        except SinkqlError as error:
            if replacement.old.name in changes:
                raise
            if replacement.old.name not in broken and not failed & mentions(new.statement):
                worse.append((replacement, error))
            failed.add(new.name)
            was = broken.get(replacement.old.name)
            writes = was.writes if was is not None else None
            plans.broken[new.name] = Broken(new, error.within(path=None, text=to_sql(new.statement)), writes)
            done.append(Replanned(replacement, None))
    if worse:
        raise _dependents_error(worse, changes)
    return done


def canonical(statement: ast.Create) -> ast.Create:
    """Return a statement in the form in which it is stored and read again, with spans in its printed text."""
    (parsed,) = parse(to_sql(without_literal(statement)))
    assert isinstance(parsed, ast.Create)
    return parsed


def identity(statement: ast.Create, used_names: Container[str]) -> dict[str, str]:
    """Return the facts that distinguish a new source or table from an earlier owner of its name, one of `taken`."""
    if not isinstance(statement, ast.CreateSource | ast.CreateTable | ast.CreateTableFrom):
        return {}
    name = own_name(statement)
    others = (f"{name}#{number}" for number in count(2))
    return (
        {IDENTITY: next(candidate for candidate in others if candidate not in used_names)} if name in used_names else {}
    )


def _renames(changes: Definitions, entries: Iterable[str]) -> dict[str, str]:
    """Return old and new names of renamed items, including the contents of renamed schemas and databases."""
    renamed = {old: own_name(statement) for old, (statement, _) in changes.items() if own_name(statement) != old}
    names = tuple(entries)
    moved = {
        name: new + name.removeprefix(old)
        for old, new in sorted(renamed.items())  # a database comes before its schemas
        for name in inside(old, names)
    }
    return {**moved, **renamed}


def _after(entry: logical.Entry, changes: Definitions, renames: Mapping[str, str]) -> logical.Entry:
    definition = changes.get(entry.name)
    statement, facts = definition if definition is not None else (entry.statement, entry.facts)
    name = own_name(statement) if definition is not None else renames.get(entry.name, entry.name)
    if renames:
        statement = rename(statement, renames, own_name=name)
    if name != entry.name and entry.kind in _READ:
        facts = {IDENTITY: entry.name, **facts}
    return replace(entry, name=name, statement=canonical(statement), facts=facts)


def _cycle_error(names: list[str], changes: Definitions) -> SinkqlError:
    through = " → ".join(f'"{short_name(name)}"' for name in names)
    statement = next(changes[name][0] for name in names if name in changes)
    return SinkqlError(
        "SQ2017",
        f'"{short_name(names[0])}" would read from itself',
        statement.name.span if statement.name is not None else statement.span,
        detail=through,
        hint="Read from an item that does not depend on it.",
    )


def _dependents_error(worse: list[tuple[Replacement, SinkqlError]], changes: Definitions) -> SinkqlError:
    statement, _ = next(iter(changes.values()))
    name = short_name(next(iter(changes)))
    listed = [
        f'{replacement.old.kind.lower()} "{short_name(replacement.old.name)}": {error.message}'
        for replacement, error in worse
    ]
    return SinkqlError(
        "SQ2016",
        f'cannot change "{name}" because other items depend on it',
        statement.name.span if statement.name is not None else statement.span,
        detail="\n".join(listed),
        hint="Change or drop what depends on it first.",
    )
