"""The messages about a table whose columns have changed their types."""

from __future__ import annotations

import pytest

from sinkql.connectors.postgres.relation import SentColumn, match_columns
from sinkql.connectors.postgres.type import ServerColumn, ServerTable, ServerType


def _digits(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ((5, 3), (9, 5), "was numeric(5,3) and is numeric(9,5) now"),
        (None, (9, 5), "was numeric and is numeric(9,5) now"),
        ((9, 5), None, "was numeric(9,5) and is numeric now"),
        ((3, -2), (3, 1), "was numeric(3,-2) and is numeric(3,1) now"),
    ],
)
def test_digits_are_shown_where_they_alone_differ(
    before: tuple[int, int] | None, now: tuple[int, int] | None, said: str
) -> None:
    was, is_ = (-1 if each is None else _digits(*each) for each in (before, now))
    planned = ServerTable("s", "t", 1, "default", (ServerColumn("n", ServerType(1700, "numeric", modifier=was)),))
    assert match_columns(planned, [SentColumn("n", 1700, is_, in_key=False)])[1] == [f'the type of column "n" {said}']
