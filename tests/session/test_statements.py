"""CREATE and similar statements: stored items, errors, and their effect on other processes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from session.script import COUNTER, LAKE, NAME, PIPELINE, SINK, fails, sink_id
from sinkql import logical
from sinkql.catalog.address import address_of
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.patience import PATIENCE_S, ended
from support.started import context, start


def _change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / ".sinkql" / "catalog.db")) as connection:
        connection.execute(statement)
        connection.execute("UPDATE identity SET generation = generation + 1")
        connection.commit()


def test_catalog_is_found_by_folder_file_and_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = tmp_path / ".sinkql" / "catalog.db"
    assert [expected, expected] == [address_of(None), address_of(tmp_path)]
    assert Path("other.db") == address_of("other.db")
    assert Path("/var/c.db") == address_of("sqlite:////var/c.db")
    with pytest.raises(SinkqlError) as raised:
        address_of("mysql://host/db")
    assert raised.value.code == "SQ4113"


def test_items_are_there_again_in_a_new_session(session: Session) -> None:
    session.execute(PIPELINE)
    again = Session()
    assert session.jobs() == again.jobs()
    assert again.sinks() == (NAME,)


def test_same_item_again_is_a_notice(session: Session) -> None:
    session.execute(PIPELINE)
    results = session.execute(PIPELINE)
    assert [notice.code for result in results for notice in result.notices] == ["SQ2012"] * 3
    assert results[-1].sink == NAME


def test_another_item_of_a_name_is_an_error_that_shows_the_difference(session: Session) -> None:
    session.execute(COUNTER)
    error = fails(session, "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 20);")
    assert error.code == "SQ2014"
    assert "-  FROM LOAD GENERATOR COUNTER (UP TO = 10);" in (error.detail or "")
    assert "+  FROM LOAD GENERATOR COUNTER (UP TO = 20);" in (error.detail or "")


def test_if_not_exists_leaves_another_item_be(session: Session) -> None:
    session.execute(COUNTER)
    (result,) = session.execute("CREATE SOURCE IF NOT EXISTS n FROM LOAD GENERATOR COUNTER (UP TO 20);")
    assert [notice.code for notice in result.notices] == ["SQ2013"]
    assert "UP TO = 10" in str(session.execute("SHOW CREATE SOURCE n;")[0].rows)


def test_item_of_another_kind_is_an_error(session: Session) -> None:
    session.execute(COUNTER)
    assert fails(session, "CREATE SECRET IF NOT EXISTS n AS 'x';").code == "SQ2002"


def test_mistakes_in_the_text_come_before_the_network(session: Session) -> None:
    text = "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:1', BAD = 1);"
    assert fails(session, text).code == "SQ2101"
    reached = fails(session, text.replace(", BAD = 1", ""))
    assert reached.span is not None
    assert reached.code.startswith("SQ42")
    assert text[reached.span.start : reached.span.end] == "URL = 'http://127.0.0.1:1'"


def test_validation_can_be_left_out(session: Session) -> None:
    text = "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:1')"
    session.execute(f"{text} WITH (VALIDATE = false);")
    session.execute("DROP CONNECTION c; ALTER SYSTEM SET enable_default_connection_validation = false;")
    session.execute(f"{text};")


def test_statements_before_a_failing_one_stay(session: Session) -> None:
    assert fails(session, COUNTER + "CREATE SOURCE m FROM LOAD GENERATOR COUNTER (UP = 1);").code == "SQ2101"
    assert [row[:1] for row in session.execute("SHOW SOURCES")[0].rows] == [("n",)]


def test_nothing_runs_if_the_text_does_not_parse(session: Session) -> None:
    assert fails(session, COUNTER + "CREATE SOUP;").code.startswith("SQ1")
    assert session.execute("SHOW SOURCES")[0].rows == ()


def test_results_come_as_statements_are_done(session: Session) -> None:
    results = session.stream(COUNTER + "CREATE SINK s FROM nothing INTO ICEBERG CATALOG CONNECTION c MODE APPEND;")
    assert next(results).tag == "CREATE SOURCE"
    with pytest.raises(SinkqlError):
        next(results)


def test_view_is_replaced_under_those_that_read_it(session: Session) -> None:
    session.execute(COUNTER + "CREATE MATERIALIZED VIEW v AS SELECT counter AS a FROM n;")
    session.execute("CREATE VIEW w AS SELECT a FROM v;")
    (before,) = session.execute("SELECT id FROM mz_materialized_views")[0].rows
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT counter AS b, 'x' AS a FROM n;")
    (after,) = session.execute("SELECT id FROM mz_materialized_views")[0].rows
    assert before == after
    assert session.execute("SELECT type FROM mz_columns WHERE name = 'a'")[0].rows == (("text",), ("text",))
    error = fails(session, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT counter AS c FROM n;")
    assert (error.code, error.detail) == ("SQ2016", 'view "w": column "a" does not exist')
    (same,) = session.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT counter AS b, 'x' AS a FROM n;")
    assert [notice.code for notice in same.notices] == ["SQ2012"]


def test_failed_replacement_leaves_the_old_view(session: Session) -> None:
    session.execute(COUNTER + "CREATE MATERIALIZED VIEW v AS SELECT counter AS a FROM n;")
    assert fails(session, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT nope FROM n;").code.startswith("SQ22")
    session.execute("CREATE VIEW w AS SELECT a FROM v;")
    assert Session().notices == ()


def test_ids_are_not_used_again(session: Session) -> None:
    session.execute(COUNTER + "DROP SOURCE n;" + COUNTER)
    assert session.execute("SELECT id FROM mz_sources")[0].rows == (("u2",),)


def test_sink_dropped_and_created_again_is_another_sink(session: Session) -> None:
    session.execute(PIPELINE)
    first = sink_id(session)
    session.execute("DROP SINK user_activity_iceberg;" + SINK)
    assert first != sink_id(session)


def test_sessions_see_each_others_items(session: Session) -> None:
    other = Session()
    session.execute(COUNTER)
    assert other.execute(COUNTER)[0].notices[0].code == "SQ2012"
    other.execute("DROP SOURCE n;")
    assert fails(session, "DROP SOURCE n;").code == "SQ2001"


def test_what_another_process_does_while_a_statement_asks_the_network_counts(folder: Path) -> None:
    other = Session()
    registry = discover()
    kind = registry.connections["ICEBERG CATALOG"]

    def meanwhile(connection: logical.Connection, access: OutsideAccess) -> None:
        other.execute(LAKE)

    registry.connections["ICEBERG CATALOG"] = replace(kind, validate=meanwhile)
    (result,) = Session(registry=registry).execute(LAKE)
    assert [notice.code for notice in result.notices] == ["SQ2012"]
    assert [row[0] for row in other.execute("SELECT id FROM mz_connections")[0].rows] == ["u1"]


def _create_many(folder: Path, name: str, barrier: multiprocessing.synchronize.Barrier) -> None:
    session = Session(folder)
    barrier.wait()
    for number in range(5):
        session.execute(f"CREATE SOURCE {name}{number} FROM LOAD GENERATOR COUNTER; " + COUNTER)


@pytest.mark.long
def test_processes_that_create_at_once_lose_nothing(folder: Path) -> None:
    barrier = context().Barrier(4, timeout=PATIENCE_S)
    processes = [start(_create_many, folder, name, barrier) for name in "abcd"]
    assert ended(*processes) == [0] * 4
    ids = [row[0] for row in Session(folder).execute("SELECT id FROM mz_sources ORDER BY id")[0].rows]
    assert sorted(f"u{number}" for number in range(1, 22)) == ids


def test_item_that_plans_no_more_can_be_dropped_and_the_rest_used(session: Session, folder: Path) -> None:
    session.execute(PIPELINE)
    _change(folder, "UPDATE items SET create_sql = replace(create_sql, 'UP TO', 'UP UP') WHERE name = 'n'")
    broken = Session()
    assert [notice.code for notice in broken.notices] == ["SQ2101", "SQ2001"]
    assert [row[:1] for row in broken.execute("SHOW CONNECTIONS")[0].rows] == [("lake",)]
    assert "UP UP" in str(broken.execute("SHOW CREATE SOURCE n")[0].rows)
    broken.execute("DROP SOURCE n CASCADE;" + COUNTER)
    assert broken.notices == ()


def test_item_whose_text_is_not_sql_is_an_error(session: Session, folder: Path) -> None:
    session.execute(COUNTER)
    _change(folder, "UPDATE items SET create_sql = 'DROP SOURCE n;'")
    with Session() as other, pytest.raises(SinkqlError) as raised:
        other.execute("SHOW CREATE SOURCE n;")
    assert raised.value.code == "SQ4106"


def test_iceberg_sinks_can_be_switched_off(session: Session) -> None:
    session.execute(LAKE + COUNTER + "ALTER SYSTEM SET enable_iceberg_sink = false;")
    assert fails(session, SINK).code.startswith("SQ2")
    session.execute("ALTER SYSTEM SET enable_iceberg_sink = true;" + SINK)


def test_every_stage_is_explained(session: Session) -> None:
    session.execute(PIPELINE + "CREATE MATERIALIZED VIEW m AS SELECT counter + 1 AS c FROM n;")
    for stage in ("RAW PLAN", "OPTIMIZED PLAN", "PHYSICAL PLAN", "SPARK SQL"):
        for output in ("TEXT", "JSON"):
            (result,) = session.execute(f"EXPLAIN {stage} AS {output} FOR SINK user_activity_iceberg;")
            assert result.rows != ()
    assert "Job" in str(session.execute("EXPLAIN SINK user_activity_iceberg")[0].rows[0])
    first = {
        "EXPLAIN MATERIALIZED VIEW m": "Map",
        "EXPLAIN OPTIMIZED PLAN FOR MATERIALIZED VIEW m": "View materialize.public.m",
        "EXPLAIN RAW PLAN FOR MATERIALIZED VIEW m": "CreateView",
        "EXPLAIN SELECT counter FROM n": "Read LOAD GENERATOR COUNTER: materialize.public.n",
        "EXPLAIN OPTIMIZED PLAN FOR SELECT counter FROM n": "View materialize.public.explained_query",
        "EXPLAIN SPARK SQL FOR SOURCE n": "-- Read LOAD GENERATOR COUNTER: materialize.public.n",
    }
    assert first == {text: session.execute(text)[0].rows[0][0] for text in first}
    new = SINK.replace("user_activity_iceberg", "other")
    assert "Job" in str(session.execute(f"EXPLAIN {new}")[0].rows[0])
    assert fails(session, "SHOW CREATE SINK other").code == "SQ2001"


def test_errors_name_file_line_and_column(session: Session) -> None:
    error = fails(session, "SHOW SINKS;\n\nDROP SINK nope;")
    assert error.shown().startswith('script.sql:3:11: error[SQ2001]: sink "nope" does not exist\n3 | DROP SINK nope;')


def test_status_and_stop(session: Session) -> None:
    session.execute(PIPELINE)
    assert session.stop("user_activity_iceberg") == (NAME,)
    columns, rows = session.status(["user_activity_iceberg"])
    assert [row[:3] for row in rows] == [("user_activity_iceberg", "created", "stopped")]
    assert columns[:3] == ("name", "status", "desired")
    with pytest.raises(SinkqlError) as raised:
        session.status(["nope"])
    assert raised.value.code == "SQ2001"
