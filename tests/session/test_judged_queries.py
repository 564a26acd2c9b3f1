"""Queries over the system catalog give what Postgres gives, or an error with its place, and never another value."""

from __future__ import annotations

from collections import Counter

from session.system_queries import TABLE, judged, plain
from sinkql.errors import SinkqlError
from sinkql.session import Session


def test_a_query_gives_what_postgres_gives_or_an_error_with_its_place(session: Session) -> None:
    session.execute(TABLE)
    outcomes: Counter[str] = Counter()
    for each in judged():
        try:
            found = plain(session.execute(each.sql)[0].rows)
        except SinkqlError as error:
            place = error.span
        else:
            assert found == each.rows, each.sql
            outcomes["same"] += 1
            continue
        assert place is not None, each.sql
        assert 0 <= place.start < place.end <= len(each.sql), each.sql
        outcomes["refused" if each.rows is None else "not yet"] += 1
    assert outcomes["same"] > 400, outcomes
    assert outcomes["not yet"] < 0.2 * outcomes.total(), outcomes
