"""Backslash commands → what they do."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.shell import catalog_command as catalog
from sinkql.shell import help as helping
from sinkql.shell.keys import lent_terminal
from sinkql.shell.piece import Command
from sinkql.shell.screen import open_target
from sinkql.shell.setting import FORMATS, Expanded, Format
from sinkql.shell.shell import Leave, Shell

Run = Callable[[Shell, Command, str | None], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: how it is written, and what `\\?` says of it."""

    names: tuple[str, ...]
    usage: str
    meaning: str
    group: str
    run: Run


def dispatch(shell: Shell, command: Command, statement: str | None) -> None:
    """Run a command; `statement` is what stood before it without an end. SQ4030 for an unknown command."""
    entry = _BY_NAME.get(command.name)
    if entry is None:
        near = nearest(command.name, [name for name in _BY_NAME if len(name) > 1])
        hint = f"Did you mean \\{near}?" if near else "Run \\?; it lists the commands."
        raise SinkqlError("SQ4030", f"there is no command \\{command.name}", hint=hint)
    entry.run(shell, command, statement)


def takes_statement(name: str) -> bool:
    """Say whether a command runs or changes the statement that stands before it."""
    return name in ("g", "gx", "watch", "e")


def _wrong(command: Command, wanted: str) -> SinkqlError:
    return SinkqlError("SQ4031", f"\\{command.name} takes {wanted}", hint="Run \\?; it shows how commands are written.")


# --- queries ---------------------------------------------------------------------------------------------------------


def _go(shell: Shell, command: Command, statement: str | None) -> None:
    text = statement or shell.last
    before = shell.settings.expanded, shell.settings.format
    if command.name == "gx":
        shell.settings.expanded, shell.settings.format = "on", "table"
    try:
        shell.statement(text, Span(0, len(text)))
    finally:
        shell.settings.expanded, shell.settings.format = before


def _watch(shell: Shell, command: Command, statement: str | None) -> None:
    text = statement or shell.last
    try:
        seconds = float(command.arguments[0]) if command.arguments else 2.0
        count = int(command.arguments[1]) if len(command.arguments) > 1 else 0
    except ValueError:
        raise _wrong(command, "seconds, and how often") from None
    if not text:
        raise SinkqlError("SQ4031", "there is no statement to repeat", hint="Run one, then \\watch.")
    pager, shell.settings.pager = shell.settings.pager, False
    done = 0
    try:
        while True:
            shell.screen.line(f"{datetime.now().strftime('%H:%M:%S')} (every {seconds:g} s, Ctrl-C ends it)")
            shell.statement(text, Span(0, len(text)))
            done += 1
            if done == count:
                return
            threading.Event().wait(seconds)
    finally:
        shell.settings.pager = pager


def _edit(shell: Shell, command: Command, statement: str | None) -> None:
    text = statement or shell.last
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        path = Path(command.arguments[0]).expanduser() if command.arguments else Path(folder) / "statement.sql"
        if not command.arguments:
            path.write_text(text)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            with lent_terminal():
                done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except OSError as error:
            raise SinkqlError(
                "SQ4035", f'cannot run the editor "{editor}": {error.strerror}', hint="Set EDITOR to one that is there."
            ) from error
        if done.returncode == 0:
            shell.edited = path.read_text().rstrip()


def _include(shell: Shell, command: Command, _: str | None) -> None:
    if len(command.arguments) != 1:
        raise _wrong(command, "a file")
    path = Path(command.arguments[0]).expanduser()
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise SinkqlError("SQ4010", f'cannot read "{path}": {error.strerror}', hint="Name a file of SQL.") from error
    except UnicodeDecodeError as error:
        raise SinkqlError(
            "SQ1010", f"it is not UTF-8 at byte {error.start}", path=str(path), hint="Save the file as UTF-8."
        ) from error
    shell.run(text, str(path))


# --- output ----------------------------------------------------------------------------------------------------------


def _output(shell: Shell, command: Command, _: str | None) -> None:
    if shell.screen.target is not None:
        shell.screen.target.close()
        shell.screen.target = None
    if command.arguments:
        shell.screen.target = open_target(command.arguments[0])


def _format(shell: Shell, command: Command, _: str | None) -> None:
    if command.arguments:
        shell.settings.format = _format_of(command, command.arguments[0])
    shell.screen.line(f"Rows are shown as {shell.settings.format}.")


def _format_of(command: Command, word: str) -> Format:
    for each in FORMATS:
        if each == word:
            return each
    near = nearest(word, FORMATS)
    raise SinkqlError(
        "SQ4031",
        f'there is no format "{word}"',
        hint=f"Did you mean {near}?" if near else f"The formats are {', '.join(FORMATS)}.",
    )


def _expanded(shell: Shell, command: Command, _: str | None) -> None:
    turned: Expanded = "off" if shell.settings.expanded == "on" else "on"
    words: dict[str, Expanded] = {"auto": "auto", "on": "on", "off": "off"}
    wanted = words.get(command.arguments[0]) if command.arguments else turned
    if wanted is None:
        raise _wrong(command, "on, off or auto")
    shell.settings.expanded = wanted
    said = {"on": "one value a line", "off": "as a table", "auto": "as a table where it fits"}
    shell.screen.line(f"Rows are shown {said[wanted]}.")


def _timing(shell: Shell, command: Command, _: str | None) -> None:
    shell.settings.timing = _switched(command, shell.settings.timing)
    shell.screen.line(f"Timing is {'on' if shell.settings.timing else 'off'}.")


def _switched(command: Command, now: bool, place: int = 0) -> bool:
    if len(command.arguments) <= place:
        return not now
    if command.arguments[place] not in ("on", "off"):
        raise _wrong(command, "on or off")
    return command.arguments[place] == "on"


def _pset(shell: Shell, command: Command, _: str | None) -> None:
    settings, words = shell.settings, command.arguments
    match words:
        case ():
            rows = [(name, getattr(settings, name)) for name in ("format", "expanded", "null", "pager", "timing")]
            shell.screen.rows(("setting", "value"), rows)
        case ("format", word):
            settings.format = _format_of(command, word)
        case ("expanded", *_):
            _expanded(shell, Command(command.name, " ".join(words[1:]), command.span), None)
        case ("null", text):
            settings.null = text
        case ("pager", *_):
            settings.pager = _switched(command, settings.pager, 1)
        case ("timing", *_):
            settings.timing = _switched(command, settings.timing, 1)
        case _:
            raise _wrong(command, "format, expanded, null, pager or timing, and its value")


# --- the shell -------------------------------------------------------------------------------------------------------


def _set(shell: Shell, command: Command, _: str | None) -> None:
    match command.arguments:
        case ():
            shell.screen.rows(("variable", "value"), sorted(shell.settings.variables.items()))
        case (name, *words):
            shell.settings.variables[name] = "".join(words)


def _unset(shell: Shell, command: Command, _: str | None) -> None:
    for name in command.arguments:
        shell.settings.variables.pop(name, None)


def _echo(shell: Shell, command: Command, _: str | None) -> None:
    shell.screen.page(" ".join(command.arguments) + "\n")


def _system(shell: Shell, command: Command, _: str | None) -> None:
    with lent_terminal():
        subprocess.run(command.rest or os.environ.get("SHELL", "sh"), shell=True, check=False)


def _quit(shell: Shell, command: Command, _: str | None) -> None:
    if command.arguments not in ((), ("detach",)):
        raise _wrong(command, "nothing, or detach")
    raise Leave(detach=command.arguments == ("detach",))


def _commands(shell: Shell, command: Command, _: str | None) -> None:
    shell.screen.page(helping.commands(ENTRIES))


def _help(shell: Shell, command: Command, _: str | None) -> None:
    shell.screen.page(helping.statement(command.rest))


ENTRIES = (
    Entry(("?",), "\\?", "this list", "General", _commands),
    Entry(("h", "help"), "\\h [STATEMENT]", "syntax, meaning and an example of a statement", "General", _help),
    Entry(("q", "quit"), "\\q [detach]", "leave; detach leaves the sinks running", "General", _quit),
    Entry(("conninfo",), "\\conninfo", "the catalog, and what is in it", "General", catalog.conninfo),
    Entry(("g",), "\\g", "run the statement before it, or the last one again", "Statements", _go),
    Entry(("gx",), "\\gx", "the same, one value a line", "Statements", _go),
    Entry(("watch",), "\\watch [SECONDS [TIMES]]", "run the statement again and again", "Statements", _watch),
    Entry(("e", "edit"), "\\e [FILE]", "edit the last statement, or a file, in $EDITOR", "Statements", _edit),
    Entry(("i", "include"), "\\i FILE", "run the statements and commands of a file", "Statements", _include),
    Entry(("timing",), "\\timing [on|off]", "show how long each statement takes", "Statements", _timing),
    Entry(("d",), "\\d [NAME]", "all items; or columns, keys, SQL and status of one", "Catalog", catalog.describe),
    Entry(("dt",), "\\dt [PATTERN]", "tables", "Catalog", catalog.listing),
    Entry(("ds",), "\\ds [PATTERN]", "sources", "Catalog", catalog.listing),
    Entry(("dv",), "\\dv [PATTERN]", "views", "Catalog", catalog.listing),
    Entry(("dm",), "\\dm [PATTERN]", "materialized views", "Catalog", catalog.listing),
    Entry(("dk",), "\\dk [PATTERN]", "sinks, with their status", "Catalog", catalog.listing),
    Entry(("dc",), "\\dc [PATTERN]", "connections", "Catalog", catalog.listing),
    Entry(("dse",), "\\dse [PATTERN]", "secrets", "Catalog", catalog.listing),
    Entry(("dcl",), "\\dcl [PATTERN]", "clusters", "Catalog", catalog.listing),
    Entry(("dn",), "\\dn [PATTERN]", "schemas", "Catalog", catalog.listing),
    Entry(("l",), "\\l [PATTERN]", "databases", "Catalog", catalog.listing),
    Entry(("dx",), "\\dx", "types of connections, sources and sinks that are installed", "Catalog", catalog.listing),
    Entry(("jobs",), "\\jobs", "what the sinks are doing", "Sinks", catalog.jobs),
    Entry(("start",), "\\start [NAME …]", "run sinks in the background", "Sinks", catalog.start),
    Entry(("stop",), "\\stop [NAME …]", "stop sinks after their batch, all without a name", "Sinks", catalog.stop),
    Entry(("log",), "\\log NAME", "what happened to a sink", "Sinks", catalog.log),
    Entry(("x",), "\\x [on|off|auto]", "one value a line; auto where a table does not fit", "Output", _expanded),
    Entry(("f", "format"), "\\f [FORMAT]", "table, vertical, csv, json, jsonl or markdown", "Output", _format),
    Entry(("pset",), "\\pset [SETTING VALUE]", "format, expanded, null, pager, timing", "Output", _pset),
    Entry(("o", "out"), "\\o [FILE]", "write results into a file; to the screen again without one", "Output", _output),
    Entry(("echo",), "\\echo TEXT", "print a text", "Output", _echo),
    Entry(("set",), "\\set [NAME VALUE]", "set a variable: :name, :'name', :\"name\" stand for it", "Variables", _set),
    Entry(("unset",), "\\unset NAME", "forget a variable", "Variables", _unset),
    Entry(("!",), "\\! [COMMAND]", "run a command of the operating system", "General", _system),
)
_BY_NAME = {name: entry for entry in ENTRIES for name in entry.names}
