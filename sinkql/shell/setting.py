"""The user's settings of the shell: formats, timing, variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

RowFormat = Literal["table", "vertical", "csv", "json", "jsonl", "markdown"]
FORMATS: tuple[RowFormat, ...] = get_args(RowFormat)
Expanded = Literal["auto", "on", "off"]


@dataclass(slots=True)
class Settings:
    """The format of results, and the variables of `\\set`.

    `expanded` auto shows one value per line if a table does not fit the screen.
    """

    format: RowFormat = "table"
    expanded: Expanded = "auto"
    timing: bool = False
    pager: bool = True
    null: str = "NULL"
    variables: dict[str, str] = field(default_factory=dict)
