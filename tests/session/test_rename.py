"""Jobs of renamed items continue with the same plan and offsets, even if another item takes the old name."""

from __future__ import annotations

import pytest

import sinkql
from sinkql import physical
from sinkql.session import Session

from .script import COUNTER, PIPELINE, fails


@pytest.mark.parametrize(
    "text",
    [
        "ALTER SOURCE n RENAME TO m;",
        "ALTER CONNECTION lake RENAME TO sea;",
        "ALTER SINK user_activity_iceberg RENAME TO s;",
        "CREATE SCHEMA a; ALTER SOURCE n RENAME TO b; ALTER SOURCE b RENAME TO n;",
        "CREATE CLUSTER c (SIZE = 'local[1]'); ALTER SINK user_activity_iceberg SET CLUSTER c;"
        "ALTER CLUSTER c RENAME TO d;",
    ],
)
def test_job_of_renamed_items_has_the_same_plan_and_sources(session: Session, text: str) -> None:
    session.execute(PIPELINE)
    (before,) = session.jobs()
    session.execute(text)
    (after,) = Session().jobs()
    assert (before.plan, before.sink_id) == (after.plan, after.sink_id)
    assert [read.source for read in before.reads()] == [read.source for read in after.reads()]


def test_plan_is_that_of_the_views_whatever_they_are_called(session: Session) -> None:
    session.execute(COUNTER + "CREATE VIEW v AS SELECT n.counter + 1 AS a FROM n;" + PIPELINE)
    session.execute("CREATE MATERIALIZED VIEW m AS SELECT v.a % 3 AS b, count(*) AS c FROM v GROUP BY 1;")
    session.execute(
        "CREATE SINK s FROM m INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 'b') KEY (b) MODE UPSERT"
        " WITH (COMMIT INTERVAL = '2s');"
    )
    (before,) = session.jobs(["s"])
    session.execute("ALTER VIEW v RENAME TO with_a_longer_name; ALTER MATERIALIZED VIEW m RENAME TO groups;")
    (after,) = session.jobs(["s"])
    assert before.plan == after.plan
    assert before.write != after.write


def test_source_that_takes_an_old_name_is_another_one(session: Session) -> None:
    session.execute(PIPELINE + "ALTER SOURCE n RENAME TO m;" + COUNTER)
    session.execute("CREATE MATERIALIZED VIEW both_ AS SELECT counter FROM m UNION ALL SELECT counter FROM n;")
    session.execute(
        "CREATE SINK s2 FROM both_ INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 'b') ENVELOPE NONE"
        " WITH (COMMIT INTERVAL = '2s');"
    )
    (job,) = Session().jobs(["s2"])
    assert [(read.source, read.name) for read in job.reads()] == [
        ("materialize.public.n", "materialize.public.m"),
        ("materialize.public.n#2", "materialize.public.n"),
    ]
    session.execute("ALTER SOURCE n RENAME TO k; ALTER SOURCE m RENAME TO n;")
    (again,) = Session().jobs(["s2"])
    assert [read.source for read in again.reads()] == [read.source for read in job.reads()]
    assert again.plan == job.plan


def test_secret_opens_under_its_new_name(session: Session) -> None:
    session.execute("CREATE SECRET a AS 'x'; ALTER SECRET a RENAME TO b; CREATE SECRET a AS 'y';")
    catalog = Session().catalog
    values = [catalog.secret(f"materialize.public.{name}").reveal() for name in ("a", "b")]
    assert values == ["y", "x"]


def test_compiled_script_renames_as_a_session_does(session: Session) -> None:
    text = PIPELINE + "ALTER SOURCE n RENAME TO m; COMMENT ON SOURCE m IS 'x'; ALTER SOURCE m OWNER TO ann;" + COUNTER
    session.execute(text)
    (job,) = session.jobs()
    (compiled,) = sinkql.compile(text, facts={job.sink: {"sink_id": job.sink_id}}).jobs
    assert compiled.plan == job.plan
    assert [read.source for read in compiled.reads()] == ["materialize.public.n"]


def test_comments_and_owners_follow_their_items(session: Session) -> None:
    session.execute(COUNTER + "COMMENT ON SOURCE n IS 'counts'; COMMENT ON COLUMN n.counter IS 'one'; ")
    session.execute("ALTER SOURCE n OWNER TO ann; ALTER SOURCE n RENAME TO m;")
    query = "SELECT object_sub_id, comment FROM mz_internal.mz_comments ORDER BY 2"
    assert session.execute(query)[0].rows == ((None, "counts"), (1, "one"))
    session.execute("DROP SOURCE m;")
    assert session.execute(query)[0].rows == ()


def test_sink_continues_with_a_new_query_of_its_view(session: Session) -> None:
    session.execute(PIPELINE + "CREATE MATERIALIZED VIEW v AS SELECT counter FROM n; ")
    session.execute(
        "CREATE SINK s FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 'b') ENVELOPE NONE"
        " WITH (COMMIT INTERVAL = '2s');"
    )
    (before,) = session.jobs(["s"])
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT counter FROM n WHERE counter > 3;")
    (after,) = Session().jobs(["s"])
    assert before.plan != after.plan
    assert after.follows == (physical.Earlier(before.plan),)
    error = fails(session, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT counter::text FROM n;")
    message = 'sink "s" does not support this change: column "counter" changes from bigint to text'
    assert (error.code, error.message) == ("SQ2985", message)
    assert Session().jobs(["s"]) == [after]


def test_comments_follow_the_columns_of_a_replaced_view(session: Session) -> None:
    session.execute("CREATE TABLE t (a integer, b integer); CREATE VIEW v AS SELECT a, b FROM t;")
    session.execute("COMMENT ON COLUMN v.a IS 'of a'; COMMENT ON COLUMN v.b IS 'of b';")
    session.execute("CREATE OR REPLACE VIEW v AS SELECT a + 1 AS c, a FROM t")
    assert [(row[0], row[-1]) for row in session.execute("SHOW COLUMNS FROM v")[0].rows] == [("c", ""), ("a", "of a")]
    assert session.execute("SELECT count(*) FROM mz_internal.mz_comments")[0].rows == ((1,),)
