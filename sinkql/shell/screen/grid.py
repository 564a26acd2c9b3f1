"""Draw rows with rich: a table, or one value per line."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sinkql.errors import for_terminal
from sinkql.shell.screen.value import Rows, numeric, value_text

_WIDEST_CELL = 40
"""Wider cells are expected to be folded."""


def fits(columns: Sequence[str], rows: Rows, width: int) -> bool:
    """Return whether a table of the rows fits the screen, with wide cells folded."""
    widest = [
        max([cell_len(name), *(min(_WIDEST_CELL, cell_len(value_text(row[place]))) for row in rows)])
        for place, name in enumerate(columns)
    ]
    return sum(widest) + 3 * len(columns) <= max(width, 20)


def table(columns: Sequence[str], rows: Rows, null: str, *, width: int, colour: bool) -> str:
    """Return the rows as a table with a header."""
    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold cyan", border_style="dim", show_edge=False)
    for place, name in enumerate(columns):
        found.add_column(Text(for_terminal(name)), justify="right" if numeric(rows, place) else "left", overflow="fold")
    for row in rows:
        found.add_row(*(_cell(value, null) for value in row))
    return _printed(width, colour, found) + f"({len(rows)} {'row' if len(rows) == 1 else 'rows'})\n"


def vertical(columns: Sequence[str], rows: Rows, null: str, *, width: int, colour: bool) -> str:
    """Return each row as lines of a name and a value."""
    label = max((cell_len(name) for name in columns), default=0)
    parts = []
    for number, row in enumerate(rows, 1):
        head = f"─ row {number} "
        grid = Table.grid(padding=(0, 2), pad_edge=False)
        grid.add_column(no_wrap=True, min_width=label, style="bold cyan")
        grid.add_column(overflow="fold")
        for name, value in zip(columns, row, strict=True):
            grid.add_row(Text(for_terminal(name)), _cell(value, null))
        line = Text(head + "─" * max(0, min(width, 40) - len(head)), style="dim")
        parts.append(_printed(width, colour, line, grid))
    return "".join(parts) or "(0 rows)\n"


def _cell(value: Any, null: str) -> Text:
    return Text(null, style="dim") if value is None else Text(for_terminal(value_text(value, null)))


def _printed(width: int, colour: bool, *renderables: Any) -> str:
    printed = io.StringIO()
    console = Console(
        file=printed,
        width=max(width, 20),
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
        highlight=False,
        legacy_windows=False,
    )
    for renderable in renderables:
        console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
