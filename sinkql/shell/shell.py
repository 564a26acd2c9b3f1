"""Statements and backslash commands → their effects, and what the screen shows of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sinkql.errors import Notice, SinkqlError, Span
from sinkql.mask import mask
from sinkql.session import Result, Session
from sinkql.shell.background import Background
from sinkql.shell.piece import Command, Statement, pieces
from sinkql.shell.screen import Screen
from sinkql.shell.setting import Settings
from sinkql.variables import substitute


class Leave(Exception):  # noqa: N818 it is no error
    """Say that the user leaves the shell; `detach` leaves the sinks running."""

    def __init__(self, *, detach: bool = False) -> None:
        super().__init__()
        self.detach = detach


@dataclass(slots=True)
class Shell:
    """Run text; `last` is the last statement that ran, for `\\watch` and `\\e`."""

    session: Session
    screen: Screen
    settings: Settings
    background: Background
    keep_going: bool = False
    last: str = ""
    edited: str | None = None
    """What `\\e` brought back, for the next prompt."""
    exit_code: int = 0
    _depth: int = field(default=0)

    def run(self, text: str, path: str | None = None) -> None:
        """Run statements and commands in order; raises SinkqlError at the first that fails, unless told to go on."""
        from sinkql.shell.command import dispatch, takes_statement

        waiting: Statement | None = None
        for piece in pieces(text):
            with self._failures(text, path, piece.span):
                match piece:
                    case Statement(ended=True):
                        self.statement(text, piece.span, path)
                    case Statement():
                        waiting = piece
                    case Command():
                        if waiting is not None and not takes_statement(piece.name):
                            raise SinkqlError(
                                "SQ4031",
                                f"the statement before \\{piece.name} has no end",
                                waiting.span,
                                hint="End it with ; or \\g.",
                            )
                        span, waiting = (waiting.span if waiting is not None else None), None
                        dispatch(self, piece, text[span.start : span.end] if span is not None else None)
        if waiting is not None:
            with self._failures(text, path, waiting.span):
                self.statement(text, waiting.span, path)

    @contextmanager
    def _failures(self, text: str, path: str | None, span: Span) -> Iterator[None]:
        """Tie an error to its place in the text; go on after it where the user wants so."""
        try:
            yield
        except SinkqlError as error:
            if error.text is None and error.span is not None:
                error.within(path=path, text=mask(text).text)
            elif error.text is None and path is not None:
                error.path, error.text, error.span = path, mask(text).text, span
            if not self.keep_going:
                raise
            self.screen.error(error)
            self.exit_code = self.exit_code or error.exit_code

    def statement(self, text: str, span: Span, path: str | None = None) -> None:
        """Run the statement at `span` of a text, and print what it answers."""
        original = text[span.start : span.end]
        self.last = original
        began = time.perf_counter()
        try:
            new = substitute(original, self.settings.variables)
        except SinkqlError as error:
            if error.span is not None:
                error.span = error.span.shifted(span.start)
            raise
        try:
            with self.screen.busy():
                results = self.session.execute(new.text)
            for result in results:
                self._show(result, text, path)
        except SinkqlError as error:
            if error.span is not None and error.text == mask(new.text).text:
                error.span = new.original(error.span).shifted(span.start)
                error.path, error.text = path, mask(text).text
            raise
        if self.settings.timing:
            self.screen.line(f"Time: {1000 * (time.perf_counter() - began):,.1f} ms")

    def _show(self, result: Result, text: str, path: str | None) -> None:
        for notice in result.notices:
            self.screen.notice(notice, path=path, text=mask(text).text)
        if result.columns:
            self.screen.rows(result.columns, result.rows)
        elif not result.skipped:
            self.screen.tag(result.tag)
        if result.sink is not None:
            self.start_sinks()

    def start_sinks(self) -> None:
        """Have the sinks run in the background, where somebody sits at the terminal to see them."""
        if self.screen.interactive:
            self.background.start()
        elif not self.background.told:
            self.background.told = True
            self.screen.notice(
                Notice("SQ4034", "the sink does not run yet", hint="Run sinkql up; it runs the catalog's sinks.")
            )
