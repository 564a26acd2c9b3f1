"""`sinkql shell`: the shell at a terminal, or as a filter."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sinkql.cli.opening import open_session
from sinkql.cli.script import read_script
from sinkql.shell.setting import FORMATS, Format


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=False, path_type=Path))
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this, then leave; may come again.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table", help="How rows are shown.")
@click.option("--keep-going", is_flag=True, help="Go on after an error; the first one decides the exit code.")
@click.pass_context
def shell(
    context: click.Context, files: tuple[Path, ...], commands: tuple[str, ...], format_: Format, keep_going: bool
) -> int:
    """Ask for statements at the terminal; or run FILES, or standard input, and print what they give."""
    from sinkql.shell.terminal import read_input, run_shell

    session, _ = open_session(context)
    texts: list[tuple[str, str | None]] = [(read_script(path), str(path)) for path in files]
    texts += [(each, None) for each in commands]
    if not texts and not (sys.stdin.isatty() and sys.stdout.isatty()):
        texts = [read_input()]
    return run_shell(session, texts, format=format_, keep_going=keep_going)
