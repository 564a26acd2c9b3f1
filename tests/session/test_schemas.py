"""Items in schemas and databases are created, used, dropped, and present in the next session."""

from __future__ import annotations

import pytest

import sinkql
from sinkql.errors import SinkqlError
from sinkql.session import Session

from .script import COUNTER, LAKE, SINK, fails

IN_SCHEMAS = f"""
CREATE SCHEMA raw;
CREATE DATABASE dev;
SET search_path = raw, public;
{COUNTER}
CREATE SECRET word AS 'w';
SET database = dev;
{LAKE}
CREATE MATERIALIZED VIEW v AS SELECT counter FROM materialize.raw.n;
{SINK.replace("FROM n", "FROM v").replace("user_activity_iceberg", "s")}
"""


def _names(session: Session) -> set[str]:
    return {entry.name for entry in session.catalog.plans.entries() if entry.id.startswith("u")}


def test_items_of_any_schema_are_there_in_the_next_session(session: Session) -> None:
    session.execute(IN_SCHEMAS)
    again = Session()
    assert again.notices == ()
    assert _names(again) == {
        "materialize.raw.",
        "dev.",
        "dev.public.",
        "materialize.raw.n",
        "materialize.raw.word",
        "dev.public.lake",
        "dev.public.v",
        "dev.public.s",
    }
    (job,) = again.jobs()
    assert ([read.source for read in job.reads()], job.write.connection.name) == (
        ["materialize.raw.n"],
        "dev.public.lake",
    )


def test_a_path_is_of_one_session(session: Session) -> None:
    session.execute(IN_SCHEMAS)
    assert fails(Session(), "SHOW CREATE SOURCE n;").hint == 'Use "raw.n", or create one with CREATE SOURCE.'
    assert session.execute("SHOW CREATE VIEW v;".replace("VIEW", "MATERIALIZED VIEW"))[0].rows[0][0] == "dev.public.v"


def test_explain_finds_items_along_the_path(session: Session) -> None:
    session.execute(IN_SCHEMAS)
    (found,) = session.execute("EXPLAIN SINK s;")
    assert any("materialize.raw.n" in row[0] for row in found.rows)
    (other,) = Session().execute("EXPLAIN SINK dev.public.s;")
    assert found == other


def test_dropping_a_schema_drops_what_others_make_of_it(session: Session) -> None:
    session.execute(IN_SCHEMAS)
    error = fails(session, "DROP SCHEMA materialize.raw;")
    assert (error.code, error.message) == ("SQ2006", 'schema "materialize.raw" is not empty')
    (dropped,) = session.execute("DROP SCHEMA materialize.raw CASCADE;")
    assert set(dropped.names) == {
        "materialize.raw.",
        "materialize.raw.n",
        "materialize.raw.word",
        "dev.public.v",
        "dev.public.s",
    }
    assert _names(Session()) == {"dev.", "dev.public.", "dev.public.lake"}


def test_database_is_dropped_with_all_that_is_in_it(session: Session) -> None:
    session.execute(IN_SCHEMAS)
    with pytest.raises(SinkqlError) as refused:
        session.execute("DROP DATABASE dev RESTRICT;")
    assert refused.value.code == "SQ2006"
    session.execute("DROP DATABASE dev;")
    assert _names(Session()) == {"materialize.raw.", "materialize.raw.n", "materialize.raw.word"}


def test_compiled_script_has_the_names_of_the_session(session: Session) -> None:
    session.execute(IN_SCHEMAS)
    sink = session.catalog.plans.entry("dev.public.s")
    assert sink is not None
    program = sinkql.compile(IN_SCHEMAS, facts={sink.name: sink.facts})
    assert {item.name for item in program.items} == _names(session)
    assert program.jobs == tuple(session.jobs())


def test_one_schema_per_name_and_database(session: Session) -> None:
    session.execute("CREATE SCHEMA a; CREATE DATABASE d; CREATE SCHEMA d.a;")
    (again,) = session.execute("CREATE SCHEMA a;")
    assert [notice.code for notice in again.notices] == ["SQ2012"]
    rows = session.execute(
        "SELECT d.name, s.name FROM mz_schemas s JOIN mz_databases d ON d.id = s.database_id ORDER BY 1, 2;"
    )[0].rows
    assert rows == (("d", "a"), ("d", "public"), ("materialize", "a"), ("materialize", "public"))


def test_clients_are_told_where_the_session_is(session: Session) -> None:
    session.execute("CREATE DATABASE d; CREATE SCHEMA d.s; CREATE TABLE d.s.t (a integer); CREATE TABLE t (a integer);")
    session.execute("CREATE TABLE d.public.t (a integer); SET database = d; SET search_path = s, public;")
    assert session.execute("SELECT current_database(), current_schema()")[0].rows == (("d", "s"),)
    visible = """SELECT d.name, n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      JOIN mz_schemas AS s ON s.oid = n.oid JOIN mz_databases AS d ON d.id = s.database_id
      WHERE c.relname = 't' AND pg_table_is_visible(c.oid)"""
    assert session.execute(visible)[0].rows == (("d", "s"),)
    session.execute("SET search_path = none")
    assert session.execute("SELECT current_schema()")[0].rows == ((None,),)


def test_cluster_with_a_dot_in_its_name_is_listed(session: Session) -> None:
    session.execute("""CREATE CLUSTER "a.b" (SIZE = 'local[1]')""")
    assert session.execute('SHOW SINKS IN CLUSTER "a.b"')[0].rows == ()


def test_whether_a_column_is_nullable_is_a_boolean(session: Session) -> None:
    session.execute("CREATE TABLE t (a integer NOT NULL, b integer)")
    assert [row[1] for row in session.execute("SHOW COLUMNS FROM t")[0].rows] == [False, True]


def test_what_is_built_in_may_be_made_if_it_is_not_there(session: Session) -> None:
    results = session.execute(
        "CREATE SCHEMA IF NOT EXISTS public; CREATE DATABASE IF NOT EXISTS materialize;"
        "CREATE CLUSTER IF NOT EXISTS quickstart (SIZE = 'local[*]');"
    )
    assert [notice.code for result in results for notice in result.notices] == ["SQ2012"] * 3


def test_a_comment_is_on_one_built_in_item_alone(session: Session) -> None:
    session.execute("COMMENT ON CLUSTER quickstart IS 'c'; COMMENT ON SCHEMA public IS 'p';")
    assert [row for row in session.execute("SHOW SCHEMAS")[0].rows if row[1]] == [("public", "p")]
