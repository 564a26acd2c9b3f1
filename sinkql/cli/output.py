"""Print results, notices and errors as text, or as one JSON object per line."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import click

from sinkql.documentation import Documentation
from sinkql.errors import Notice, SinkqlError, as_data, for_terminal, line_and_column
from sinkql.shell.setting import Settings

if TYPE_CHECKING:
    from sinkql.logical import Type
    from sinkql.script.variable import Substituted

OutputFormat = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a command to stdout and stderr, in one format."""

    format: OutputFormat
    written: dict[str, tuple[Substituted, str]] = field(default_factory=dict)
    """Scripts with variables, by their label in errors: the substitution, and the text as written."""

    def original(self, error: SinkqlError) -> SinkqlError:
        """Return an error with its place in the script as written, before variables were replaced."""
        script = self.written.get(error.path or "")
        if script is None or error.span is None:
            return error
        changed, text = script
        return SinkqlError(
            error.code,
            error.message,
            changed.original(error.span),
            detail=error.detail,
            hint=error.hint,
            path=error.path,
            text=text,
        )

    def line(self, text: str, **data: Any) -> None:
        """Print a line, or the same facts as JSON."""
        click.echo(for_terminal(text) if self.format == "text" else json.dumps(data, default=str))

    def note(self, text: str) -> None:
        """Print a line in text format only."""
        if self.format == "text":
            click.echo(for_terminal(text))

    def error(self, error: SinkqlError) -> None:
        """Print an error to stderr."""
        error = self.original(error)
        text = error.shown() if self.format == "text" else json.dumps({"error": as_data(error)})
        click.echo(text, err=True)
        if self.format == "text" and sys.stderr.isatty() and (line := more(error)):
            click.echo(line, err=True)

    def notice(self, notice: Notice, *, path: str | None = None, text: str | None = None) -> None:
        """Print a notice to stderr: a line with its place, and its hint."""
        changed = self.written.get(path or "")
        if changed is not None and notice.span is not None:
            notice, text = replace(notice, span=changed[0].original(notice.span)), changed[1]
        if self.format == "json":
            as_error = SinkqlError(notice.code, notice.message, notice.span, hint=notice.hint, path=path, text=text)
            click.echo(json.dumps({"notice": as_data(as_error)}), err=True)
            return
        place = ""
        if path is not None and text is not None and notice.span is not None:
            line, column = line_and_column(text, notice.span.start)
            place = f"{path}:{line}:{column}: "
        click.echo(for_terminal(f"{place}notice: {notice.message}"), err=True)
        if notice.hint:
            click.echo(for_terminal(f"hint: {notice.hint}"), err=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, null: str = "NULL") -> None:
        """Print rows under their columns' names; `null` is the text for NULL."""
        click.echo(self.rendered(columns, rows, null=null), nl=False)

    def lines(self, columns: Sequence[str], rows: Iterator[Sequence[Any]], types: Sequence[Type]) -> None:
        """Print rows as they arrive, one JSON object per line, until the last row or Ctrl-C."""
        from sinkql.shell.screen.table import render as render_rows  # loads rich, like below
        from sinkql.shell.screen.value import shown_rows

        settings, over = Settings(format="jsonl", expanded="off"), threading.Event()
        with suppress(KeyboardInterrupt):
            when_unread(signal.SIGINT, over.is_set)
            try:
                for row in rows:
                    shown = render_rows(columns, shown_rows([row], types), settings, width=200, colour=False)
                    click.echo(shown, nl=False)
            finally:
                over.set()

    def rendered(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, null: str = "NULL") -> str:
        """Return what `table` prints."""
        from sinkql.shell.screen.table import render as render_rows  # loads rich, only for rows

        settings = Settings(format="table" if self.format == "text" else "jsonl", expanded="off", null=null)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
        return render_rows(columns, rows, settings, width=width, colour=False)


def more(error: SinkqlError) -> str:
    """Return the line that names the help command for an error; empty for a code without a page."""
    return f"more: sinkql help {error.code}" if Documentation().has_error(error.code) else ""


def when_unread(send: signal.Signals, over: Callable[[], bool]) -> None:
    """Send this process a signal when the program that reads its piped output ends, unless the work is `over`."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):
        return  # the output is in memory
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        return

    def wait() -> None:
        waiting = select.poll()
        waiting.register(output, 0)
        waiting.poll()
        if not over():
            os.kill(os.getpid(), send)

    threading.Thread(target=wait, daemon=True).start()
