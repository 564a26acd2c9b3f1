"""Backslash commands that run statements, set the output, and control the shell itself."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from sinkql import local_path
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.machine import clock
from sinkql.script.split import Command, read_script
from sinkql.shell.command.help import help_on_commands, help_on_statement
from sinkql.shell.screen.keyboard import lent_terminal
from sinkql.shell.screen.screen import open_target
from sinkql.shell.setting import FORMATS, Expanded, RowFormat
from sinkql.shell.shell import Leave, Shell


def _wrong(command: Command, wanted: str) -> SinkqlError:
    return SinkqlError("SQ4031", f"\\{command.name} takes {wanted}", hint="Run \\? to see how commands are written.")


# --- queries ---------------------------------------------------------------------------------------------------------


def run_again(shell: Shell, command: Command, statement: str | None) -> None:
    """Run the preceding statement, or the last one again; `\\gx` prints one value per line."""
    text = statement or shell.last
    before = shell.settings.expanded, shell.settings.format
    if command.name == "gx":
        shell.settings.expanded, shell.settings.format = "on", "table"
    try:
        shell.statement(text, Span(0, len(text)))
    finally:
        shell.settings.expanded, shell.settings.format = before


def watch(shell: Shell, command: Command, statement: str | None) -> None:
    """Run a statement at an interval in seconds until Ctrl-C."""
    text = statement or shell.last
    try:
        seconds = float(command.arguments[0]) if command.arguments else 2.0
        count = int(command.arguments[1]) if len(command.arguments) > 1 else 0
    except ValueError:
        raise _wrong(command, "seconds, and how often") from None
    if not text:
        raise SinkqlError("SQ4031", "no statement to repeat", hint="Run a statement, then \\watch.")
    pager, shell.settings.pager = shell.settings.pager, False
    done = 0
    try:
        while True:
            shell.screen.line(f"{clock.now().astimezone().strftime('%H:%M:%S')} (every {seconds:g} s, Ctrl-C ends it)")
            shell.statement(text, Span(0, len(text)))
            done += 1
            if done == count:
                return
            clock.sleep(seconds)
    finally:
        shell.settings.pager = pager


def edit(shell: Shell, command: Command, statement: str | None) -> None:
    """Edit the last statement, or a file; the edited text appears at the prompt."""
    text = statement or shell.last
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        path = local_path.expand_home(command.arguments[0]) if command.arguments else Path(folder) / "statement.sql"
        if not command.arguments:
            path.write_text(text)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            with lent_terminal():
                done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except OSError as error:
            raise SinkqlError(
                "SQ4035",
                f'cannot run the editor "{editor}": {error.strerror}',
                hint="Set EDITOR to a program that exists.",
            ) from error
        if done.returncode == 0:
            shell.edited = path.read_text().rstrip()


def include(shell: Shell, command: Command, _: str | None) -> None:
    """Run the statements and commands of a file."""
    if len(command.arguments) != 1:
        raise _wrong(command, "a file")
    path = local_path.expand_home(command.arguments[0])
    shell.run(read_script(path), str(path))


# --- output ----------------------------------------------------------------------------------------------------------


def output(shell: Shell, command: Command, _: str | None) -> None:
    """Write results into a file, or to the screen again."""
    if shell.screen.target is not None:
        shell.screen.target.close()
        shell.screen.target = None
    if command.arguments:
        shell.screen.target = open_target(command.arguments[0])


def show_as(shell: Shell, command: Command, _: str | None) -> None:
    """Set the format of rows, and print it."""
    if command.arguments:
        shell.settings.format = _format_of(command, command.arguments[0])
    shell.screen.line(f"Rows are shown as {shell.settings.format}.")


def _format_of(command: Command, word: str) -> RowFormat:
    for format_ in FORMATS:
        if format_ == word:
            return format_
    near = nearest(word, FORMATS)
    raise SinkqlError(
        "SQ4031",
        f'format "{word}" does not exist',
        hint=f"Did you mean {near}?" if near else f"The formats are {', '.join(FORMATS)}.",
    )


def expanded(shell: Shell, command: Command, _: str | None) -> None:
    """Show one value per line, a table, or whichever fits the screen."""
    turned: Expanded = "off" if shell.settings.expanded == "on" else "on"
    words: dict[str, Expanded] = {"auto": "auto", "on": "on", "off": "off"}
    wanted = words.get(command.arguments[0]) if command.arguments else turned
    if wanted is None:
        raise _wrong(command, "on, off or auto")
    shell.settings.expanded = wanted
    meanings = {"on": "one value per line", "off": "as a table", "auto": "as a table if it fits"}
    shell.screen.line(f"Rows are shown {meanings[wanted]}.")


def timing(shell: Shell, command: Command, _: str | None) -> None:
    """Turn the display of each statement's duration on or off."""
    shell.settings.timing = _switched(command, shell.settings.timing)
    shell.screen.line(f"Timing is {'on' if shell.settings.timing else 'off'}.")


def _switched(command: Command, now: bool, place: int = 0) -> bool:
    if len(command.arguments) <= place:
        return not now
    if command.arguments[place] not in ("on", "off"):
        raise _wrong(command, "on or off")
    return command.arguments[place] == "on"


def pset(shell: Shell, command: Command, _: str | None) -> None:
    """Set a setting, or list the settings."""
    settings, words = shell.settings, command.arguments
    match words:
        case ():
            rows = [(name, getattr(settings, name)) for name in ("format", "expanded", "null", "pager", "timing")]
            shell.screen.rows(("setting", "value"), rows)
        case ("format", word):
            settings.format = _format_of(command, word)
        case ("expanded", *_):
            expanded(shell, Command(command.name, " ".join(words[1:]), command.span), None)
        case ("null", text):
            settings.null = text
        case ("pager", *_):
            settings.pager = _switched(command, settings.pager, 1)
        case ("timing", *_):
            settings.timing = _switched(command, settings.timing, 1)
        case _:
            raise _wrong(command, "format, expanded, null, pager or timing, and its value")


# --- the shell -------------------------------------------------------------------------------------------------------


def set_variable(shell: Shell, command: Command, _: str | None) -> None:
    """Set a variable, or list the variables."""
    match command.arguments:
        case ():
            shell.screen.rows(("variable", "value"), sorted(shell.settings.variables.items()))
        case (name, *words):
            shell.settings.variables[name] = "".join(words)


def unset_variable(shell: Shell, command: Command, _: str | None) -> None:
    """Remove variables."""
    for name in command.arguments:
        shell.settings.variables.pop(name, None)


def echo(shell: Shell, command: Command, _: str | None) -> None:
    """Print a text."""
    shell.screen.page(" ".join(command.arguments) + "\n")


def system(shell: Shell, command: Command, _: str | None) -> None:
    """Run a command of the operating system."""
    with lent_terminal():
        subprocess.run(command.rest or os.environ.get("SHELL", "sh"), shell=True, check=False)


def leave(shell: Shell, command: Command, _: str | None) -> None:
    """Leave the shell."""
    if command.arguments not in ((), ("detach",)):
        raise _wrong(command, "nothing, or detach")
    raise Leave(detach=command.arguments == ("detach",))


def list_commands(shell: Shell, command: Command, _: str | None) -> None:
    """List the commands."""
    shell.screen.page(help_on_commands(dict.fromkeys(shell.actions.values())))


def show_help(shell: Shell, command: Command, _: str | None) -> None:
    """Explain a statement or other words from the documentation, or list the statements."""
    terminal = shell.screen.interactive and shell.screen.target is None
    shell.screen.page(help_on_statement(command.rest, shell.session.catalog.registry, terminal=terminal))
