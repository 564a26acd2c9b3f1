"""A backslash command that is being typed → its name, and what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completion, PathCompleter
from prompt_toolkit.document import Document

from sinkql.planner.name import short_name
from sinkql.session import Session
from sinkql.shell.help import statements
from sinkql.shell.piece import Command
from sinkql.shell.setting import FORMATS, Settings

_PATTERNS = {
    "dt": "TABLE",
    "ds": "SOURCE",
    "dv": "VIEW",
    "dm": "MATERIALIZED VIEW",
    "dk": "SINK",
    "dc": "CONNECTION",
    "dse": "SECRET",
    "dcl": "CLUSTER",
    "start": "SINK",
    "stop": "SINK",
    "log": "SINK",
    "jobs": "SINK",
}
_SWITCHES = {"timing": ("on", "off"), "x": ("on", "off", "auto"), "q": ("detach",), "quit": ("detach",)}
_FILES = ("i", "include", "o", "out", "e", "edit")


def command_completions(command: Command, session: Session, settings: Settings) -> Iterable[Completion]:
    """Return completions of a command that ends at the cursor."""
    if not command.rest and command.span.end - command.span.start == len(command.name) + 1:
        return _names(command)
    if command.name in _FILES:
        document = Document(command.rest)
        return PathCompleter(expanduser=True).get_completions(document, CompleteEvent(completion_requested=True))
    return _arguments(command, session, settings)


def _names(command: Command) -> Iterator[Completion]:
    from sinkql.shell.command import ENTRIES

    for entry in ENTRIES:
        for name in entry.names:
            if name.startswith(command.name):
                yield Completion(
                    name, start_position=-len(command.name), display=f"\\{name}", display_meta=entry.meaning
                )


def _arguments(command: Command, session: Session, settings: Settings) -> Iterator[Completion]:
    if command.name in ("h", "help"):
        typed, known = command.rest, [each.name for each in statements()]
    else:
        typed = command.rest.rpartition(" ")[2]
        known = list(_known(command, session, settings))
    for each in known:
        if each.lower().startswith(typed.lower()):
            yield Completion(each, start_position=-len(typed))


def _known(command: Command, session: Session, settings: Settings) -> Iterator[str]:
    plans = session.catalog.plans
    match command.name:
        case "d":
            yield from (short_name(entry.name, plans) for entry in plans.entries() if entry.name[-1] != ".")
        case "f" | "format":
            yield from FORMATS
        case "pset":
            values = command.rest.startswith("format ")
            yield from FORMATS if values else ("format", "expanded", "null", "pager", "timing")
        case "set" | "unset":
            yield from settings.variables
        case name if name in _SWITCHES:
            yield from _SWITCHES[name]
        case name if name in _PATTERNS:
            yield from (short_name(each, plans) for each in plans.names(_PATTERNS[name]))
        case _:
            return
