"""A deployment ↔ a file: what was planned, of which catalog, from which scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sinkql import codec
from sinkql.errors import SinkqlError
from sinkql.keywords import Keywords
from sinkql.planner.name import short_name
from sinkql.script.redaction import holds_secret
from sinkql.session.deploy.deployment import Deployment, plan_deployment
from sinkql.session.deploy.script_catalog import Script

if TYPE_CHECKING:
    from sinkql.session.session import Session

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
