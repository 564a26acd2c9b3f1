"""CREATE INDEX and DROP INDEX: the index that a view keeps, and the joins that look up rows in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest

from sinkql import physical
from sinkql.connectors.view.log import ViewLog, view_folder
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from support.readers import duckdb_folder
from support.running import catch_up, drain, loop_of
from view.indexed import looking_up
from view.test_view_jobs import jobs, run, sink

_ORDERS = """
CREATE TABLE o (oid bigint PRIMARY KEY, g int, q int);
CREATE MATERIALIZED VIEW j AS SELECT o.oid, o.q, v.s, v.n FROM o LEFT JOIN v ON o.g = v.g;
INSERT INTO t VALUES (1, 1, 5), (2, 1, 7), (3, 2, 9);
INSERT INTO o VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, NULL, 4);
"""
_JOINED = """
SELECT o.oid, o.q, v.s, v.n
FROM o LEFT JOIN (SELECT g, count(*) AS n, sum(x)::BIGINT AS s FROM t WHERE {} GROUP BY g) AS v ON o.g = v.g
"""


@pytest.fixture(autouse=True)
def orders(session: Session) -> None:
    session.execute(_ORDERS)


def _check(session: Session, name: str = "a", *, where: str = "TRUE") -> None:
    """Compare the sink's table with DuckDB's answer over the current tables."""
    with duckdb.connect() as connection:
        for table, columns in (("t", "id BIGINT, g INTEGER, x INTEGER"), ("o", "oid BIGINT, g INTEGER, q INTEGER")):
            connection.execute(f"CREATE TABLE {table} ({columns})")
            (found,) = session.execute(f"SELECT * FROM {table}")
            if found.rows:
                connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", [list(row) for row in found.rows])
        expected = Counter(connection.execute(_JOINED.format(where)).fetchall())
    assert Counter(duckdb_folder(Path("lake/n") / name, "oid, q, s, n")) == expected


def _kept(session: Session, name: str) -> set[str]:
    """Return the arrangements that a job had at its last commit."""
    job = jobs(session)[name]
    loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
    loop.start(epoch=1)
    return set(loop.report.metrics.now["arrangements"])


def _log(session: Session) -> ViewLog:
    return ViewLog(view_folder(Path(".sinkql"), jobs(session)["v"].sink_id))


def test_an_index_makes_its_view_a_job_that_keeps_it(session: Session) -> None:
    (told,) = session.execute("CREATE INDEX ON v (g)")
    assert not told.notices
    found = jobs(session)
    assert [each.key for each in found["v"].indexes] == [("g",)]
    run(session)
    assert {each.arrangement for each in found["v"].indexes} < _kept(session, "v")


def test_sinks_look_up_in_it_and_keep_no_side(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    (index,) = jobs(session)["v"].indexes
    for changes in ("", "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (5, 3, 3)", "UPDATE o SET g = 2, q = 8"):
        session.execute(changes or "SELECT 1")
        run(session)
        _check(session)
    assert [each.arrangement for each in looking_up(jobs(session)["a"])] == [index.arrangement]
    assert len(_kept(session, "a")) == 1  # the rows of o


def test_explain_says_where_rows_are_looked_up(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    (index,) = jobs(session)["v"].indexes
    name = index.arrangement
    (joined,) = session.execute("EXPLAIN PHYSICAL PLAN FOR SINK a")
    lines = [line.strip() for (line,) in joined.rows]
    assert f"looks up: rows of n, s, in index {name} of the view" in lines
    (kept,) = session.execute("EXPLAIN PHYSICAL PLAN FOR MATERIALIZED VIEW v")
    lines = [line.strip() for (line,) in kept.rows]
    assert lines[-2:] == [f"Index {name} by g", "keeps: rows of g, n, s, for the joins of others"]


def test_no_expression_meets_a_pair_that_was_never_there(session: Session) -> None:
    """A deleted row is joined only with earlier rows, not with rows that the same batch adds."""
    session.execute(
        "CREATE INDEX ON v (g);"
        "CREATE MATERIALIZED VIEW k AS SELECT o.oid, 10 / (v.s - o.q) AS d FROM o JOIN v ON o.g = v.g"
    )
    session.execute("UPDATE o SET q = 8 WHERE oid = 1")
    sink(session, "a", "k", "KEY (oid) MODE UPSERT")
    run(session)
    session.execute("UPDATE o SET q = 3 WHERE oid = 1; UPDATE t SET x = 3 WHERE id = 2")  # v.s is 8 now
    run(session)
    assert Counter(duckdb_folder(Path("lake/n/a"), "oid, d")) == Counter({(1, 2): 1, (2, 1): 1})


def test_views_above_look_up_in_it_too(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    sink(session, "b", "j", "KEY (oid) MODE UPSERT")
    assert len(looking_up(jobs(session)["j"])) == 1
    for changes in ("SELECT 1", "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (5, 3, 3)", "UPDATE o SET g = 2"):
        session.execute(changes)
        run(session, "v", "j", "a", "b")
        _check(session, "a")
        _check(session, "b")


def test_a_quiet_view_gets_an_index_and_its_sinks_continue(session: Session) -> None:
    session.execute("ALTER MATERIALIZED VIEW v SET (COMMIT INTERVAL = '1s')")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    run(session)
    _check(session)
    assert not looking_up(jobs(session)["a"])
    before = _log(session).last()
    session.execute("CREATE INDEX ON v (g); INSERT INTO o VALUES (5, 2, 5)")
    with pytest.raises(SinkqlError) as waits:
        run(session, "a")  # the view's job has not built it yet
    assert waits.value.code == "SQ3453"
    assert waits.value.retryable
    run(session)
    _check(session)
    newest = _log(session).newest()
    assert newest is not None
    assert (newest[1].changed, newest[1].runs) == (before, ())
    assert len(looking_up(jobs(session)["a"])) == 1


def test_an_index_that_is_dropped_is_made_up_for_from_the_view(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    run(session)
    session.execute("DROP INDEX v_g_idx; INSERT INTO o VALUES (5, 2, 5); DELETE FROM t WHERE id = 2")
    run(session)
    _check(session)
    assert len(_kept(session, "a")) == 2
    session.execute("DELETE FROM t WHERE g = 2; INSERT INTO o VALUES (6, 1, 5), (7, 2, 7)")
    run(session)
    _check(session)


def test_a_view_with_an_index_may_be_replaced(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    run(session)
    session.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(x) AS s FROM t WHERE x > 5 GROUP BY g"
    )
    run(session)
    run(session)
    _check(session, where="x > 5")
    session.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g;"
        "INSERT INTO o VALUES (5, 2, 5)"
    )
    run(session)
    run(session)
    _check(session)


def test_changes_from_before_there_was_an_index_are_read(session: Session) -> None:
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    session.execute("ALTER MATERIALIZED VIEW v SET (COMMIT INTERVAL = '1s')")
    run(session)
    session.execute("UPDATE t SET x = 50 WHERE id = 1")
    run(session, "v")
    session.execute("CREATE INDEX ON v (g)")
    run(session)
    _check(session)


def test_an_index_in_state_of_a_cluster_is_looked_up_in(session: Session, tmp_path: Path) -> None:
    session.execute(
        f"CREATE CLUSTER kept (SIZE = 'local[1]', STATE = '{tmp_path}/kept');"
        "ALTER MATERIALIZED VIEW v SET CLUSTER kept; CREATE INDEX ON v (g)"
    )
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    session.execute("ALTER SINK a SET CLUSTER kept")
    assert len(looking_up(jobs(session)["a"])) == 1
    for changes in ("SELECT 1", "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (5, 3, 3)", "UPDATE o SET g = 2"):
        session.execute(changes)
        run(session)
        _check(session)
    assert list((tmp_path / "kept").rglob("log/log/*.json"))


def test_a_quiet_view_whose_state_is_lost_makes_its_index_again(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    run(session)
    for path in Path(".sinkql/sinks", jobs(session)["v"].sink_id).rglob("*.json"):
        path.unlink()
    session.execute("INSERT INTO o VALUES (5, 2, 5)")
    run(session)
    _check(session)


def test_a_view_whose_state_is_lost_makes_its_index_again(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    run(session)
    for path in Path(".sinkql/sinks", jobs(session)["v"].sink_id, "state").rglob("*.arrow"):
        path.unlink()
    session.execute("INSERT INTO t VALUES (8, 3, 8)")
    run(session)
    session.execute("INSERT INTO o VALUES (5, 3, 5)")
    run(session)
    _check(session)


def test_state_of_a_sink_that_is_lost_is_made_again(session: Session) -> None:
    session.execute("CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    run(session)
    for path in Path(".sinkql/sinks", jobs(session)["a"].sink_id, "state").rglob("*.arrow"):
        path.unlink()
    session.execute("INSERT INTO t VALUES (8, 3, 8); INSERT INTO o VALUES (5, 3, 5); DELETE FROM o WHERE oid = 1")
    run(session)
    _check(session)


@pytest.mark.parametrize(
    ("index", "join", "used"),
    [
        ("v (g)", "o.g = v.g", True),
        ("v (n)", "o.g = v.g", False),
        ("v (n)", "o.oid = v.n", True),
        ("v (g)", "o.oid = v.g", False),  # v.g is cast to bigint
        ("v (g::bigint)", "o.oid = v.g", True),
        ("v (g, n)", "o.g = v.g AND o.oid = v.n", True),
        ("v (n, g)", "o.g = v.g AND o.oid = v.n", False),
        ("v (g)", "o.g = v.g AND v.n > 1", False),
        ("v (g % 2)", "o.g = v.g % 2", True),
        ("v (g)", "o.g IS NOT DISTINCT FROM v.g", True),
    ],
)
def test_an_index_is_used_for_just_its_key(session: Session, index: str, join: str, used: bool) -> None:
    session.execute(
        f"CREATE INDEX i ON {index}; CREATE MATERIALIZED VIEW k AS SELECT o.oid, v.s FROM o LEFT JOIN v ON {join}"
    )
    sink(session, "k_", "k", "KEY (oid) NOT ENFORCED MODE UPSERT")
    assert bool(looking_up(jobs(session)["k_"])) == used
    (shown,) = session.execute("EXPLAIN PHYSICAL PLAN FOR SINK k_")
    assert any("keeps rows of materialized view v, which has an index" in line for (line,) in shown.rows) != used


def test_a_sink_in_another_cluster_keeps_its_side(session: Session) -> None:
    session.execute("CREATE CLUSTER other (SIZE = 'local[1]'); CREATE INDEX ON v (g)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    session.execute("ALTER SINK a SET CLUSTER other")
    assert not looking_up(jobs(session)["a"])
    run(session)
    _check(session)


@pytest.mark.share(3)
@pytest.mark.parametrize("buckets", [3, 1, 4])
def test_buckets_of_a_sink_need_not_be_those_of_the_view(session: Session, buckets: int) -> None:
    session.execute("CREATE INDEX ON v (g); INSERT INTO t SELECT i, i % 9, i FROM generate_series(10, 40) AS s(i)")
    sink(session, "a", "j", "KEY (oid) MODE UPSERT")
    names, engine = ("v", "a"), {"v": LocalEngine(2), "a": LocalEngine(buckets)}
    for changes in (
        "INSERT INTO o SELECT i, i % 10, i FROM generate_series(10, 40) AS s(i)",
        "DELETE FROM t WHERE id < 20; INSERT INTO t VALUES (5, 3, 3); UPDATE o SET g = 3 WHERE oid < 15",
    ):
        session.execute(changes)
        for name in names:
            job = jobs(session)[name]
            session.catalog.control.acquire(job.sink_id, owner=name, takeover=True)
            context, registry = session.context(job), session.catalog.registry
            loop = loop_of(job, context, registry, engine=engine[name], control=session.catalog.control)
            loop.start(epoch=1)
            drain(loop)
        _check(session)


def _job(session: Session, name: str) -> physical.Job:
    return lower(f"materialize.public.{name}", session.catalog.plans)


def test_rows_that_only_come_are_looked_up_one_by_one(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    session.execute(
        "CREATE SOURCE e (k int, y int) FROM FILES (PATH = 'in', GLOB = 'e*.csv') FORMAT CSV WITH HEADER;"
        "CREATE SOURCE h (k int, z int) FROM FILES (PATH = 'in', GLOB = 'h*.csv') FORMAT CSV WITH HEADER;"
        "CREATE SOURCE d (k int, w int) FROM FILES (PATH = 'in', GLOB = 'd*.csv') FORMAT CSV WITH HEADER;"
        "CREATE MATERIALIZED VIEW p AS SELECT e.k, e.y, h.z FROM e JOIN h ON e.k = h.k;"
        "CREATE INDEX ON p (y);"
        "CREATE MATERIALIZED VIEW r AS SELECT d.k, d.w, p.z FROM d JOIN p ON p.y = d.k"
    )
    sink(session, "r_", "r", "MODE APPEND")
    assert len(looking_up(_job(session, "r_"))) == 1
    given: dict[str, list[tuple[int, int]]] = {"e": [], "h": [], "d": []}
    columns = {"e": "k,y", "h": "k,z", "d": "k,w"}
    steps = [
        {"e": [(1, 1), (1, 1), (2, 1)], "d": [(1, 7), (1, 7)]},
        {"h": [(1, 5), (1, 5)]},
        {"e": [(1, 2), (1, 1)], "d": [(2, 8), (1, 9)]},
        {"h": [(2, 6)], "d": [(1, 7)]},
    ]
    for number, step in enumerate(steps):
        if number == 2:
            session.execute("DROP INDEX p_y_idx")
        for name, rows in step.items():
            given[name] += rows
            lines = "".join(f"{first},{second}\n" for first, second in rows)
            (folder / f"{name}{number}.csv").write_text(f"{columns[name]}\n{lines}")
        for job in (_job(session, "p"), _job(session, "r_")):
            session.catalog.control.acquire(job.sink_id, owner="test", takeover=True)
            loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
            loop.start(epoch=1, once=True)
            catch_up(loop)
        with duckdb.connect() as connection:
            for name, rows in given.items():
                connection.execute(f"CREATE TABLE {name} ({columns[name].replace(',', ' INTEGER, ')} INTEGER)")
                if rows:
                    connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", [list(row) for row in rows])
            query = "SELECT d.k, d.w, h.z FROM d JOIN e ON e.y = d.k JOIN h ON h.k = e.k"
            expected = Counter(connection.execute(query).fetchall())
        assert Counter(duckdb_folder(Path("lake/n/r_"), "k, w, z")) == expected, number


def test_a_sink_without_a_snapshot_keeps_its_side(session: Session) -> None:
    """The index has rows from before the sink's start, which the sink must not join."""
    session.execute(
        "CREATE SOURCE e (k int, y int) FROM FILES (PATH = 'in') FORMAT CSV WITH HEADER;"
        "CREATE SOURCE h (k int, z int) FROM FILES (PATH = 'in2') FORMAT CSV WITH HEADER;"
        "CREATE SOURCE d (k int, w int) FROM FILES (PATH = 'in3') FORMAT CSV WITH HEADER;"
        "CREATE MATERIALIZED VIEW p AS SELECT e.k, e.y, h.z FROM e JOIN h ON e.k = h.k; CREATE INDEX ON p (y);"
    )
    for name, more in (("whole", ""), ("late", ", SNAPSHOT = false")):
        session.execute(
            f"CREATE MATERIALIZED VIEW {name}_v AS SELECT d.k, d.w, p.z FROM d JOIN p ON p.y = d.k;"
            f"CREATE SINK {name} FROM {name}_v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')"
            f" MODE APPEND WITH (COMMIT INTERVAL = '5s'{more})"
        )
    assert looking_up(_job(session, "whole"))
    assert not looking_up(_job(session, "late"))


def test_a_job_has_all_that_it_commits_by(session: Session) -> None:
    """One drain is enough: the index is built with the batch that changed the view."""
    session.execute("CREATE INDEX ON v (g)")
    job = _job(session, "v")
    loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
    session.catalog.control.acquire(job.sink_id, owner="test", takeover=True)
    loop.start(epoch=1)
    assert drain(loop) == 1
    assert drain(loop) == 0
