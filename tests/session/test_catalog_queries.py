"""Queries over the system catalog give Postgres's result or an error with its place, and never a wrong value."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from random import Random

import pytest

from session.system_queries import TABLE, judged, plain
from sinkql.errors import SinkqlError
from sinkql.session import Session


@pytest.mark.long
@pytest.mark.share(6)
@pytest.mark.parametrize("part", range(6))
def test_a_query_gives_what_postgres_gives_or_an_error_with_its_place(session: Session, part: int) -> None:
    session.execute(TABLE)
    outcomes: Counter[str] = Counter()
    for each in judged()[part::6]:
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
    assert outcomes["same"] > 60, outcomes
    assert outcomes["not yet"] < 0.2 * outcomes.total(), outcomes


def test_floats_that_are_no_numbers_are_summed_and_ordered_as_in_postgres(session: Session) -> None:
    session.execute(TABLE)
    chance = Random(5)
    for _ in range(40):
        kinds = chance.choice((("1.5", "-2"), ("Infinity", "1.5"), ("Infinity", "-Infinity", "NaN", "1.5"), ("1e308",)))
        texts = [chance.choice((*kinds, None)) for _ in range(4)]
        branches = "".join(f" WHEN {at} THEN '{text}'" for at, text in enumerate(texts, 1) if text)
        value = f"(CASE position {branches} END)::float8" if branches else "NULL::float8"
        below = f"(SELECT {value} AS x FROM mz_columns WHERE id = 'u1' AND position <= 4) AS q"
        numbers = [float(text) for text in texts if text]
        if math.isinf(sum(numbers)) and not any(map(math.isinf, numbers)):
            with pytest.raises(SinkqlError, match="value out of range: overflow"):
                session.execute(f"SELECT sum(x) FROM {below}")
            continue
        ordered = sorted(numbers, key=lambda number: (math.isnan(number), number))
        expected = (sum(numbers), sum(numbers) / len(numbers), ordered[-1], ordered[0]) if numbers else (None,) * 4
        (found,) = session.execute(f"SELECT sum(x), avg(x), max(x), min(x) FROM {below}")[0].rows
        assert repr(tuple(found)) == repr(tuple(None if each is None else float(each) for each in expected)), texts
        rows = session.execute(f"SELECT x FROM {below} WHERE x IS NOT NULL ORDER BY x")[0].rows
        assert repr([value for (value,) in rows]) == repr(ordered), texts


def test_a_sum_of_numerics_keeps_all_digits(session: Session) -> None:
    session.execute(TABLE)
    ((total,),) = session.execute(
        "SELECT sum(1234567890123456789012345678.0000000001::numeric) FROM mz_columns WHERE id = 'u1' AND position <= 5"
    )[0].rows
    assert total == Decimal("6172839450617283945061728390.0000000005")
