"""Intervals as values of options."""

from datetime import timedelta

import pytest

from sinkql.connector_api.options import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1min", 60),
        ("60s", 60),
        ("1m", 60),
        ("1 hour 30 minutes", 5400),
        ("00:01:00", 60),
        ("1 day 02:00", 93600),
        ("2 days", 172800),
        ("1.5 s", 1.5),
        (".5s", 0.5),
        ("250ms", 0.25),
        ("10", 10),
        ("1 WEEK", 604800),
    ],
)
def test_an_interval_is_its_seconds(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "  ", "-1s", "1 month", "2 years", "1 fortnight", "soon", "1s soon", "1 2", "s"])
def test_what_is_no_fixed_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        duration(text)
