"""What a user has set about the shell: formats, timing, variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

RowFormat = Literal["table", "vertical", "csv", "json", "jsonl", "markdown"]
FORMATS: tuple[RowFormat, ...] = get_args(RowFormat)
Expanded = Literal["auto", "on", "off"]


@dataclass(slots=True)
class Settings:
    """How results are shown, and the variables of `\\set`.

    `expanded` auto shows rows one below the other where a table would not fit the screen.
    """

    format: RowFormat = "table"
    expanded: Expanded = "auto"
    timing: bool = False
    pager: bool = True
    null: str = "NULL"
    variables: dict[str, str] = field(default_factory=dict)
