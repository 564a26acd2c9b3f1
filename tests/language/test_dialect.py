"""The forms of the dialect, one per statement of `dialect.sql`, parse, and their printed text parses to the same."""

from __future__ import annotations

from pathlib import Path

from sinkql.errors import SinkqlError
from sinkql.parser import parse, parse_each
from sinkql.printer import to_sql
from support.keywords import WORDS

_FORMS = Path(__file__).with_name("dialect.sql").read_text()


def test_every_form_of_the_dialect_parses() -> None:
    assert not [str(each) for each in parse_each(_FORMS, WORDS) if isinstance(each, SinkqlError)]


def test_every_form_of_the_dialect_is_printed_as_what_it_is() -> None:
    for statement in parse(_FORMS, WORDS):
        assert (statement,) == parse(to_sql(statement), WORDS)
