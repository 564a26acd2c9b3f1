"""A backslash command that is being typed → its name, and what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prompt_toolkit.completion import CompleteEvent, Completion, PathCompleter
from prompt_toolkit.document import Document

from sinkql.planner.name import short_name
from sinkql.script.split import Command
from sinkql.session import Session
from sinkql.shell.command.help import topics
from sinkql.shell.setting import FORMATS, Settings
from sinkql.shell.shell import BackslashCommand

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


def command_completions(
    command: Command, session: Session, settings: Settings, actions: Mapping[str, BackslashCommand]
) -> Iterable[Completion]:
    """Return completions of a command that ends at the cursor."""
    if not command.rest and command.span.end - command.span.start == len(command.name) + 1:
        return _names(command, actions)
    if command.name in _FILES:
        document = Document(command.rest)
        return PathCompleter(expanduser=True).get_completions(document, CompleteEvent(completion_requested=True))
    return _arguments(command, session, settings)


def _names(command: Command, actions: Mapping[str, BackslashCommand]) -> Iterator[Completion]:
    for name, action in actions.items():
        if name.startswith(command.name):
            yield Completion(name, start_position=-len(command.name), display=f"\\{name}", display_meta=action.meaning)


def _arguments(command: Command, session: Session, settings: Settings) -> Iterator[Completion]:
    if command.name in ("h", "help"):
        typed, known = command.rest, [each.name for each in topics()]
    else:
        typed = command.rest.rpartition(" ")[2]
        known = list(_known(command, session, settings))
    for each in known:
        if each.lower().startswith(typed.lower()):
            yield Completion(each, start_position=-len(typed))


def _known(command: Command, session: Session, settings: Settings) -> Iterator[str]:
    plans = session.catalog.plans
    match command.name:
        case "d" | "d+":
            yield from (short_name(name, plans) for name in plans.present() if name[-1] != ".")
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
