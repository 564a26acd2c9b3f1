"""`sinkql exec`, `up`, `run`, `start`, `stop`, `status`, `demo`: run sinks and show their status."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import sinkql
from sinkql.cli.context import FILES, VARIABLES, fill_script, names_of, open_existing, open_session

_ONCE = click.option("--once", is_flag=True, help="Process all data that is available now, then stop.")
_SINKS = names_of("SINK", "MATERIALIZED VIEW")
_TAKEOVER = click.option("--takeover", is_flag=True, help="Take over sinks that another process runs.")


@click.command("exec", short_help="Run scripts, then keep their sinks running.")
@FILES
@VARIABLES
@_ONCE
@_TAKEOVER
@click.pass_context
def exec_(
    context: click.Context, files: tuple[Path, ...], variables: dict[str, str], once: bool, takeover: bool
) -> int:
    """Run the statements of FILES, then keep the sinks that they create running.

    Materialized views WITH (COMMIT INTERVAL = …) run too, so that queries can read their rows.

    Items that exist with the same definition stay unchanged. Ctrl-C finishes the running batch and stops.
    """
    from sinkql.cli.execute import execute, jobs_among, run_sinks

    session, output = open_session(context)
    names: list[str] = []
    for path in files:
        names += execute(session, output, fill_script(path, output, variables), str(path))
        session.end_script()
    jobs = jobs_among(session, output, names)
    if not jobs:
        return 0
    return run_sinks(session, output, jobs, once=once, takeover=takeover)


@click.command(short_help="Run the sinks of the catalog.")
@click.argument("names", nargs=-1, shell_complete=_SINKS)
@_ONCE
@_TAKEOVER
@click.pass_context
def up(context: click.Context, names: tuple[str, ...], once: bool, takeover: bool) -> int:
    """Run the sinks NAMES, or all that are not stopped, including sinks that you create or start later.

    A sink that another process runs stays there until that process ends. Ctrl-C finishes the running batches and
    stops.
    """
    from sinkql.cli.execute import run_up

    session, output = open_session(context)
    return run_up(session, output, names or None, once=once, takeover=takeover)


@click.command("run", short_help="Run compiled jobs.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_ONCE
@_TAKEOVER
@click.pass_context
def run_(context: click.Context, file: Path, once: bool, takeover: bool) -> int:
    """Run the jobs of FILE, as `sinkql compile -o FILE` wrote them."""
    from sinkql.cli.execute import run_jobs

    session, output = open_session(context)
    program = sinkql.Program.from_json(file.read_text())
    return run_jobs(session, output, program.jobs, once=once, takeover=takeover)


@click.command(short_help="Start stopped sinks.")
@click.argument("names", nargs=-1, required=True, shell_complete=_SINKS)
@click.pass_context
def start(context: click.Context, names: tuple[str, ...]) -> int:
    """Allow the sinks or views NAMES to run again after they were stopped or have failed.

    A running `sinkql up` starts them. A running `sinkql exec` starts sinks that failed in it.
    """
    session, output = open_existing(context)
    for name in names:
        session.start(name)
        output.line(f'{session.kind(name)} "{name}" may run again', sink=name)
    return 0


@click.command(short_help="Stop sinks after their current batch.")
@click.argument("names", nargs=-1, required=True, shell_complete=_SINKS)
@click.pass_context
def stop(context: click.Context, names: tuple[str, ...]) -> int:
    """Stop the sinks or views NAMES after their current batch, until `sinkql start`."""
    session, output = open_existing(context)
    for name in names:
        session.stop(name)
        output.line(f'{session.kind(name)} "{name}" will stop after its batch', sink=name)
    return 0


_IF_ANY = (
    "type",
    "rows_read_again",
    "snapshot",
    "seconds_left",
    "skipped",
    "stale_keys",
    "behind",
    "last_batch",
    "last_compaction",
    "files_optimized",
    "branch",
    "lag_seconds",
    "amplification",
    "widest_key",
    "retained",
    "log",
    "kept_by",
    "error",
    "hint",
)
_SIZES = ("behind", "retained", "log")
_TIMES = ("last_commit", "last_compaction")
_FRACTION = re.compile(r"\.\d+")


@click.command(short_help="Show the status of the sinks.")
@click.argument("names", nargs=-1, shell_complete=_SINKS)
@click.option("--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@click.pass_context
def status(context: click.Context, names: tuple[str, ...], watch: bool) -> int:
    """Show the status and the lag of the sinks NAMES, or of all sinks, and of their sources.

    A materialized view with a separate job has a line too.

    As JSON, each sink is one line, without sources. If the output is not a terminal, --watch prints all lines again
    after each change.
    """
    session, output = open_existing(context)

    def shown() -> str:
        sinks = session.status(names)
        if output.format == "json":
            return output.rendered(*sinks)
        sources = session.source_status(names)
        shown = (sinks, sources) if sources[1] else (sinks,)
        return "\n".join(output.rendered(*_for_people(*table), null="") for table in shown)

    if watch:
        from sinkql.cli.watch import watch_text

        watch_text(shown)
    else:
        click.echo(shown(), nl=False)
    return 0


def _for_people(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Return the rows without ids and empty columns, and with rounded sizes and times."""
    from sinkql.shell.screen.value import with_sizes  # loads rich

    shown = [
        place
        for place, name in enumerate(columns)
        if name != "id" and (name not in _IF_ANY or any(row[place] not in (None, "", 0, "sink") for row in rows))
    ]
    rounded = dict.fromkeys(_SIZES, with_sizes) | dict.fromkeys(_TIMES, _to_the_second)
    cells = [[rounded.get(columns[place], _as_it_is)(row[place]) for place in shown] for row in rows]
    return [columns[place] for place in shown], cells


def _to_the_second(time: str | None) -> str | None:
    return None if time is None else _FRACTION.sub("", str(time))


def _as_it_is(value: Any) -> Any:
    return value


@click.command(short_help="Run the quickstart example.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Folder to work in; it stays.  [default: a temporary one]"
)
@click.pass_context
def demo(context: click.Context, folder: Path | None) -> int:
    """Run the quickstart example once, and show the committed rows."""
    from sinkql.cli.execute import run_demo

    _, output = context.obj
    return run_demo(output, folder)
