"""Arguments → calls of the session; its results and errors → output and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from sinkql.cli.catalog import catalog as catalog_group
from sinkql.cli.completion import completion, names_of
from sinkql.cli.deploy import apply, plan
from sinkql.cli.doctor import doctor
from sinkql.cli.fmt import fmt
from sinkql.cli.lint import lint
from sinkql.cli.opening import open_session as _session
from sinkql.cli.output import Format, Output
from sinkql.cli.preview import preview
from sinkql.cli.script import VARIABLES, fill_script, fill_scripts
from sinkql.cli.secret import secret
from sinkql.cli.shell import shell
from sinkql.errors import SinkqlError

USAGE = 64
_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(exists=False, path_type=Path))
_ONCE = click.option("--once", is_flag=True, help="Commit what there is now, then stop.")
_SINKS = names_of("SINK")
_TAKEOVER = click.option("--takeover", is_flag=True, help="Take sinks over from a process that runs them.")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    output = Output("json" if _wants_json(arguments) else "text")
    try:
        code = cli.main(args=list(arguments), prog_name="sinkql", standalone_mode=False, obj=output)
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        _placed(error).show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SinkqlError as error:
        output.error(error)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _placed(error: click.UsageError) -> click.UsageError:
    """Say of an option of sinkql itself that it stands before the command."""
    if isinstance(error, click.NoSuchOption):
        written = {"--output": "--output json", "--json": "--output json", "--catalog": "--catalog FILE"}
        option = written.get(error.option_name)
        if option is not None and error.ctx is not None:
            place = f"Write it before the command: sinkql {option} {error.ctx.info_name}"
            return click.UsageError(f"No such option {error.option_name!r}. {place}", error.ctx)
    return error


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--output=json" in arguments or any(
        (first, second) == ("--output", "json") for first, second in pairwise(arguments)
    )


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="sinkql")
@click.option("--catalog", metavar="URL", help="Catalog to use: a file or an SQLAlchemy URL. [.sinkql/catalog.db]")
@click.option(
    "--output", "format_", type=click.Choice(["text", "json"]), default="text", help="Print text or JSON lines."
)
@click.pass_context
def cli(context: click.Context, catalog: str | None, format_: Format) -> None:
    """Turn SQL into exactly-once pipelines into Apache Iceberg."""
    # errors are printed by what knows the scripts that they are in
    output = context.obj if isinstance(context.obj, Output) else Output(format_)
    context.obj = (catalog, output)


cli.add_command(catalog_group)
cli.add_command(fmt)
cli.add_command(preview)
cli.add_command(apply)
cli.add_command(doctor)
cli.add_command(lint)
cli.add_command(plan)
cli.add_command(secret)
cli.add_command(shell)
cli.add_command(completion)


@cli.command("exec")
@_FILES
@VARIABLES
@_ONCE
@_TAKEOVER
@click.pass_context
def exec_(
    context: click.Context, files: tuple[Path, ...], variables: dict[str, str], once: bool, takeover: bool
) -> int:
    """Run the statements of FILES, then keep the sinks that they create running.

    An object that exists already and is the same is left as it is. Ctrl-C finishes the running batch and stops.
    """
    from sinkql.cli.running import execute, run_sinks

    session, output = _session(context)
    sinks: list[str] = []
    for path in files:
        sinks += execute(session, output, fill_script(path, output, variables), str(path))
        session.end_script()
    if not sinks:
        return 0
    return run_sinks(session, output, sinks, once=once, takeover=takeover)


@cli.command()
@click.argument("names", nargs=-1, shell_complete=_SINKS)
@_ONCE
@_TAKEOVER
@click.pass_context
def up(context: click.Context, names: tuple[str, ...], once: bool, takeover: bool) -> int:
    """Run all sinks that are not stopped, or NAMES, also those created, changed or started later.

    Sinks that another process runs are left to it until it ends. Ctrl-C finishes the running batches and stops.
    """
    from sinkql.cli.running import run_up

    session, output = _session(context)
    return run_up(session, output, names or None, once=once, takeover=takeover)


@cli.command()
@click.argument("names", nargs=-1, required=True, shell_complete=_SINKS)
@click.pass_context
def start(context: click.Context, names: tuple[str, ...]) -> int:
    """Let the sinks NAMES run again: sinkql up, where it runs, starts them."""
    session, output = _session(context)
    for name in names:
        session.start(name)
        output.line(f'sink "{name}" is to run', sink=name)
    return 0


@cli.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Folder to work in; it is kept. [a temporary one]")
@click.pass_context
def demo(context: click.Context, folder: Path | None) -> int:
    """Run the quickstart example once, and print the rows that it committed."""
    from sinkql.cli.demo import run_demo

    _, output = context.obj
    return run_demo(output, folder)


@cli.command("compile")
@_FILES
@VARIABLES
@click.option("-o", "target", type=click.Path(path_type=Path), help="File for the jobs. [standard output]")
@click.option("--facts", type=click.Path(exists=True, path_type=Path), help="JSON file of facts: {item: {…}}.")
@click.pass_context
def compile_(
    context: click.Context,
    files: tuple[Path, ...],
    variables: dict[str, str],
    target: Path | None,
    facts: Path | None,
) -> int:
    """Plan the statements of FILES and write their sinks' jobs as JSON. Starts no Spark and touches no network."""
    import json

    import sinkql

    _, output = context.obj
    known = json.loads(facts.read_text()) if facts is not None else None
    text, paths = fill_scripts(files, output, variables)
    program = sinkql.compile(text, facts=known, path=paths)
    for notice in program.notices:
        output.notice(notice)
    if target is None:
        click.echo(program.to_json())
    else:
        _write_private(target, program.to_json() + "\n")
        jobs = "1 job" if len(program.jobs) == 1 else f"{len(program.jobs)} jobs"
        output.line(f"wrote {jobs} to {target}", jobs=len(program.jobs), file=target)
    return 0


def _write_private(path: Path, text: str) -> None:
    """Write a file that is the owner's alone: a job holds what its connections' options say."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)


@cli.command("run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_ONCE
@_TAKEOVER
@click.pass_context
def run_(context: click.Context, file: Path, once: bool, takeover: bool) -> int:
    """Run the jobs of FILE, as `sinkql compile -o FILE` wrote them."""
    import sinkql
    from sinkql.cli.running import run_jobs

    session, output = _session(context)
    program = sinkql.Program.from_json(file.read_text())
    return run_jobs(session, output, program.jobs, once=once, takeover=takeover)


@cli.command()
@_FILES
@VARIABLES
@click.option("--stage", type=click.Choice(["raw", "optimized", "physical", "spark-sql"]), default="physical")
@click.pass_context
def explain(context: click.Context, files: tuple[Path, ...], variables: dict[str, str], stage: str) -> int:
    """Print the plans of the sinks and views of FILES. Starts no Spark and touches no network."""
    import sinkql

    _, output = context.obj
    text, paths = fill_scripts(files, output, variables)
    program = sinkql.compile(text, path=paths)
    for name, text in program.explain(stage):
        output.line(text, item=name, stage=stage, plan=text)
    return 0


@cli.command()
@click.argument("names", nargs=-1, shell_complete=_SINKS)
@click.pass_context
def status(context: click.Context, names: tuple[str, ...]) -> int:
    """Print what the sinks are doing, all of them or NAMES."""
    session, output = _session(context)
    columns, rows = session.status(names)
    output.table(*((columns, rows) if output.format == "json" else _without_empty(columns, rows)))
    return 0


def _without_empty(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Leave out what nobody reads: ids, and hints and the like while there are none."""
    shown = [
        place
        for place, name in enumerate(columns)
        if name != "id" and (name not in ("skipped", "error", "hint") or any(row[place] for row in rows))
    ]
    return [columns[place] for place in shown], [[row[place] for place in shown] for row in rows]


@cli.command()
@click.argument("names", nargs=-1, required=True, shell_complete=_SINKS)
@click.pass_context
def stop(context: click.Context, names: tuple[str, ...]) -> int:
    """Ask the process that runs the sinks NAMES to finish their batch and stop."""
    session, output = _session(context)
    for name in names:
        session.stop(name)
        output.line(f'sink "{name}" is asked to stop', sink=name)
    return 0
