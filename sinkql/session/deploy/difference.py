"""The catalog as it is and as scripts describe it → the steps from one to the other, each with its reason. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sinkql import ast, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.types import kept_type, parse_type
from sinkql.keywords import Keywords
from sinkql.lowering.job import lower
from sinkql.physical.evolution import InPlaceError
from sinkql.planner.dependency import in_order
from sinkql.planner.item.statement import differs_only_in_spelling
from sinkql.planner.name import short_name
from sinkql.printer import to_sql
from sinkql.script.redaction import without_literal
from sinkql.session.deploy.alteration import obstacle
from sinkql.session.deploy.dry_run import dry_run
from sinkql.session.deploy.script_catalog import ScriptCatalog
from sinkql.session.deploy.step import Action, Step, Transition
from sinkql.session.item.destination import check_shared_columns, place_of

Entries = Mapping[str, logical.Entry]
OtherValue = Callable[[str, ast.CreateSecret], bool]
"""Tell whether a secret's value, by its full name, is another than the statement gives."""


@dataclass(slots=True)
class _Fate:
    """What becomes of an item, and why."""

    action: Action
    reason: str
    early: bool = False


@dataclass(slots=True)
class _Difference:
    before: MemoryCatalog
    after: MemoryCatalog
    broken: Mapping[str, logical.Entry]
    transition: Transition
    registry: Registry
    fates: dict[str, _Fate] = field(default_factory=dict)

    def find(self, other_value: OtherValue, statements: Mapping[str, ast.Create]) -> None:
        """Decide on every item by itself, then on those that depend on what is created again, until nothing changes."""
        old, new = _names(self.before) | self.broken.keys(), _names(self.after)
        wanted = {place_of(name, self.after) for name in self.after.names("SINK")} - {None}
        for name in sorted(old - new):
            # where another sink is to write, as may be with one that is broken
            early = place_of(name, self.before) in wanted or (name in self.broken and self.broken[name].kind == "SINK")
            self.fates[name] = _Fate("drop", "it is in no script", early=early)
        for name in sorted(new - old):
            self.fates[name] = _Fate("create", "it is new")
        for name in sorted(old & new):
            self._changed(name, other_value, statements[name])
        self.settle()

    def settle(self) -> None:
        """Carry what is decided over to what depends on it, until nothing moves."""
        while self._spread():
            pass

    def _changed(self, name: str, other_value: OtherValue, written: ast.Create) -> None:
        if name in self.broken:
            self.fates[name] = _Fate("replace", "it is no longer valid as it is")
            return
        old, new = self._entry(self.before, name), self._entry(self.after, name)
        as_it_was = _text(old.statement) == _text(new.statement)
        as_it_was = as_it_was or differs_only_in_spelling(
            old.statement, new.statement, self.before.item(name), self.after.item(name)
        )
        if as_it_was and not (isinstance(written, ast.CreateSecret) and other_value(name, written)):
            return
        hindrance = obstacle(old, new, self.before, self.after, self.registry)
        if hindrance is None:
            self.fates[name] = _Fate("alter", "its value changes" if as_it_was else "its definition changes")
        else:
            self.fates[name] = _Fate("replace", hindrance)

    def _spread(self) -> bool:
        """Carry a replacement or an early drop over to what depends on it; tell whether anything moved."""
        for name in sorted(_names(self.before)):
            fate = self.fates.get(name)
            for user in self.before.dependents(name):
                if self._carried(name, fate, user):
                    return True
        return self._stale_sinks() or self._entangled()

    def _entangled(self) -> bool:
        """Create those views again that read something new which itself reads what changes: no order would do."""
        for name in sorted(self.fates):
            if not self.redefined(name):
                continue
            for used in self.after.all_used(name):
                fate = self.fates.get(used)
                if fate is not None and fate.action in ("create", "replace") and self.reads_redefined(used):
                    what = f'{self._entry(self.after, used).kind.lower()} "{short_name(used)}"'
                    self.fates[name] = _Fate("replace", f"it reads {what}, which is created after it")
                    return True
        return False

    def redefined(self, name: str) -> bool:
        """Tell whether an item gets a new definition in place, all of which are stored in one go."""
        fate, entry = self.fates.get(name), self.after.entry(name)
        return fate is not None and entry is not None and Step(fate.action, entry.kind, name, "").redefines

    def reads_redefined(self, name: str) -> bool:
        """Tell whether an item uses one that gets a new definition in place."""
        return any(self.redefined(used) for used in self.after.all_used(name))

    def _carried(self, name: str, fate: _Fate | None, user: str) -> bool:
        theirs = self.fates.get(user)
        what = f'{self._entry(self.before, name).kind.lower()} "{short_name(name)}"'
        gone_early = fate is not None and (fate.action == "replace" or fate.early)
        reshaped = fate is not None and fate.action == "alter" and self._reshaped(name)
        if gone_early and theirs is not None and theirs.action == "drop" and not theirs.early:
            theirs.early = True
            return True
        if gone_early and (theirs is None or theirs.action == "alter"):
            self.fates[user] = _Fate("replace", f"{what} is created again")
            return True
        if reshaped and theirs is not None and theirs.action == "drop" and not theirs.early:
            theirs.early = True
            return True
        return False

    def _reshaped(self, name: str) -> bool:
        old, new = self.before.item(name), self.after.item(name)
        return isinstance(old, logical.View) and isinstance(new, logical.View) and old.shape != new.shape

    def _stale_sinks(self) -> bool:
        """Change sinks whose rows come about in another way: in place where that goes, else they are replaced."""
        for name in self.before.names("SINK"):
            fate = self.fates.get(name)
            if self.after.entry(name) is None or (fate is not None and fate.action != "alter"):
                continue
            old, new = self.before.item(name), self.after.item(name)
            assert isinstance(old, logical.Sink)
            assert isinstance(new, logical.Sink)
            was, will = lower(name, self.before), lower(name, self.after)
            if old.relation != new.relation:
                hindrance = self._fixed(name, was, will)
                if hindrance is not None:
                    self.fates[name] = _Fate("replace", f"it reads another relation, {hindrance}")
                    return True
                continue
            if was.plan == will.plan:
                continue
            try:
                check_shared_columns(name, self.after, self.transition(was, will))
            except InPlaceError as error:
                self.fates[name] = _Fate("replace", f"{self._culprits(name)}: {error}")
                return True
            if fate is None:
                self.fates[name] = _Fate("alter", self._culprits(name))
                return True
        return False

    def _fixed(self, name: str, was: physical.Job, will: physical.Job) -> str | None:
        """Return why a sink that reads another relation cannot go on in its table; None where it can."""
        if will.write.mode == "upsert":
            try:
                check_shared_columns(name, self.after, self.transition(was, will))
            except InPlaceError as error:
                return f"and {error}"
            return None
        if _types(was) != _types(will):
            return "which has other columns"
        if was.write.change == will.write.change == "append":
            return None
        if was.plan != will.plan or any(self.redefined(used) for used in self.before.all_used(was.sink)):
            return "whose rows come and go"
        return None

    def _culprits(self, sink: str) -> str:
        changed = [
            f'{self._entry(self.after, each).kind.lower()} "{short_name(each)}" changes'
            for each in self.after.all_used(sink)
            if each in self.fates
        ]
        return ", ".join(changed) or "what it reads changes"

    def _entry(self, catalog: MemoryCatalog, name: str) -> logical.Entry:
        entry = catalog.entry(name)
        assert entry is not None
        return entry


def difference(
    before: MemoryCatalog,
    described: ScriptCatalog,
    registry: Registry,
    *,
    broken: Mapping[str, logical.Entry],
    other_value: OtherValue,
    transition: Transition,
) -> tuple[Step, ...]:
    """Return the steps in the order in which they are run: early drops, what is made or changed, late drops.

    All are tried in memory, and what cannot be altered is created again; so that running them does what they say.
    """
    found = _Difference(before, described.catalog, broken, transition, registry)
    found.find(other_value, described.statements)
    while True:
        items = (_step(name, fate, found, described, broken) for name, fate in _ordered(found))
        steps = (*_settings(before, described), *items)
        failure = dry_run(steps, before, described.catalog, registry)
        if failure is None:
            return steps
        for name in failure.names:
            found.fates[name] = _Fate("replace", failure.reason)
        found.settle()


def _types(job: physical.Job) -> dict[str, str]:
    return {column.name: kept_type(parse_type(column.type)) for column in job.write.columns}


def _ordered(found: _Difference) -> Iterator[tuple[str, _Fate]]:
    gone = [name for name, fate in found.fates.items() if fate.action == "drop"]
    early = [name for name in gone if found.fates[name].early]
    yield from ((name, found.fates[name]) for name in reversed(_in_order(early, found.before)))
    made = _in_order((name for name, fate in found.fates.items() if fate.action != "drop"), found.after)
    redefined = [name for name in made if found.redefined(name)]
    after = [name for name in made if name not in redefined and found.reads_redefined(name)]
    before = [name for name in made if name not in redefined and name not in after]
    yield from ((name, found.fates[name]) for name in (*before, *redefined, *after))
    late = [name for name in gone if not found.fates[name].early]
    yield from ((name, found.fates[name]) for name in reversed(_in_order(late, found.before)))


def _in_order(names: Iterable[str], catalog: MemoryCatalog) -> list[str]:
    """Return names as they stand in the scripts, each after those that it uses; those that do not plan come last."""
    wanted = set(names)
    order = in_order({entry.name: catalog.dependencies(entry.name) for entry in catalog.entries()})
    return [*(name for name in order if name in wanted), *sorted(wanted - set(order))]


def _step(
    name: str, fate: _Fate, found: _Difference, described: ScriptCatalog, broken: Mapping[str, logical.Entry]
) -> Step:
    old, new = found.before.entry(name) or broken.get(name), found.after.entry(name)
    entry = new or old
    assert entry is not None
    return Step(
        fate.action,
        entry.kind if fate.action != "drop" or old is None else old.kind,
        name,
        fate.reason,
        changes=tuple(_lines(old, new, found.after.words)),
        early=fate.early,
        statement=described.statements.get(name),
    )


def _settings(before: MemoryCatalog, described: ScriptCatalog) -> Iterator[Step]:
    for name, value in sorted(described.settings.items()):
        present = before.setting(name)
        if present != value:
            yield Step(
                "alter", "SETTING", name, f"it is {present}", changes=(f"- {present}", f"+ {value}"), value=value
            )


def _lines(old: logical.Entry | None, new: logical.Entry | None, words: Keywords) -> Iterator[str]:
    before = to_sql(old.statement, redacted=words).splitlines() if old is not None else []
    after = to_sql(new.statement, redacted=words).splitlines() if new is not None else []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]:
        if not line.startswith("@@"):
            yield f"{line[0]} {line[1:].strip()}"


def _names(catalog: MemoryCatalog) -> set[str]:
    return {entry.name for entry in catalog.entries() if entry.id.startswith("u")}


def _text(statement: ast.Create) -> str:
    return to_sql(without_literal(statement))
