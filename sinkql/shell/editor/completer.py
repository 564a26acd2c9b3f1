"""Complete the text before the cursor, for the menu of the line editor: SQL, or a backslash command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from sinkql.connector_api.registry import Registry
from sinkql.errors import SinkqlError
from sinkql.keywords import Role
from sinkql.parser.assist.completion import Candidates, candidates
from sinkql.planner.name import short_name
from sinkql.script.split import Command, split
from sinkql.session import Session
from sinkql.shell.command.help import topics
from sinkql.shell.editor.candidates import labels, names, values
from sinkql.shell.setting import FORMATS, Settings
from sinkql.shell.shell import BackslashCommand

Suggestion = tuple[str, str]
"""A text to insert, and its description in the menu."""


class SqlCompleter(Completer):
    """Completes statements by the grammar and the catalog, and backslash commands."""

    def __init__(self, session: Session, settings: Settings, actions: Mapping[str, BackslashCommand]) -> None:
        self._session = session
        self._settings = settings
        self._actions = actions

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text, cursor = document.text, document.cursor_position
        command = _command(text[:cursor])
        if command is not None:
            yield from command_completions(command, self._session, self._settings, self._actions)
            return
        try:
            offered = candidates(text, cursor, self._session.catalog.registry.keywords)
            if offered.start == cursor and not complete_event.completion_requested and _quiet(text[:cursor]):
                return
            yield from self._completions(offered, text[offered.start : cursor])
        except SinkqlError:
            return  # the catalog cannot be read now; running a statement will report the error

    def _completions(self, offered: Candidates, typed: str) -> Iterator[Completion]:
        seen = set()
        for text, meta in self._suggestions(offered, typed):
            if text not in seen and _matches(text, typed):
                seen.add(text)
                yield Completion(text, start_position=-len(typed), display_meta=meta)

    def _suggestions(self, offered: Candidates, typed: str) -> Iterator[Suggestion]:
        if offered.value_of is not None:
            yield from values(*offered.value_of, self._session, typed)
            if typed.startswith("'"):
                return
        if offered.options is not None:
            yield from labels(offered.options, self._session)
        if offered.kinds_of is not None:
            yield from _kinds(offered.kinds_of, self._session.catalog.registry)
        yield from names(offered, self._session)
        if offered.value_of is None:
            lower = typed.islower()
            yield from ((keyword.lower() if lower else keyword, "") for keyword in offered.keywords)


def _kinds(role: Role, registry: Registry) -> Iterator[Suggestion]:
    """Yield the kinds that connectors offer."""
    match role:
        case "CONNECTION":
            yield from ((connection, "connection type") for connection in sorted(registry.connections))
        case "SOURCE":
            yield from ((source, "source") for source in sorted(registry.sources))
        case "SINK":
            yield from ((sink, "sink") for sink in sorted(registry.sinks))
        case "FORMAT":
            yield from ((format_, "format") for format_ in sorted(registry.formats))


def _command(text: str) -> Command | None:
    """Return the backslash command at the cursor."""
    parts = list(split(text))
    last = parts[-1] if parts else None
    return last if isinstance(last, Command) and last.span.end == len(text) else None


def _quiet(text: str) -> bool:
    """Return whether the menu waits for Tab: at a statement's start, and right behind a complete word."""
    before = text.rstrip()
    return not before or before[-1] == ";" or (before == text and before[-1] not in "(,.")


def _matches(text: str, typed: str) -> bool:
    """Return whether the typed text begins the text or one of its words; several blanks count as one."""
    wanted = " ".join(typed.split()).lower() + (" " if typed[-1:].isspace() else "")
    whole = text.lower()
    return whole.startswith(wanted) or (len(wanted) > 1 and (f"_{wanted}" in whole or f" {wanted}" in whole))


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
        typed, suggestions = command.rest, [topic.name for topic in topics()]
    else:
        typed = command.rest.rpartition(" ")[2]
        suggestions = list(_argument_words(command, session, settings))
    for suggestion in suggestions:
        if suggestion.lower().startswith(typed.lower()):
            yield Completion(suggestion, start_position=-len(typed))


def _argument_words(command: Command, session: Session, settings: Settings) -> Iterator[str]:
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
            yield from (short_name(item, plans) for item in plans.names(_PATTERNS[name]))
        case _:
            return
