"""SUBSCRIBE: the rows of a view, and then each change once, at the time of its commit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from view.test_view_jobs import run

_VIEW = "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, count(*) AS n FROM t GROUP BY g"


@pytest.fixture
def followed(session: Session) -> Session:
    session.execute(f"{_VIEW}; INSERT INTO t VALUES (1, 1, 5), (2, 2, 6)")
    run(session)
    return session


def stream(session: Session, options: str = "") -> Iterator[tuple[Any, ...]]:
    (result,) = session.execute(f"SUBSCRIBE w {options}")
    assert result.stream is not None
    return result.stream


def test_rows_come_first_and_then_the_changes_of_each_commit(followed: Session) -> None:
    rows = stream(followed)
    first = sorted(islice(rows, 2), key=repr)
    assert [row[1:] for row in first] == [(1, 1, 1), (1, 2, 1)]
    assert len({row[0] for row in first}) == 1
    followed.execute("INSERT INTO t VALUES (3, 1, 5); DELETE FROM t WHERE id = 2")
    run(followed)
    changes = sorted(islice(rows, 3), key=lambda row: row[1:])
    assert [row[1:] for row in changes] == [(-1, 1, 1), (-1, 2, 1), (1, 1, 2)]
    assert len({row[0] for row in changes}) == 1
    assert min(row[0] for row in changes) > first[0][0]


def test_without_a_snapshot_only_changes_come(followed: Session) -> None:
    rows = stream(followed, "WITH (SNAPSHOT = false, PROGRESS)")
    begun, complete = islice(rows, 2)
    assert begun[1:] == (True, None, None, None)
    assert complete == (begun[0] + 1, True, None, None, None)
    followed.execute("INSERT INTO t VALUES (3, 7, 5)")
    run(followed)
    found = list(islice(rows, 3))
    change = next(row for row in found if not row[1])
    assert change[1:] == (False, 1, 7, 1)
    assert found[-1][:2] == (change[0] + 1, True)


def test_nothing_is_kept_for_one_that_has_ended(followed: Session) -> None:
    rows = stream(followed)
    next(rows)
    assert list(Path(".sinkql/views").glob("*/readers/subscribe-*"))
    rows.close()  # type: ignore[attr-defined]  # a generator
    assert not list(Path(".sinkql/views").glob("*/readers/subscribe-*"))


def test_it_ends_where_the_view_is_replaced_by_one_with_other_columns_or_dropped(followed: Session) -> None:
    rows, others = stream(followed, "WITH (SNAPSHOT = false, PROGRESS)"), stream(followed)
    assert len(list(islice(rows, 2))) == len(list(islice(others, 2))) == 2
    followed.execute(f"CREATE OR REPLACE {_VIEW.removeprefix('CREATE ').replace('count(*)', 'min(x)')}")
    run(followed)
    with pytest.raises(SinkqlError, match="has other columns now"):
        list(others)
    others = stream(followed)
    assert len(list(islice(others, 2))) == 2
    followed.execute("DROP MATERIALIZED VIEW w")
    for each in (others, rows):
        with pytest.raises(SinkqlError, match="was dropped") as refused:
            next(each)
        assert refused.value.code == "SQ2657"
        assert refused.value.hint
    assert not list(Path(".sinkql/views").glob("*"))


def test_a_view_that_nobody_runs_is_said_to_wait(followed: Session) -> None:
    (result,) = followed.execute("SUBSCRIBE w")
    assert [each.code for each in result.notices] == ["SQ2656"]
    (job,) = followed.jobs()
    followed.catalog.control.acquire(job.sink_id, owner="x", takeover=True)
    (result,) = followed.execute("SUBSCRIBE w")
    assert result.notices == ()


@pytest.mark.parametrize(("name", "then"), [("v", "v"), ("t", "t_changes")])
def test_the_hint_for_what_keeps_no_changes_works(followed: Session, name: str, then: str) -> None:
    with pytest.raises(SinkqlError) as refused:
        followed.execute(f"SUBSCRIBE {name}")
    assert refused.value.hint is not None
    followed.execute(refused.value.hint.removeprefix("Run ").partition(", and")[0])
    followed.execute(f"SUBSCRIBE {then}")


@pytest.mark.parametrize("text", ["SUBSCRIBE v", "SUBSCRIBE t", "SUBSCRIBE (SELECT 1)", "SUBSCRIBE w AS OF 5"])
def test_what_cannot_be_followed_is_refused(followed: Session, text: str) -> None:
    with pytest.raises(SinkqlError) as refused:
        followed.execute(text)
    assert refused.value.code == "SQ2963"
    assert refused.value.hint
