"""SELECT from a materialized view with a job: it returns the rows of the last commit and computes nothing."""

from __future__ import annotations

from unittest.mock import patch

from sinkql.session import Session
from view.test_view_jobs import run

_VIEW = "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, count(*) AS n FROM t GROUP BY g"


def test_a_view_that_has_not_run_is_computed(session: Session) -> None:
    session.execute(f"{_VIEW}; INSERT INTO t VALUES (1, 1, 5)")
    (result,) = session.execute("SELECT * FROM w")
    assert result.rows == ((1, 1),)
    assert result.notices == ()


def test_the_rows_are_those_of_the_last_commit(session: Session) -> None:
    session.execute(f"{_VIEW}; INSERT INTO t VALUES (1, 1, 5), (2, 1, 6), (3, NULL, 7)")
    session.execute("CREATE VIEW above AS SELECT n + 1 AS more FROM w WHERE g IS NOT NULL")
    run(session)
    session.execute("INSERT INTO t VALUES (4, 1, 5)")
    (result,) = session.execute("SELECT * FROM w ORDER BY n")
    assert result.rows == ((None, 1), (1, 2))
    assert [notice.code for notice in result.notices] == ["SQ2649"]
    with patch("sinkql.session.row.inputs.MOST_ROWS", 0):  # fails if more rows are read than shown
        (result,) = session.execute("SELECT n FROM w LIMIT 1")
    assert len(result.rows) == 1
    (result,) = session.execute("SELECT more FROM above")
    assert result.rows == ((3,),)
    run(session)
    (result,) = session.execute("SELECT count(*), max(n) FROM w")
    assert result.rows == ((2, 3),)
