"""`sinkql plan` and `sinkql apply`: compare files of SQL with the catalog, and apply them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sinkql.cli.context import VARIABLES, fill_script, open_or_empty, open_session
from sinkql.cli.output import Output
from sinkql.errors import error_codes
from sinkql.script.split import script_files
from sinkql.storage import files

if TYPE_CHECKING:
    from sinkql.session import Session
    from sinkql.session.deploy.deployment import Deployment

_PENDING = 2
_PATHS = click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
_KEEP = click.option("--keep", is_flag=True, help="Keep items that no file defines, instead of dropping them.")


@click.command(short_help="Show how the catalog differs from files of SQL.")
@_PATHS
@VARIABLES
@_KEEP
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 if something would change.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Save the plan for `sinkql apply`.")
@click.pass_context
def plan(
    context: click.Context,
    paths: tuple[Path, ...],
    variables: dict[str, str],
    keep: bool,
    detailed_exitcode: bool,
    out: Path | None,
) -> int:
    """Show the steps that make the catalog match FILEs (or folders of .sql files). Changes nothing.

    Without a catalog, everything is new. If a step is refused, the exit code is that of its error.
    """
    session, output = open_or_empty(context)
    deployment = _planned(session, output, paths, variables, keep=keep)
    _print(deployment, output)
    if out is not None:
        from sinkql.session.deploy.deployment import encode

        files.write_atomic(out, encode(deployment, session.catalog.registry.keywords) + b"\n")
    refused = next((step.refused for step in deployment.steps if step.refused is not None), None)
    if out is not None:
        output.note(f"\nsaved; {_after_saving(out, refused)}")
    if refused is not None:
        return error_codes[refused].exit_code
    return _PENDING if detailed_exitcode and deployment.steps else 0


@click.command(short_help="Make the catalog match files of SQL.")
@_PATHS
@VARIABLES
@_KEEP
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def apply(context: click.Context, paths: tuple[Path, ...], variables: dict[str, str], keep: bool, yes: bool) -> int:
    """Make the catalog match FILEs (or folders of .sql files), or carry out a saved plan.

    A saved plan is refused if the catalog has changed since. New sinks are created but not run; `sinkql up` runs them.
    """
    session, output = open_session(context)
    saved = _saved(paths)
    from sinkql.session.deploy.apply import apply as apply_steps
    from sinkql.session.deploy.deployment import decode

    deployment = decode(saved, session) if saved is not None else _planned(session, output, paths, variables, keep=keep)
    _print(deployment, output)
    if not deployment.steps:
        return 0
    if saved is None and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("cannot ask for confirmation without a terminal: add --yes, or apply a saved plan")
        click.confirm("Apply?", abort=True, err=True)
    apply_steps(deployment, session)
    output.note("applied")
    if any(step.kind == "SINK" and step.action in ("create", "replace") for step in deployment.steps):
        output.note("run the sinks with sinkql up")
    return 0


def _planned(
    session: Session, output: Output, paths: tuple[Path, ...], variables: Mapping[str, str], *, keep: bool
) -> Deployment:
    from sinkql.session.deploy.deployment import plan_deployment
    from sinkql.session.deploy.script_catalog import Script

    texts = [Script(str(path), fill_script(path, output, variables)) for path in script_files(paths)]
    deployment = plan_deployment(texts, session, keep=keep)
    for notice in deployment.notices:
        output.notice(notice.notice, path=notice.path, text=notice.text)
    return deployment


def _after_saving(plan_file: Path, refused: str | None) -> str:
    """Return what the user may do with a saved plan; `refused` is the code of a step that is refused now."""
    if refused is None:
        return f"carry it out with sinkql apply {plan_file}"
    return f"sinkql apply {plan_file} fails with {refused} in the present state"


def _saved(paths: tuple[Path, ...]) -> bytes | None:
    """Return the content of a saved plan if the paths name one."""
    if len(paths) != 1 or not paths[0].is_file():
        return None
    data = paths[0].read_bytes()
    return data if data.lstrip()[:1] == b"{" else None


def _print(deployment: Deployment, output: Output) -> None:
    from sinkql.session.deploy.deployment import as_data
    from sinkql.session.deploy.step import MARKS

    data = as_data(deployment)
    if output.format == "json":
        output.line("", **data)
        return
    if not deployment.steps:
        output.note("nothing to change")
        return
    for step in deployment.steps:
        output.note(f"{MARKS[step.action]:>3} {_title(step.kind, step.name)}: {step.reason}")
        if step.effect:
            output.note(f"      {step.effect}")
        if step.action in ("alter", "replace"):
            for line in step.changes:
                output.note(f"      {line}")
    summary = ", ".join(f"{count} to {action}" for action, count in data["summary"].items() if count)
    refused = [step.refused for step in deployment.steps if step.refused is not None]
    refusals = f"; {len(refused)} refused in the present state ({', '.join(dict.fromkeys(refused))})" if refused else ""
    output.note(f"\n{summary}{refusals}")


def _title(kind: str, name: str) -> str:
    from sinkql.planner.name import short_name

    return f"{kind.lower()} {short_name(name)}"
