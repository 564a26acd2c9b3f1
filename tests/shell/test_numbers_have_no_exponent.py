"""Numbers with a scale are printed without an exponent, in tables, CSV and JSON."""

from __future__ import annotations

from decimal import Decimal

import pytest

from sinkql.shell.screen.value import plain, value_text


@pytest.mark.parametrize(
    "text", ["0.0000001000", "0.0000000000", "-0.0000000001", "99999999999999999999999999999999999999"]
)
def test_a_numeric_is_shown_by_its_digits(text: str) -> None:
    value = Decimal(text)
    assert (value_text(value), plain(value), value_text([value])) == (text, text, f'["{text}"]')
