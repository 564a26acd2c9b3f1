"""Show a changing text until Ctrl-C: in one place on a terminal, as one copy after another elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sinkql.machine import clock

_EVERY_S = 1.0


def watch_text(text: Callable[[], str]) -> None:
    """Show the result of `text` every second until Ctrl-C; in a pipe or a file, print it only after a change."""
    try:
        if sys.stdout.isatty():
            _on_terminal(text)
        else:
            _elsewhere(text)
    except KeyboardInterrupt:
        return  # Ctrl-C is the normal end


def _on_terminal(text: Callable[[], str]) -> None:
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            live.update(Text(text().rstrip("\n")), refresh=True)
            clock.sleep(_EVERY_S)


def _elsewhere(text: Callable[[], str]) -> None:
    before = None
    while True:
        now = text()
        if now != before:
            click.echo(now, nl=False)
            sys.stdout.flush()
        before = now
        clock.sleep(_EVERY_S)
