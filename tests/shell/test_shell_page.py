"""The page on the shell documents every command."""

from __future__ import annotations

import re
from pathlib import Path

from sinkql.shell.command.command_list import COMMANDS
from sinkql.shell.setting import FORMATS

_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "shell.md").read_text()


def test_every_command_is_on_the_page_and_the_page_has_no_other() -> None:
    table = _PAGE[_PAGE.index("## Commands") : _PAGE.index("## Variables")]
    told = set(re.findall(r"`\\([a-z]+\+?|\?|!)", table))
    known = {entry.names[0] for entry in COMMANDS}
    assert known <= told
    assert told <= {name for entry in COMMANDS for name in entry.names}


def test_every_format_is_on_the_page() -> None:
    assert all(f"`{each}`" in _PAGE for each in FORMATS)
