"""Hints for types of other systems name SinkQL's types."""

from __future__ import annotations

import pytest

from sinkql.connector_api.types import column_type, type_hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("bigint name text", 'Write "," after bigint: name is the next column.'),
        ("bigint auto_increment", "Leave out auto_increment."),
        ("numeric(10, 2) unsigned", "Leave out unsigned."),
        ("bigserial", "Write bigint, and insert the values yourself."),
        ("varchar2(10)", "Write varchar(10)."),
        ("varchar2", "Write text."),
        ("number(10, 2)", "Write numeric(10, 2)."),
        ("number(10)", "Write numeric(10, 0)."),
        ("number", "Write numeric(38, 10)."),
        ("bigit", "Did you mean bigint?"),
        ("geometry", "Use another."),
    ],
)
def test_type_is_mended_as_it_was_meant(text: str, hint: str) -> None:
    assert hint == type_hint(text, lambda name: column_type(name) is not None, "Use another.")
