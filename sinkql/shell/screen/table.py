"""Format rows as text: table, vertical, csv, json, jsonl, markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from sinkql.errors import for_json, for_terminal
from sinkql.shell.screen.value import Rows, numeric, plain, value_text
from sinkql.shell.setting import RowFormat, Settings


def render(columns: Sequence[str], rows: Rows, settings: Settings, *, width: int, colour: bool) -> str:
    """Return the rows in the format of the settings; each line is ended. `width` is the screen's in characters."""
    match _format(columns, rows, settings, width):
        case "table":
            from sinkql.shell.screen import grid  # loads rich

            return grid.table(columns, rows, settings.null, width=width, colour=colour)
        case "vertical":
            from sinkql.shell.screen import grid  # as above

            return grid.vertical(columns, rows, settings.null, width=width, colour=colour)
        case "csv":
            return _csv(columns, rows)
        case "json":
            objects = [_json(object_) for object_ in _objects(columns, rows)]
            return "[\n" + ",\n".join(f"  {object_}" for object_ in objects) + "\n]\n" if objects else "[]\n"
        case "jsonl":
            return "".join(f"{_json(object_)}\n" for object_ in _objects(columns, rows))
        case "markdown":
            return _markdown(columns, rows)


def _format(columns: Sequence[str], rows: Rows, settings: Settings, width: int) -> RowFormat:
    if settings.format != "table" or settings.expanded == "off":
        return settings.format
    if settings.expanded == "on":
        return "vertical"
    from sinkql.shell.screen import grid  # as above

    return "table" if grid.fits(columns, rows, width) else "vertical"


def _objects(columns: Sequence[str], rows: Rows) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in zip(columns, row, strict=True)} for row in rows]


def _json(row: dict[str, Any]) -> str:
    return for_json(json.dumps(row, ensure_ascii=False))


def _csv(columns: Sequence[str], rows: Rows) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([value_text(value) for value in row] for row in rows)
    return file.getvalue()


def _markdown(columns: Sequence[str], rows: Rows) -> str:
    def line(cells: Sequence[str]) -> str:
        safe = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>") for cell in cells)
        return for_terminal(f"| {' | '.join(safe)} |") + "\n"

    rule = ["---:" if numeric(rows, place) else "---" for place in range(len(columns))]
    head = f"{line(columns)}|{'|'.join(rule)}|\n"
    return head + "".join(line([value_text(value) for value in row]) for row in rows)
