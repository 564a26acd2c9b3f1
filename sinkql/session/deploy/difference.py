"""Compare the present catalog with the described one and return the steps with reasons. It does no I/O."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sinkql import ast, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.types import kept_type
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
"""Return whether the stored value of a secret differs from the statement's value."""


@dataclass(slots=True)
class _Fate:
    """The action for an item and its reason."""

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
        """Decide on every item separately, then propagate the decisions to dependents."""
        old, new = _names(self.before) | self.broken.keys(), _names(self.after)
        wanted = {place_of(name, self.after) for name in self.after.names("SINK")} - {None}
        for name in sorted(old - new):
            # another sink will write to its destination; a broken sink's destination is unknown
            early = place_of(name, self.before) in wanted or (name in self.broken and self.broken[name].kind == "SINK")
            self.fates[name] = _Fate("drop", "no script has it", early=early)
        for name in sorted(new - old):
            self.fates[name] = _Fate("create", "it is new")
        for name in sorted(old & new):
            self._decide(name, other_value, statements[name])
        self.settle()

    def settle(self) -> None:
        """Propagate the decisions to dependents until nothing changes."""
        while self._propagate():
            pass

    def _decide(self, name: str, other_value: OtherValue, written: ast.Create) -> None:
        if name in self.broken:
            self.fates[name] = _Fate("replace", "it is no longer valid")
            return
        old, new = self._entry(self.before, name), self._entry(self.after, name)
        is_unchanged = _text(old.statement) == _text(new.statement)
        is_unchanged = is_unchanged or differs_only_in_spelling(
            old.statement, new.statement, self.before.item(name), self.after.item(name)
        )
        if is_unchanged and not (isinstance(written, ast.CreateSecret) and other_value(name, written)):
            return
        reason = obstacle(old, new, self.before, self.after, self.registry)
        if reason is None:
            self.fates[name] = _Fate("alter", "its value changes" if is_unchanged else "its definition changes")
        else:
            self.fates[name] = _Fate("replace", reason)

    def _propagate(self) -> bool:
        """Propagate one replacement or early drop to a dependent. Return whether anything changed."""
        for name in sorted(_names(self.before)):
            fate = self.fates.get(name)
            for user in self.before.dependents(name):
                if self._propagate_to(name, fate, user):
                    return True
        return self._decide_sinks() or self._replace_interleaved()

    def _replace_interleaved(self) -> bool:
        """Replace a view between redefined and new items, because no order of the steps works."""
        for name in sorted(self.fates):
            if not self.is_redefined(name):
                continue
            for used in self.after.all_used(name):
                fate = self.fates.get(used)
                if fate is not None and fate.action in ("create", "replace") and self.uses_redefined(used):
                    description = f'{self._entry(self.after, used).kind.lower()} "{short_name(used)}"'
                    self.fates[name] = _Fate("replace", f"it reads {description}, which is created after it")
                    return True
        return False

    def is_redefined(self, name: str) -> bool:
        """Return whether an item gets a new definition in place. One change stores all new definitions."""
        fate, entry = self.fates.get(name), self.after.entry(name)
        return fate is not None and entry is not None and Step(fate.action, entry.kind, name, "").redefines

    def uses_redefined(self, name: str) -> bool:
        """Return whether an item uses one that gets a new definition in place."""
        return any(self.is_redefined(used) for used in self.after.all_used(name))

    def _propagate_to(self, name: str, fate: _Fate | None, user: str) -> bool:
        user_fate = self.fates.get(user)
        description = f'{self._entry(self.before, name).kind.lower()} "{short_name(name)}"'
        is_dropped_early = fate is not None and (fate.action == "replace" or fate.early)
        has_new_columns = fate is not None and fate.action == "alter" and self._has_new_shape(name)
        if is_dropped_early and user_fate is not None and user_fate.action == "drop" and not user_fate.early:
            user_fate.early = True
            return True
        if is_dropped_early and (user_fate is None or user_fate.action == "alter"):
            self.fates[user] = _Fate("replace", f"{description} is created again")
            return True
        if has_new_columns and user_fate is not None and user_fate.action == "drop" and not user_fate.early:
            user_fate.early = True
            return True
        return False

    def _has_new_shape(self, name: str) -> bool:
        old, new = self.before.item(name), self.after.item(name)
        return isinstance(old, logical.View) and isinstance(new, logical.View) and old.shape != new.shape

    def _decide_sinks(self) -> bool:
        """Decide on one sink whose plan changes: alter or replace it. Return whether a sink was decided."""
        for name in self.before.names("SINK"):
            fate = self.fates.get(name)
            if self.after.entry(name) is None or (fate is not None and fate.action != "alter"):
                continue
            old, new = (logical.get_item(catalog, name, logical.Sink) for catalog in (self.before, self.after))
            old_job, new_job = lower(name, self.before), lower(name, self.after)
            if old.relation != new.relation:
                reason = self._relation_obstacle(name, old_job, new_job)
                if reason is not None:
                    self.fates[name] = _Fate("replace", f"it reads another relation, {reason}")
                    return True
                continue
            if old_job.plan == new_job.plan:
                continue
            try:
                check_shared_columns(name, self.after, self.transition(old_job, new_job))
            except InPlaceError as error:
                self.fates[name] = _Fate("replace", f"{self._changed_inputs(name)}: {error}")
                return True
            if fate is None:
                self.fates[name] = _Fate("alter", self._changed_inputs(name))
                return True
        return False

    def _relation_obstacle(self, name: str, old: physical.Job, new: physical.Job) -> str | None:
        """Return why a sink that reads another relation cannot continue in its table; None if it can."""
        if new.write.mode == "upsert":
            try:
                check_shared_columns(name, self.after, self.transition(old, new))
            except InPlaceError as error:
                return f"and {error}"
            return None
        if _types(old) != _types(new):
            return "which has other columns"
        if old.write.change == new.write.change == "append":
            return None
        if old.plan != new.plan or any(self.is_redefined(used) for used in self.before.all_used(old.sink)):
            return "which updates or deletes rows"
        return None

    def _changed_inputs(self, sink: str) -> str:
        reasons = [
            f'{self._entry(self.after, used).kind.lower()} "{short_name(used)}" changes'
            for used in self.after.all_used(sink)
            if used in self.fates
        ]
        return ", ".join(reasons) or "its input changes"

    def _entry(self, catalog: MemoryCatalog, name: str) -> logical.Entry:
        return logical.get_entry(catalog, name)


def difference(
    before: MemoryCatalog,
    described: ScriptCatalog,
    registry: Registry,
    *,
    broken: Mapping[str, logical.Entry],
    other_value: OtherValue,
    transition: Transition,
) -> tuple[Step, ...]:
    """Return the steps in order: early drops, creations and changes, late drops.

    A dry run in memory tries all steps. Replace an item that cannot be altered, so that the steps work when applied.
    """
    decisions = _Difference(before, described.catalog, broken, transition, registry)
    decisions.find(other_value, described.statements)
    while True:
        items = (_step(name, fate, decisions, described, broken) for name, fate in _sorted_fates(decisions))
        steps = (*_settings(before, described), *items)
        failure = dry_run(steps, before, described.catalog)
        if failure is None:
            return steps
        for name in failure.names:
            decisions.fates[name] = _Fate("replace", failure.reason)
        decisions.settle()


def _types(job: physical.Job) -> dict[str, str]:
    return {column.name: kept_type(column.type) for column in job.write.columns}


def _sorted_fates(decisions: _Difference) -> Iterator[tuple[str, _Fate]]:
    dropped = [name for name, fate in decisions.fates.items() if fate.action == "drop"]
    early = [name for name in dropped if decisions.fates[name].early]
    yield from ((name, decisions.fates[name]) for name in reversed(_in_script_order(early, decisions.before)))
    remaining = _in_script_order(
        (name for name, fate in decisions.fates.items() if fate.action != "drop"), decisions.after
    )
    is_redefined = [name for name in remaining if decisions.is_redefined(name)]
    after = [name for name in remaining if name not in is_redefined and decisions.uses_redefined(name)]
    before = [name for name in remaining if name not in is_redefined and name not in after]
    yield from ((name, decisions.fates[name]) for name in (*before, *is_redefined, *after))
    late = [name for name in dropped if not decisions.fates[name].early]
    yield from ((name, decisions.fates[name]) for name in reversed(_in_script_order(late, decisions.before)))


def _in_script_order(names: Iterable[str], catalog: MemoryCatalog) -> list[str]:
    """Return names in script order, each after the items that it uses. Items that do not plan come last."""
    wanted = set(names)
    order = in_order({entry.name: catalog.dependencies(entry.name) for entry in catalog.entries()})
    return [*(name for name in order if name in wanted), *sorted(wanted - set(order))]


def _step(
    name: str, fate: _Fate, decisions: _Difference, described: ScriptCatalog, broken: Mapping[str, logical.Entry]
) -> Step:
    old, new = decisions.before.entry(name) or broken.get(name), decisions.after.entry(name)
    present = old if fate.action == "drop" else None
    entry = present or new or old or logical.get_entry(decisions.after, name)
    return Step(
        fate.action,
        entry.kind,
        name,
        fate.reason,
        changes=tuple(_lines(old, new, decisions.after.words)),
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
