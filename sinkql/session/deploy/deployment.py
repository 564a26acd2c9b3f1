"""Plan a deployment from scripts and a catalog, and save it to a file and load it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sinkql import ast, codec, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.secret.value import secret_input
from sinkql.errors import SinkqlError
from sinkql.keywords import Keywords
from sinkql.lowering.job import lower
from sinkql.planner.item.setting import DEFAULTS
from sinkql.planner.name import short_name
from sinkql.script.redaction import holds_secret
from sinkql.session.deploy.difference import difference
from sinkql.session.deploy.dry_run import Outside, Refusal
from sinkql.session.deploy.effect import CountRows, EffectContext, effect_text
from sinkql.session.deploy.rename import rename, renames, with_facts, without_conflicts
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
    """The steps from one generation of a catalog to the catalog that scripts describe."""

    steps: tuple[Step, ...]
    scripts: tuple[Script, ...]
    keep: bool
    catalog_id: str
    generation: int
    described: ScriptCatalog = field(repr=False, compare=False)

    @property
    def notices(self) -> tuple[ScriptNotice, ...]:
        """Return the notices of the scripts."""
        return tuple(self.described.notices)


def plan_deployment(texts: Sequence[Script], session: Session, *, keep: bool = False) -> Deployment:
    """Return the deployment that makes the catalog match the scripts. Raise the errors of planning the scripts.

    With `keep`, items that no script names stay. Read the catalog and count the rows of the sinks' tables, without any
    change.
    """
    catalog = session.catalog
    catalog.refresh()
    count_rows = _row_counter(session)
    before = catalog.plans.copy()
    valid = tuple(before.entries())  # plans all items, so that `broken` is complete
    broken = {name: item.entry for name, item in before.broken.items()}
    present = [*valid, *broken.values()]
    settings = {name: before.setting(name) for name in DEFAULTS}
    access_of = partial(DescribedAccess, catalog)
    described = read_scripts(texts, catalog.registry, present=present, settings=settings, keep=keep, reach=access_of)

    def other_value(name: str, statement: ast.CreateSecret) -> bool:
        if name in described.unchanged:
            return False  # the catalog stores the statement without the value
        value = secret_input(statement.value).value
        return value is not None and catalog.secret(name) != value

    transition = partial(migration, folder=catalog.database.folder, same=True)
    steps_of = partial(
        difference, registry=catalog.registry, broken=broken, other_value=other_value, transition=transition
    )
    before, described, steps, names = _rename_sinks(before, described, steps_of)
    steps = (*steps, *comment_steps(stored_comments(catalog, names), described.comments, steps))
    ended = {step.name for step in steps if step.action in ("replace", "drop")}
    staying = frozenset(name for name in before.names("SINK") if name not in ended)
    dropped_early = frozenset(step.name for step in steps if step.action == "replace" or step.early)
    outside = Outside(
        catalog, before, described.catalog, DescribedAccess(catalog, described), dropped_early, transition
    )
    effect_context = EffectContext(count_rows, transition)
    described_steps = tuple(
        _with_effect(
            step,
            outside.refusal(step),
            partial(effect_text, before=before, after=described.catalog, context=effect_context, stay=staying),
        )
        for step in steps
    )
    return Deployment(described_steps, tuple(texts), keep, catalog.catalog_id(), catalog.generation, described)


def _rename_sinks(
    before: MemoryCatalog,
    described: ScriptCatalog,
    steps_of: Callable[[MemoryCatalog, ScriptCatalog], tuple[Step, ...]],
) -> tuple[MemoryCatalog, ScriptCatalog, tuple[Step, ...], dict[str, str]]:
    """Rename sinks as in the scripts. Return both catalogs, the steps between them, and the names.

    A sink that must be created again is not renamed.
    """
    names = renames(before, described.catalog, before.registry)
    while True:
        present, renamed = before.copy(), replace(described, catalog=with_facts(names, before, described.catalog))
        rename(names, present)
        steps = steps_of(present, renamed)
        ended = {step.name for step in steps if step.action != "alter"}
        if not ended & {*names.values()}:
            return present, renamed, (*_with_rename_steps(steps, names, renamed),), names
        names = without_conflicts({old_name: name for old_name, name in names.items() if name not in ended}, before)


def _with_rename_steps(steps: Iterable[Step], names: Mapping[str, str], described: ScriptCatalog) -> Iterator[Step]:
    """Yield the steps, preceded by the steps of sinks that only change their names."""
    old_names = {name: old_name for old_name, name in names.items()}
    altered = {step.name for step in steps}
    for name, old_name in old_names.items():
        if name not in altered:
            reason = f'it is renamed from "{short_name(old_name)}"'
            yield Step("alter", "SINK", name, reason, was=old_name, statement=described.statements.get(name))
    for step in steps:
        before = old_names.get(step.name) if step.kind == "SINK" else None
        if before is None:
            yield step
        else:
            yield replace(step, reason=f'it is renamed from "{short_name(before)}"; {step.reason}', was=before)


def _with_effect(step: Step, refusal: Refusal | None, effect: Callable[..., str]) -> Step:
    return replace(step, effect=effect(step, refusal=refusal), refused=refusal.code if refusal is not None else None)


def _row_counter(session: Session) -> CountRows:
    """Return a function that counts the rows of a table or of a sink's table."""

    def count(name: str, catalog: MemoryCatalog) -> int | None:
        entry, item = catalog.entry(name), catalog.item(name)
        if entry is not None and isinstance(entry.statement, ast.CreateTable) and isinstance(item, logical.Source):
            try:
                return table_file(item, entry.statement, session.catalog).count()
            except SinkqlError:
                return None  # the effect then omits the count
        if not isinstance(item, logical.Sink):
            return None
        job = lower(name, catalog)
        ask = session.catalog.registry.sinks[job.write.connector].count_rows
        try:
            return ask(job.write, session.context(job)) if ask is not None else None
        except SinkqlError:
            return None  # the effect then omits the count

    return count


def check_fresh(deployment: Deployment, catalog: Catalog) -> None:
    """Raise SQ5209 if the catalog is a different one, or has changed since the deployment was planned."""
    catalog.refresh()
    if deployment.catalog_id != catalog.catalog_id():
        raise SinkqlError("SQ5209", "the plan was made for another catalog", hint="Plan again with sinkql plan.")
    if deployment.generation != catalog.generation:
        raise SinkqlError(
            "SQ5209", "the catalog has changed since the plan was made", hint="Plan again with sinkql plan."
        )


FORMAT = 1
_ANY = ""
"""The catalog id in a plan for an unchanged new catalog, as all of them are equal."""


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
    """Return the deployment as JSON. Raise SQ4018 if its scripts contain a secret in plain text."""
    for script in deployment.scripts:
        if holds_secret(script.text, words):
            raise SinkqlError(
                "SQ4018",
                f'cannot save a plan that contains a secret: "{script.path}" has one in plain text',
                hint="Use CREATE SECRET … AS env_var('NAME'), and SECRET name in options.",
            )
    steps = tuple(_SavedStep(item.action, item.kind, item.name, item.reason, item.effect) for item in deployment.steps)
    scripts = tuple(_SavedScript(item.path, item.text) for item in deployment.scripts)
    catalog = deployment.catalog_id if deployment.generation else _ANY
    file = _File(FORMAT, catalog, deployment.generation, deployment.keep, steps, scripts)
    return msgspec.json.format(msgspec.json.encode(file), indent=2)


def decode(data: bytes, session: Session) -> Deployment:
    """Load a saved deployment and plan it again. An unchanged catalog gives the same steps.

    Raise SQ4019 for a file that is not a saved plan, and SQ5209 if the catalog is a different one or has changed.
    """
    try:
        file = codec.decoder(_File).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_a_plan_error(str(error)) from error
    if file.sinkql_plan != FORMAT:
        raise _not_a_plan_error(f"it has format {file.sinkql_plan}, not {FORMAT}")
    catalog = session.catalog
    catalog.refresh()
    is_same_catalog = file.catalog in (catalog.catalog_id(), _ANY)
    if not is_same_catalog or file.generation != catalog.generation:
        changed = "the catalog has changed since the plan was made"
        message = changed if is_same_catalog else "the plan was made for another catalog"
        raise SinkqlError("SQ5209", message, hint="Plan again with sinkql plan.")
    texts = tuple(Script(script.path, script.text) for script in file.scripts)
    return plan_deployment(texts, session, keep=file.keep)


def _not_a_plan_error(reason: str) -> SinkqlError:
    return SinkqlError(
        "SQ4019", "the file is not a saved plan", detail=reason, hint="Create a plan with sinkql plan --out FILE."
    )


def as_data(deployment: Deployment) -> dict[str, Any]:
    """Return the deployment as JSON data for other programs."""
    steps = [
        {
            "action": step.action,
            "kind": step.kind,
            "name": short_name(step.name),
            "reason": step.reason,
            "effect": step.effect,
            "changes": list(step.changes),
            **({"was": short_name(step.was)} if step.was is not None else {}),
            **({"refused": step.refused} if step.refused is not None else {}),
        }
        for step in deployment.steps
    ]
    summary = {action: sum(step.action == action for step in deployment.steps) for action in _ACTIONS}
    return {"steps": steps, "summary": summary}


_ACTIONS = ("create", "alter", "replace", "drop")
