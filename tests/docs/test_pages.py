"""The documentation agrees with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.cli.main import cli
from sinkql.connector_api.option_help import option_help
from sinkql.connector_api.registry import discover

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]


def test_every_option_says_what_it_is_for() -> None:
    registry = discover()
    found = [kind.options for kind in registry.sources.values()]
    found += [kind.with_options for kind in registry.sources.values()]
    found += [each for kind in registry.sinks.values() for each in (kind.options, kind.with_options)]
    options = [option for each in found if each is not None for option in option_help(each)]
    assert [option.label for option in options if not option.help] == []


def test_every_command_has_a_section() -> None:
    text = (_ROOT / "docs" / "reference" / "cli.md").read_text()
    assert [name for name in cli.commands if f"sinkql {name}" not in text] == []
