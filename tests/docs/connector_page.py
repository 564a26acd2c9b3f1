"""Write the options tables in the pages of docs/connectors from the registry's dataclasses.

A page marks the position of a table: `<!-- options: KAFKA source -->` … `<!-- end -->`. The name is a word of SQL and a
role: `connection`, `source`, `source WITH`, `format`, `sink` or `sink WITH`. Options, values, defaults and their order
come from the code. The page's author writes the column `meaning`, and the default of an option if the code leaves it
open. Both stay unchanged when a table is written again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from sinkql.connector_api.option_help import OptionHelp, offered
from sinkql.connector_api.options import label
from sinkql.connector_api.registry import Registry

_REGION = re.compile(r"<!-- options: (?P<name>[^\n]+?) -->\n(?P<table>.*?)<!-- end -->", re.DOTALL)
_HEAD = ("| option | value | default | meaning |", "|---|---|---|---|")
_VALUES = {
    "text": "string",
    "secret": "`SECRET name`",
    "text or secret": "secret or string",
    "list": "list of strings",
    "numbers": "list of numbers",
    "map": "`MAP['key' => 'value']`",
}
_MOST_WORDS = 15


def options(registry: Registry) -> dict[str, type]:
    """Return the dataclasses of all connectors by the names that pages use."""
    found: dict[str, type | None] = {}
    for name, connection in registry.connections.items():
        found[f"{name} connection"] = connection.options
    for name, source in registry.sources.items():
        found[f"{name} source"], found[f"{name} source WITH"] = source.options, source.with_options
    for name, format_ in registry.formats.items():
        found[f"{name} format"] = format_.options
    for name, sink in registry.sinks.items():
        found[f"{name} sink"], found[f"{name} sink WITH"] = sink.options, sink.with_options
    return {name: into for name, into in found.items() if into is not None and offered(into)}


def regions(text: str) -> list[str]:
    """Return the names of the tables that a page has."""
    return [found["name"] for found in _REGION.finditer(text)]


def filled(text: str, known: Mapping[str, type]) -> str:
    """Return a page with tables from the code; raise KeyError for a name that no connector has."""
    return _REGION.sub(lambda found: _region(found["name"], found["table"], known[found["name"]]), text)


def failpoints(text: str) -> list[str]:
    """Return the options whose meaning is missing or too long."""
    found = []
    for region in _REGION.finditer(text):
        for option, (_, meaning) in _written(region["table"]).items():
            words = len(re.sub(r"\]\([^)]*\)", "]", meaning).split())
            if not 0 < words <= _MOST_WORDS:
                found.append(f"{region['name']}: {option} has {words} words")
    return found


def _region(name: str, table: str, into: type) -> str:
    rows = "\n".join((*_HEAD, *_rows(into, _written(table))))
    return f"<!-- options: {name} -->\n{rows}\n<!-- end -->"


def _rows(into: type, written: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    defaults = {label(field): field.default for field in dataclasses.fields(into)}
    for option in offered(into):
        old_default, meaning = written.get(option.label, ("", ""))
        default = "required" if option.required else _default(defaults[option.label]) or old_default
        yield f"| `{option.label}` | {_value(option)} | {default} | {meaning or option.help} |".replace("|  |", "| |")


def _value(option: OptionHelp) -> str:
    if option.choices:
        return ", ".join(f"`'{choice}'`" for choice in option.choices)
    return _VALUES.get(option.takes, option.takes)


def _default(default: object) -> str:
    match default:
        case bool():
            return f"`{str(default).lower()}`"
        case int() | float():
            return f"`{default}`"
        case str():
            return f"`'{default}'`"
        case timedelta():
            return f"`'{default // timedelta(seconds=1)}s'`"
        case _:
            return ""


def _written(table: str) -> dict[str, tuple[str, str]]:
    """Return the default and the meaning of each option in a table."""
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == len(_HEAD[0].split("|")) - 2 and cells[0].startswith("`"):
            found[cells[0].strip("`")] = (cells[2], cells[3])
    return found
