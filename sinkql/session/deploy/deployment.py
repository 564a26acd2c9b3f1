"""Scripts and a catalog → the deployment: its steps, each with its effect.

A deployment ↔ a file: what was planned, of which catalog, from which scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sinkql import ast, codec, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.secret.value import given
from sinkql.errors import SinkqlError
from sinkql.keywords import Keywords
from sinkql.lowering.job import lower
from sinkql.planner.item.setting import DEFAULTS
from sinkql.planner.name import short_name
from sinkql.script.redaction import holds_secret
from sinkql.session.deploy.difference import difference
from sinkql.session.deploy.dry_run import Outside, Refusal
from sinkql.session.deploy.effect import CountRows, EffectContext, effect_text
from sinkql.session.deploy.rename import free, rename, renames, with_facts
from sinkql.session.deploy.script_catalog import (
    DescribedAccess,
    Script,
    ScriptCatalog,
    ScriptNotice,
    comment_steps,
    read_scripts,
    stored_comments,
)
from sinkql.session.deploy.step import Step
from sinkql.session.item.plan_history import migration
from sinkql.session.row.inputs import table_file

if TYPE_CHECKING:
    from sinkql.session.session import Session


@dataclass(frozen=True, slots=True)
class Deployment:
    """The steps from a catalog, at a generation, to what scripts describe."""

    steps: tuple[Step, ...]
    scripts: tuple[Script, ...]
    keep: bool
    catalog_id: str
    generation: int
    described: ScriptCatalog = field(repr=False, compare=False)

    @property
    def notices(self) -> tuple[ScriptNotice, ...]:
        """Return what the user should know about the scripts."""
        return tuple(self.described.notices)


def plan_deployment(texts: Sequence[Script], session: Session, *, keep: bool = False) -> Deployment:
    """Return what it takes to make the catalog as the scripts have it; raises what planning the scripts raises.

    With `keep`, items that no script names stay. Reads the catalog, and asks the sinks' tables for their numbers of
    rows; changes nothing.
    """
    catalog = session.catalog
    catalog.refresh()
    count = _counting(session)
    before = catalog.plans.copy()
    sound = tuple(before.entries())  # plans them all: what cannot be is among the broken ones only then
    broken = {name: each.entry for name, each in before.broken.items()}
    present = [*sound, *broken.values()]
    settings = {name: before.setting(name) for name in DEFAULTS}
    reach = partial(DescribedAccess, catalog)
    found = read_scripts(texts, catalog.registry, present=present, settings=settings, keep=keep, reach=reach)

    def other_value(name: str, statement: ast.CreateSecret) -> bool:
        if name in found.kept:
            return False  # the catalog's statement of a secret is without its value
        value = given(statement.value).value
        return value is not None and catalog.secret(name) != value

    follow = partial(migration, folder=catalog.database.folder, same=True)
    steps_of = partial(difference, registry=catalog.registry, broken=broken, other_value=other_value, transition=follow)
    before, found, steps, names = _renamed(before, found, steps_of)
    steps = (*steps, *comment_steps(stored_comments(catalog, names), found.comments, steps))
    ended = {step.name for step in steps if step.action in ("replace", "drop")}
    stay = frozenset(name for name in before.names("SINK") if name not in ended)
    gone = frozenset(step.name for step in steps if step.action == "replace" or step.early)
    outside = Outside(catalog, before, found.catalog, DescribedAccess(catalog, found), gone, follow)
    saying = EffectContext(count, follow)
    told_steps = tuple(
        _told(
            step,
            outside.refusal(step),
            partial(effect_text, before=before, after=found.catalog, known=saying, stay=stay),
        )
        for step in steps
    )
    return Deployment(told_steps, tuple(texts), keep, catalog.catalog_id(), catalog.generation, found)


def _renamed(
    before: MemoryCatalog, found: ScriptCatalog, steps_of: Callable[[MemoryCatalog, ScriptCatalog], tuple[Step, ...]]
) -> tuple[MemoryCatalog, ScriptCatalog, tuple[Step, ...], dict[str, str]]:
    """Give sinks the names that scripts have for them; return both catalogs, the steps from there, and the names.

    A sink that would be created again all the same is not renamed.
    """
    names = renames(before, found.catalog, before.registry)
    while True:
        present, described = before.copy(), replace(found, catalog=with_facts(names, before, found.catalog))
        rename(names, present)
        steps = steps_of(present, described)
        ended = {step.name for step in steps if step.action != "alter"}
        if not ended & {*names.values()}:
            return present, described, (*_with_names(steps, names, described),), names
        names = free({was: name for was, name in names.items() if name not in ended}, before)


def _with_names(steps: Iterable[Step], names: Mapping[str, str], described: ScriptCatalog) -> Iterator[Step]:
    """Yield the steps, in front of them those of sinks that are only renamed."""
    old_names = {name: was for was, name in names.items()}
    altered = {step.name for step in steps}
    for name, was in old_names.items():
        if name not in altered:
            reason = f'it is renamed from "{short_name(was)}"'
            yield Step("alter", "SINK", name, reason, was=was, statement=described.statements.get(name))
    for step in steps:
        before = old_names.get(step.name) if step.kind == "SINK" else None
        if before is None:
            yield step
        else:
            yield replace(step, reason=f'it is renamed from "{short_name(before)}"; {step.reason}', was=before)


def _told(step: Step, refusal: Refusal | None, effect: Callable[..., str]) -> Step:
    return replace(step, effect=effect(step, refusal=refusal), refused=refusal.code if refusal is not None else None)


def _counting(session: Session) -> CountRows:
    """Return what counts the rows of tables, of sinks too: nothing where there is none, or it cannot be asked."""

    def count(name: str, catalog: MemoryCatalog) -> int | None:
        entry, item = catalog.entry(name), catalog.item(name)
        if entry is not None and isinstance(entry.statement, ast.CreateTable) and isinstance(item, logical.Source):
            try:
                return table_file(item, entry.statement, session.catalog).count()
            except SinkqlError:
                return None  # as below
        if not isinstance(item, logical.Sink):
            return None
        job = lower(name, catalog)
        ask = session.catalog.registry.sinks[job.write.connector].count_rows
        try:
            return ask(job.write, session.context(job)) if ask is not None else None
        except SinkqlError:
            return None  # the plan says less, and is right all the same

    return count


def check_fresh(deployment: Deployment, catalog: Catalog) -> None:
    """Raise SQ5209 if the catalog is another one, or has moved since the deployment was planned."""
    catalog.refresh()
    if deployment.catalog_id != catalog.catalog_id():
        raise SinkqlError("SQ5209", "the plan was made for another catalog", hint="Plan again with sinkql plan.")
    if deployment.generation != catalog.generation:
        raise SinkqlError(
            "SQ5209", "the catalog has changed since the plan was made", hint="Plan again with sinkql plan."
        )


FORMAT = 1
_ANY = ""
"""The catalog of a plan for one to which nothing was done yet: all of those are the same."""


class _SavedStep(msgspec.Struct, frozen=True):
    action: str
    kind: str
    name: str
    reason: str
    effect: str


class _SavedScript(msgspec.Struct, frozen=True):
    path: str
    text: str


class _File(msgspec.Struct, frozen=True):
    sinkql_plan: int
    catalog: str
    generation: int
    keep: bool
    steps: tuple[_SavedStep, ...]
    scripts: tuple[_SavedScript, ...]


def encode(deployment: Deployment, words: Keywords) -> bytes:
    """Return the deployment as JSON; raises SQ4018 if its scripts hold a secret in the clear."""
    for script in deployment.scripts:
        if holds_secret(script.text, words):
            raise SinkqlError(
                "SQ4018",
                f'cannot save a plan that contains a secret: "{script.path}" has one in the clear',
                hint="Write CREATE SECRET … AS env_var('NAME'), and SECRET name in options.",
            )
    steps = tuple(_SavedStep(each.action, each.kind, each.name, each.reason, each.effect) for each in deployment.steps)
    scripts = tuple(_SavedScript(each.path, each.text) for each in deployment.scripts)
    catalog = deployment.catalog_id if deployment.generation else _ANY
    file = _File(FORMAT, catalog, deployment.generation, deployment.keep, steps, scripts)
    return msgspec.json.format(msgspec.json.encode(file), indent=2)


def decode(data: bytes, session: Session) -> Deployment:
    """Return a saved deployment, planned again: while the catalog has not moved, its steps are the same.

    Raises SQ4019 for what is not a saved plan, SQ5209 if the catalog is another or has moved.
    """
    try:
        file = codec.decoder(_File).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_plan(str(error)) from error
    if file.sinkql_plan != FORMAT:
        raise _no_plan(f"it has format {file.sinkql_plan}, not {FORMAT}")
    catalog = session.catalog
    catalog.refresh()
    own = file.catalog in (catalog.catalog_id(), _ANY)
    if not own or file.generation != catalog.generation:
        what = "the catalog has changed since the plan was made"
        message = what if own else "the plan was made for another catalog"
        raise SinkqlError("SQ5209", message, hint="Plan again with sinkql plan.")
    texts = tuple(Script(each.path, each.text) for each in file.scripts)
    return plan_deployment(texts, session, keep=file.keep)


def _no_plan(reason: str) -> SinkqlError:
    return SinkqlError(
        "SQ4019", "the file is not a saved plan", detail=reason, hint="Make one with sinkql plan --out FILE."
    )


def as_data(deployment: Deployment) -> dict[str, Any]:
    """Return the deployment as JSON-able data, for other programs."""
    steps = [
        {
            "action": each.action,
            "kind": each.kind,
            "name": short_name(each.name),
            "reason": each.reason,
            "effect": each.effect,
            "changes": list(each.changes),
            **({"was": short_name(each.was)} if each.was is not None else {}),
            **({"refused": each.refused} if each.refused is not None else {}),
        }
        for each in deployment.steps
    ]
    summary = {action: sum(each.action == action for each in deployment.steps) for action in _ACTIONS}
    return {"steps": steps, "summary": summary}


_ACTIONS = ("create", "alter", "replace", "drop")
