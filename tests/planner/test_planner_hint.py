"""Hints for functions and types of other systems name what is here, and never hide what is."""

from __future__ import annotations

import pytest

from sinkql.connector.type_hint import type_hint
from sinkql.connector.types import column_type
from sinkql.planner import functions, functions_elsewhere


def test_no_known_function_is_called_foreign() -> None:
    known = {*functions.OVERLOADS, *functions.HANDLERS, *functions.AGGREGATES}
    assert not known & functions_elsewhere.ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("bigint name text", 'Write "," after bigint: name is the next column.'),
        ("bigint auto_increment", "Leave out auto_increment."),
        ("numeric(10, 2) unsigned", "Leave out unsigned."),
        ("bigserial", "Write bigint, and give the values yourself."),
        ("varchar2(10)", "Write text."),
        ("bigit", "Did you mean bigint?"),
        ("geometry", "Use another."),
    ],
)
def test_type_is_mended_as_it_was_meant(text: str, hint: str) -> None:
    assert hint == type_hint(text, lambda name: column_type(name) is not None, "Use another.")
