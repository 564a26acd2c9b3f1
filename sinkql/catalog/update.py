"""New statements for items that are there → what becomes of them and of all that depends on them, planned again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import count
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.errors import SinkqlError
from sinkql.mask import without_literal
from sinkql.parser import parse
from sinkql.planner import Planned
from sinkql.planner.name import around, inside, short_name
from sinkql.planner.qualify import mentions, rename
from sinkql.planner.statement import own_name
from sinkql.printer import to_sql

if TYPE_CHECKING:
    from sinkql.catalog.memory import MemoryCatalog

Changes = Mapping[str, tuple[ast.Create, logical.Facts]]
"""By an item's full name: the statement with full names that takes its place, and its facts. A new name renames."""

IDENTITY = "identity"
"""The fact that holds the name under which jobs know a source or table that has another name now."""
_READ = ("SOURCE", "TABLE")  # what keeps its place under the name it was first known by


@dataclass(frozen=True, slots=True)
class Step:
    """Hold what becomes of one item: its entry before and after."""

    old: logical.Entry
    new: logical.Entry


@dataclass(frozen=True, slots=True)
class Replanned:
    """Hold an update's steps with what they plan to; None for an item that did not plan before and still does not."""

    step: Step
    planned: Planned | None
    error: SinkqlError | None = None


def steps(
    changes: Changes, entries: Mapping[str, logical.Entry], users: Mapping[str, Iterable[str]]
) -> tuple[Step, ...]:
    """Return what becomes of the changed items and of all that uses them, each after what it uses itself.

    `users` are the full names of those that use an item directly. What statements in `changes` use goes by the names
    from before. Raises SQ2017 where an item would come to use itself.
    """
    renames = _renames(changes, entries)
    after = {name: _after(entries[name], changes, renames) for name in closure([*changes, *renames], users)}
    by_name = {entry.name: old for old, entry in after.items()}
    uses = {
        old: sorted(by_name[used] for used in {*mentions(entry.statement), *around(entry.name)} if used in by_name)
        for old, entry in after.items()
    }
    try:
        order = tuple(TopologicalSorter(uses).static_order())
    except CycleError as error:
        raise _cycle(error.args[1], changes) from None
    return tuple(Step(entries[old], after[old]) for old in order)


def replan(
    plans: MemoryCatalog, found: Iterable[Step], *, changes: Changes, broken: frozenset[str] = frozenset()
) -> list[Replanned]:
    """Do the steps in `plans`, which holds all of their entries but those in `broken`.

    Raises what planning a statement in `changes` raises, and SQ2016, which lists the others that do not plan any more.
    """
    done: list[Replanned] = []
    worse: list[tuple[Step, SinkqlError]] = []
    failed: set[str] = set()
    found = tuple(found)
    for step in found:
        if step.old.name not in broken:
            plans.remove(step.old.name)
    for step in found:
        new = step.new
        try:
            done.append(Replanned(step, plans.add(new.statement, new.facts, id=new.id)))
        except SinkqlError as error:
            if step.old.name in changes:
                raise
            if step.old.name not in broken and not failed & mentions(new.statement):
                worse.append((step, error))
            failed.add(new.name)
            done.append(Replanned(step, None, error.within(path=None, text=to_sql(new.statement))))
    if worse:
        raise _worse(worse, changes)
    return done


def canonical(statement: ast.Create) -> ast.Create:
    """Return a statement as it is stored and read again: spans point into its printed text."""
    (found,) = parse(to_sql(without_literal(statement)))
    assert isinstance(found, ast.Create)
    return found


def closure(names: Iterable[str], users: Mapping[str, Iterable[str]]) -> list[str]:
    """Return `names` and all that uses them, directly or not."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting.extend(users.get(name, ()))
    return list(found)


def identity(statement: ast.Create, entries: Iterable[logical.Entry]) -> dict[str, str]:
    """Return the facts by which a new source or table is told from one that was first known by its name."""
    if not isinstance(statement, ast.CreateSource | ast.CreateTable):
        return {}
    taken = {entry.facts.get(IDENTITY) for entry in entries}
    name = own_name(statement)
    others = (f"{name}#{number}" for number in count(2))
    return {IDENTITY: next(each for each in others if each not in taken)} if name in taken else {}


def _renames(changes: Changes, entries: Iterable[str]) -> dict[str, str]:
    """Return what is called otherwise after the changes: also all that is in a schema or database that is."""
    given = {old: own_name(statement) for old, (statement, _) in changes.items() if own_name(statement) != old}
    known = tuple(entries)
    moved = {
        each: new + each.removeprefix(old)
        for old, new in sorted(given.items())  # a database comes before its schemas
        for each in inside(old, known)
    }
    return {**moved, **given}


def _after(entry: logical.Entry, changes: Changes, renames: Mapping[str, str]) -> logical.Entry:
    given = changes.get(entry.name)
    statement, facts = given if given is not None else (entry.statement, entry.facts)
    name = own_name(statement) if given is not None else renames.get(entry.name, entry.name)
    if renames:
        statement = rename(statement, renames, own=name)
    if name != entry.name and entry.kind in _READ:
        facts = {IDENTITY: entry.name, **facts}
    return replace(entry, name=name, statement=canonical(statement), facts=facts)


def _cycle(names: list[str], changes: Changes) -> SinkqlError:
    through = " → ".join(f'"{short_name(name)}"' for name in names)
    statement = next(changes[name][0] for name in names if name in changes)
    return SinkqlError(
        "SQ2017",
        f'"{short_name(names[0])}" would read itself',
        statement.name.span if statement.name is not None else statement.span,
        detail=through,
        hint="Read from something that does not read it.",
    )


def _worse(worse: list[tuple[Step, SinkqlError]], changes: Changes) -> SinkqlError:
    statement, _ = next(iter(changes.values()))
    name = short_name(next(iter(changes)))
    listed = [f'{step.old.kind.lower()} "{short_name(step.old.name)}": {error.message}' for step, error in worse]
    return SinkqlError(
        "SQ2016",
        f'"{name}" cannot change so: what depends on it would break',
        statement.name.span if statement.name is not None else statement.span,
        detail="\n".join(listed),
        hint="Change or drop what depends on it first.",
    )
