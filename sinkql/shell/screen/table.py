"""Columns and rows → text: table, vertical, csv, json, jsonl, markdown."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sinkql.shell.setting import RowFormat, Settings

Rows = Sequence[Sequence[Any]]
_WIDEST_CELL = 40
"""Cells wider than this are expected to be folded."""


def render(columns: Sequence[str], rows: Rows, settings: Settings, *, width: int, colour: bool) -> str:
    """Return the rows in the format of the settings, each line ended; `width` is the screen's in characters."""
    match _format(columns, rows, settings, width):
        case "table":
            return _table(columns, rows, settings.null, width=width, colour=colour)
        case "vertical":
            return _vertical(columns, rows, settings.null, width=width, colour=colour)
        case "csv":
            return _csv(columns, rows)
        case "json":
            objects = [json.dumps(each, ensure_ascii=False) for each in _objects(columns, rows)]
            return "[\n" + ",\n".join(f"  {each}" for each in objects) + "\n]\n" if objects else "[]\n"
        case "jsonl":
            return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in _objects(columns, rows))
        case "markdown":
            return _markdown(columns, rows)


def _format(columns: Sequence[str], rows: Rows, settings: Settings, width: int) -> RowFormat:
    if settings.format != "table" or settings.expanded == "off":
        return settings.format
    if settings.expanded == "on":
        return "vertical"
    widest = [
        max([cell_len(name), *(min(_WIDEST_CELL, cell_len(value_text(row[place]))) for row in rows)])
        for place, name in enumerate(columns)
    ]
    return "table" if sum(widest) + 3 * len(columns) <= max(width, 20) else "vertical"


def value_text(value: Any, null: str = "") -> str:
    """Return a value as Postgres prints it: times have no T, zones are short; nested values are JSON.

    `null` is the text for NULL.
    """
    match value:
        case None:
            return null
        case list() | dict() | tuple():
            return json.dumps(value, default=_plain, ensure_ascii=False)
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case bytes():
            return f"\\x{value.hex()}"
        case datetime():
            return _timestamp_text(value)
        case _:
            return str(value)


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    shown = repr(value)
    if "e" in shown:
        digits, _, exponent = shown.partition("e")
        return f"{digits}e{int(exponent):+03d}"
    return shown.removesuffix(".0")


def _timestamp_text(value: datetime) -> str:
    shown = value.replace(tzinfo=None).isoformat(" ")
    if value.microsecond:
        shown = shown.rstrip("0")
    return shown if value.tzinfo is None else f"{shown}+00"


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; numbers with a scale stay exact, as text."""
    match value:
        case None | bool() | int() | str() | list() | dict():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case Decimal() | datetime() | date() | time() | timedelta():
            return value_text(value)
        case _:
            return value_text(value)


def _objects(columns: Sequence[str], rows: Rows) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in zip(columns, row, strict=True)} for row in rows]


def _numeric(rows: Rows, place: int) -> bool:
    values = [row[place] for row in rows if row[place] is not None]
    return bool(values) and all(
        isinstance(each, int | float | Decimal) and not isinstance(each, bool) for each in values
    )


def _console(width: int, colour: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=max(width, 20),
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
        highlight=False,
        legacy_windows=False,
    )


def _printed(console: Console, renderable: Any) -> str:
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


def _table(columns: Sequence[str], rows: Rows, null: str, *, width: int, colour: bool) -> str:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold cyan", border_style="dim", show_edge=False)
    for place, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if _numeric(rows, place) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(null, style="dim") if value is None else Text(value_text(value, null)) for value in row))
    return _printed(_console(width, colour), table) + f"({len(rows)} {'row' if len(rows) == 1 else 'rows'})\n"


def _vertical(columns: Sequence[str], rows: Rows, null: str, *, width: int, colour: bool) -> str:
    label = max((cell_len(name) for name in columns), default=0)
    parts = []
    for number, row in enumerate(rows, 1):
        console = _console(width, colour)
        head = f"─ row {number} "
        console.print(Text(head + "─" * max(0, min(width, 40) - len(head)), style="dim"))
        grid = Table.grid(padding=(0, 2), pad_edge=False)
        grid.add_column(no_wrap=True, min_width=label, style="bold cyan")
        grid.add_column(overflow="fold")
        for name, value in zip(columns, row, strict=True):
            grid.add_row(Text(name), Text(null, style="dim") if value is None else Text(value_text(value, null)))
        parts.append(_printed(console, grid))
    return "".join(parts) or "(0 rows)\n"


def _csv(columns: Sequence[str], rows: Rows) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([value_text(value) for value in row] for row in rows)
    return file.getvalue()


def _markdown(columns: Sequence[str], rows: Rows) -> str:
    def line(cells: Sequence[str]) -> str:
        escaped = (each.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>") for each in cells)
        return f"| {' | '.join(escaped)} |\n"

    rule = ["---:" if _numeric(rows, place) else "---" for place in range(len(columns))]
    head = f"{line(columns)}|{'|'.join(rule)}|\n"
    return head + "".join(line([value_text(value) for value in row]) for row in rows)
