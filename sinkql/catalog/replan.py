"""New statements for items that are there → what becomes of them and of all that depends on them, planned again."""

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
from sinkql.planner.item.statement import differs_only_in_spelling, own_name
from sinkql.planner.name import around, inside, short_name
from sinkql.printer import to_sql
from sinkql.script.redaction import without_literal

Definitions = Mapping[str, tuple[ast.Create, logical.Facts]]
"""By an item's full name: the statement with full names that takes its place, and its facts. A new name renames."""

_READ = ("SOURCE", "TABLE")  # what keeps its place under the name it was first known by


@dataclass(frozen=True, slots=True)
class Replacement:
    """What becomes of one item: its entry before and after."""

    old: logical.Entry
    new: logical.Entry


@dataclass(frozen=True, slots=True)
class Replanned:
    """A replacement and what its new statement plans to: None if it does not plan, as it did not before."""

    replacement: Replacement
    planned: Planned | None


def redefine(plans: MemoryCatalog, changes: Definitions) -> None:
    """Put statements in the place of items, which keep their ids; all that depends on them is planned again.

    Raises what does not plan, and then changes nothing. What changed stands behind all else in `entries`.
    """
    after = plans.copy()
    replan(after, replacements(changes, Entries(plans), plans.dependents), changes=changes)
    plans.take(after)


def means_the_same(statement: ast.Create, name: str, plans: MemoryCatalog) -> bool:
    """Tell whether a statement with full names differs from an item's own in the text of its options alone."""
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
    """Return what becomes of the changed items and of all that uses them, each after what it uses itself.

    `users` are the full names of those that use an item directly. What statements in `changes` use goes by the names
    from before. Raises SQ2017 where an item would come to use itself.
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
        raise _cycle(error.args[1], changes) from None
    return tuple(Replacement(entries[old], after[old]) for old in order)


def replan(plans: MemoryCatalog, found: Iterable[Replacement], *, changes: Definitions) -> list[Replanned]:
    """Do the replacements in `plans`, which holds all of their entries but those that are broken.

    Raises what planning a statement in `changes` raises, and SQ2016, which lists the others that do not plan any more.
    """
    done: list[Replanned] = []
    worse: list[tuple[Replacement, SinkqlError]] = []
    failed: set[str] = set()
    found = tuple(found)
    broken = {each.old.name: plans.broken.pop(each.old.name) for each in found if plans.entry(each.old.name) is None}
    for each in found:
        if each.old.name not in broken:
            plans.remove(each.old.name)
    for each in found:
        new = each.new
        try:
            done.append(Replanned(each, plans.add(new.statement, new.facts, id=new.id)))
        except SinkqlError as error:
            if each.old.name in changes:
                raise
            if each.old.name not in broken and not failed & mentions(new.statement):
                worse.append((each, error))
            failed.add(new.name)
            was = broken.get(each.old.name)
            writes = was.writes if was is not None else None
            plans.broken[new.name] = Broken(new, error.within(path=None, text=to_sql(new.statement)), writes)
            done.append(Replanned(each, None))
    if worse:
        raise _worse(worse, changes)
    return done


def canonical(statement: ast.Create) -> ast.Create:
    """Return a statement as it is stored and read again: spans point into its printed text."""
    (found,) = parse(to_sql(without_literal(statement)))
    assert isinstance(found, ast.Create)
    return found


def identity(statement: ast.Create, taken: Container[str]) -> dict[str, str]:
    """Return the facts that tell a new source or table from one that had its name first; `taken` are such names."""
    if not isinstance(statement, ast.CreateSource | ast.CreateTable | ast.CreateTableFrom):
        return {}
    name = own_name(statement)
    others = (f"{name}#{number}" for number in count(2))
    return {IDENTITY: next(each for each in others if each not in taken)} if name in taken else {}


def _renames(changes: Definitions, entries: Iterable[str]) -> dict[str, str]:
    """Return old and new names of what the changes rename, including what is in renamed schemas and databases."""
    given = {old: own_name(statement) for old, (statement, _) in changes.items() if own_name(statement) != old}
    known = tuple(entries)
    moved = {
        each: new + each.removeprefix(old)
        for old, new in sorted(given.items())  # a database comes before its schemas
        for each in inside(old, known)
    }
    return {**moved, **given}


def _after(entry: logical.Entry, changes: Definitions, renames: Mapping[str, str]) -> logical.Entry:
    given = changes.get(entry.name)
    statement, facts = given if given is not None else (entry.statement, entry.facts)
    name = own_name(statement) if given is not None else renames.get(entry.name, entry.name)
    if renames:
        statement = rename(statement, renames, own_name=name)
    if name != entry.name and entry.kind in _READ:
        facts = {IDENTITY: entry.name, **facts}
    return replace(entry, name=name, statement=canonical(statement), facts=facts)


def _cycle(names: list[str], changes: Definitions) -> SinkqlError:
    through = " → ".join(f'"{short_name(name)}"' for name in names)
    statement = next(changes[name][0] for name in names if name in changes)
    return SinkqlError(
        "SQ2017",
        f'"{short_name(names[0])}" would read from itself',
        statement.name.span if statement.name is not None else statement.span,
        detail=through,
        hint="Read from an item that does not depend on it.",
    )


def _worse(worse: list[tuple[Replacement, SinkqlError]], changes: Definitions) -> SinkqlError:
    statement, _ = next(iter(changes.values()))
    name = short_name(next(iter(changes)))
    listed = [f'{each.old.kind.lower()} "{short_name(each.old.name)}": {error.message}' for each, error in worse]
    return SinkqlError(
        "SQ2016",
        f'cannot change "{name}" because other items depend on it',
        statement.name.span if statement.name is not None else statement.span,
        detail="\n".join(listed),
        hint="Change or drop what depends on it first.",
    )
