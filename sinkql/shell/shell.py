"""Run statements and backslash commands, and show their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sinkql.errors import Notice, SinkqlError, Span, nearest
from sinkql.machine import clock
from sinkql.script.redaction import mask
from sinkql.script.split import Command, StatementText, split
from sinkql.script.variable import substitute
from sinkql.session import Result, Session
from sinkql.shell.background import Background
from sinkql.shell.screen.screen import Screen
from sinkql.shell.screen.value import shown_rows
from sinkql.shell.setting import Settings


class Leave(Exception):  # noqa: N818 it is not an error
    """The user leaves the shell; `detach` leaves the sinks running."""

    def __init__(self, *, detach: bool = False) -> None:
        super().__init__()
        self.detach = detach


@dataclass(frozen=True, slots=True)
class BackslashCommand:
    """A backslash command: its names, its syntax, its line in `\\?`, and its function.

    `run` receives the command, and with `takes_statement` the unfinished statement before it.
    """

    names: tuple[str, ...]
    usage: str
    meaning: str
    group: str
    run: Callable[[Shell, Command, str | None], None]
    takes_statement: bool = False


@dataclass(slots=True)
class Shell:
    """Runs text; `actions` are the backslash commands by name.

    `last` is the last statement that ran, for `\\watch` and `\\e`.
    """

    session: Session
    screen: Screen
    settings: Settings
    background: Background
    actions: Mapping[str, BackslashCommand]
    keep_going: bool = False
    last: str = ""
    edited: str | None = None
    """The edited text of `\\e`, for the next prompt."""
    exit_code: int = 0
    _depth: int = field(default=0)

    def run(self, text: str, path: str | None = None) -> None:
        """Run statements and commands in order; raises the first SinkqlError, or continues if `keep_going`."""
        waiting: Span | None = None
        for part in split(text):
            with self._failures(text, path, part.span):
                match part:
                    case StatementText(ended=True):
                        self.statement(text, part.span, path)
                    case StatementText():
                        waiting = part.span
                    case Command():
                        before, waiting = waiting, None
                        self._command(part, text, before)
        if waiting is not None:
            with self._failures(text, path, waiting):
                self.statement(text, waiting, path)

    def _command(self, command: Command, text: str, before: Span | None) -> None:
        """Run a command; `before` is the span of an unfinished statement. Raises SQ4030 for an unknown command."""
        action = self.actions.get(command.name)
        if before is not None and (action is None or not action.takes_statement):
            message = f"the statement before \\{command.name} is not complete"
            raise SinkqlError("SQ4031", message, before, hint="End it with ; or \\g.")
        if action is None:
            near = nearest(command.name, [name for name in self.actions if len(name) > 1])
            hint = f"Did you mean \\{near}?" if near else "Run \\? to list the commands."
            raise SinkqlError("SQ4030", f"invalid command \\{command.name}", hint=hint)
        action.run(self, command, text[before.start : before.end] if before is not None else None)

    @contextmanager
    def _failures(self, text: str, path: str | None, span: Span) -> Iterator[None]:
        """Add an error's place in the text; continue after the error if the user asked for it."""
        try:
            yield
        except SinkqlError as error:
            if error.text is None and error.span is not None:
                error.within(path=path, text=self._masked(text))
            elif error.text is None and path is not None:
                error.path, error.text, error.span = path, self._masked(text), span
            if not self.keep_going:
                raise
            self.screen.error(error)
            self.exit_code = self.exit_code or error.exit_code

    def statement(self, text: str, span: Span, path: str | None = None) -> None:
        """Run the statement at `span` of a text, and print its result."""
        original = text[span.start : span.end]
        self.last = original
        began = clock.monotonic()
        try:
            new = substitute(original, self.settings.variables)
        except SinkqlError as error:
            if error.span is not None:
                error.span = error.span.shifted(span.start)
            raise
        try:
            with self.screen.busy() as self.session.progress_listener:
                results = self.session.execute(new.text)
            for result in results:
                self._show(result, text, path)
        except SinkqlError as error:
            if error.span is not None and error.text == self._masked(new.text):
                error.span = new.original(error.span).shifted(span.start)
                error.path, error.text = path, self._masked(text)
            raise
        if self.settings.timing:
            self.screen.line(f"Time: {1000 * (clock.monotonic() - began):,.1f} ms")

    def _masked(self, text: str) -> str:
        return mask(text, self.session.catalog.registry.keywords).text

    def _show(self, result: Result, text: str, path: str | None) -> None:
        for notice in result.notices:
            self.screen.notice(notice, path=path, text=self._masked(text))
        if result.stream is not None:
            with suppress(KeyboardInterrupt):
                for row in result.stream:
                    self.screen.lines(result.columns, shown_rows([row], result.types))
        elif result.columns:
            self.screen.rows(result.columns, shown_rows(result.rows, result.types))
        elif not result.skipped:
            self.screen.tag(result.tag)
        if result.sink is not None:
            self.start_sinks()
        elif result.tag.endswith("MATERIALIZED VIEW") and self.session.jobs_among(result.names):
            self.start_sinks("materialized view")

    def start_sinks(self, what: str = "sink") -> None:
        """Run the sinks in the background if a person is at the terminal; otherwise print a notice."""
        if self.screen.interactive:
            self.background.start()
        elif not self.background.notified:
            self.background.notified = True
            hint = "Run sinkql up to run the sinks of the catalog."
            self.screen.notice(Notice("SQ4034", f"the {what} is not running yet", hint=hint))
