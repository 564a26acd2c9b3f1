"""Result types of calls with a special rule in Postgres, as its pg_typeof reports them."""

from __future__ import annotations

import pytest

import sinkql
from sinkql import logical

_SOURCE = """
CREATE SOURCE s (i integer, b bigint, r real, d double precision, n numeric(10, 2), day date, at timestamp, t text)
  FROM FILES (PATH = 'in') FORMAT CSV;
"""


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("nullif(i, b)", "integer"),
        ("nullif(b, i)", "bigint"),
        ("nullif(r, d)", "real"),
        ("nullif(day, at)", "date"),
        ("nullif(t, 'a')", "text"),
        ("nullif(i, '1')", "integer"),
        ("nullif(i, d)", "double precision"),
        ("nullif(r, n)", "double precision"),
        ("nullif(b, n)", "numeric(38,0)"),
        ("nullif('1', n)", "numeric(38,10)"),
        ("nullif(n, b)", "numeric(10,2)"),
    ],
)
def test_nullif_has_the_type_that_its_first_argument_is_compared_as(call: str, type_: str) -> None:
    program = sinkql.compile(f"{_SOURCE} CREATE VIEW v AS SELECT {call} AS x FROM s;")
    assert program.catalog is not None
    view = program.catalog.item("materialize.public.v")
    assert isinstance(view, logical.View)
    (column,) = view.relation.shape.columns
    assert str(column.type) == type_
