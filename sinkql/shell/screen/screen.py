"""Print results, notices and errors to the terminal, a file or the pager, and a clock for long statements."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO

from rich.console import Console
from rich.text import Text

from sinkql.errors import Notice, SinkqlError, for_terminal, line_and_column
from sinkql.keywords import LANGUAGE
from sinkql.local_path import expand_home
from sinkql.machine import clock
from sinkql.parser.assist.highlight import HighlightKind, highlights
from sinkql.shell.screen import pager, table
from sinkql.shell.screen.value import Rows
from sinkql.shell.setting import Settings

_MARGIN = 8
"""The start of a source line: its number and a bar."""


@dataclass(slots=True)
class Screen:
    """The output of the shell; `interactive` is true at a terminal, `target` is the open file of `\\o`, if any."""

    settings: Settings
    interactive: bool
    target: IO[str] | None = None

    @property
    def width(self) -> int:
        """Return the number of characters per line; output to a file may be wider than a terminal."""
        return shutil.get_terminal_size().columns if self.interactive else 200

    def line(self, text: str) -> None:
        """Print a line that is not part of a result."""
        sys.stdout.write(for_terminal(text) + "\n")
        sys.stdout.flush()

    @contextmanager
    def busy(self) -> Iterator[Callable[[str], None] | None]:
        """Show a clock to a person while the block runs; yield a function that changes the text before it."""
        if not self.interactive:
            yield None
            return
        with stopwatch(lambda text: print(text, end="", file=sys.stderr, flush=True), "running …") as say:
            yield say

    def heading(self, text: str) -> None:
        """Print a heading."""
        self._print(Text(for_terminal(text), style="bold"))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print facts one per line, each after its label."""
        facts = tuple(facts)
        width = max((len(label) for label, _ in facts), default=0)
        for label, value in facts:
            lines = for_terminal(value).splitlines() or [""]
            self._print(Text.assemble((f"{label:<{width}}", "cyan"), "  ", f"\n{'':{width + 2}}".join(lines)))

    def sql(self, text: str) -> None:
        """Print SQL, highlighted."""
        shown = Text(for_terminal(text))
        for part in highlights(text, LANGUAGE):
            shown.stylize(_SQL_STYLES[part.kind], part.span.start, part.span.end)
        self._print(shown)

    def _print(self, text: Text) -> None:
        if self.target is not None:
            self.target.write(f"{text.plain}\n")
        elif not self.interactive:
            self.line(text.plain)
        else:
            sys.stdout.flush()
            Console(markup=False, highlight=False).print(text, soft_wrap=True)

    def tag(self, text: str) -> None:
        """Print the result of a statement without rows."""
        if self.target is None and self.settings.format in ("table", "vertical"):
            self.line(text)

    def rows(self, columns: Sequence[str], rows: Rows) -> None:
        """Print rows in the format of the settings."""
        colour = self.interactive and self.target is None and "NO_COLOR" not in os.environ
        self.page(table.render(columns, rows, self.settings, width=self.width, colour=colour))

    def lines(self, columns: Sequence[str], rows: Rows) -> None:
        """Print rows as JSON objects, one per line."""
        text = table.render(
            columns, rows, replace(self.settings, format="jsonl", expanded="off"), width=self.width, colour=False
        )
        self.line(text.rstrip("\n"))

    def page(self, text: str) -> None:
        """Print a text, through the pager if it is longer than the screen."""
        if self.target is not None:
            self.target.write(text)
            self.target.flush()
            return
        if self.interactive and self.settings.format == "csv":
            text = for_terminal(text)
        if self._fits(text):
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        pager.show(text)

    def _fits(self, text: str) -> bool:
        if not self.interactive or not self.settings.pager:
            return True
        return pager.fits(text)

    def error(self, error: SinkqlError) -> None:
        """Print an error with its caret and hint."""
        self._say(error.shown(width=max(20, min(self.width - _MARGIN, 160))), error_styles)

    def notice(self, notice: Notice, *, path: str | None = None, text: str | None = None) -> None:
        """Print a notice with its hint, and with its place if it has one in a file."""
        place = ""
        if path is not None and text is not None and notice.span is not None:
            line, column = line_and_column(text, notice.span.start)
            place = f"{path}:{line}:{column}: "
        hint = f"\nhint: {notice.hint}" if notice.hint else ""
        self._say(f"{place}notice: {notice.message}{hint}", error_styles)

    def _say(self, text: str, styles: dict[str, str]) -> None:
        text = for_terminal(text)
        sys.stdout.flush()
        if not self.interactive:
            sys.stderr.write(text + "\n")
            return
        Console(stderr=True, markup=False, highlight=False).print(styled(text, styles), soft_wrap=True)


_SQL_STYLES: dict[HighlightKind, str] = {
    "keyword": "bold blue",
    "option": "cyan",
    "name": "",
    "string": "green",
    "number": "magenta",
    "comment": "italic dim",
    "error": "red",
}
error_styles = {
    r"error\[SQ\d{4}\]:": "bold red",
    r"(?m)^ *\^+$": "bold red",
    r"(?m)^\d+ \| ": "dim",
    r"(?m)^hint:": "bold cyan",
    r"(?m)^detail:": "bold",
    r"(?m)^(\S+: )?notice:": "bold yellow",
}


def styled(text: str, styles: dict[str, str]) -> Text:
    """Return the text with a style for the matches of each pattern."""
    shown = Text(text)
    for pattern, style in styles.items():
        shown.highlight_regex(pattern, style)
    return shown


def open_target(path: str) -> IO[str]:
    """Open the file of `\\o`; raises SQ4032 if it cannot be written."""
    try:
        return expand_home(path).open("w", encoding="utf-8")
    except OSError as error:
        raise SinkqlError(
            "SQ4032", f'cannot write "{path}": {error.strerror}', hint="Name a file in a folder that exists."
        ) from error


_AFTER_S = 1.0
_CLEAR_LINE = "\r\x1b[K"


@contextmanager
def stopwatch(write: Callable[[str], object], text: str, *, after: float = _AFTER_S) -> Iterator[Callable[[str], None]]:
    """Show `text` and the seconds since the start, after `after` seconds; yield a function that changes the text."""
    done = threading.Event()

    def tick() -> None:
        began = clock.monotonic()
        shown = False
        while not clock.wait(done, after):
            write(f"{_CLEAR_LINE}{text} {clock.monotonic() - began:.0f} s")
            shown = True
        if shown:
            write(_CLEAR_LINE)

    def say(now: str) -> None:
        nonlocal text
        text = now

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        done.set()
        thread.join()
