"""BEGIN, COMMIT and ROLLBACK around DDL: all or nothing, and invisible to other sessions before the commit."""

from __future__ import annotations

import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import sinkql
from sinkql.errors import SinkqlError
from sinkql.printer import to_sql
from sinkql.session import Session

from .script import COUNTER, LAKE, NAME, PIPELINE, fails, sink_id


def _names(session: Session) -> list[str]:
    return sorted(entry.name.rpartition(".")[2] for entry in session.catalog.plans.entries() if entry.id[0] == "u")


def test_nobody_else_sees_a_transaction_before_its_end(session: Session) -> None:
    other = Session()
    session.execute(f"BEGIN; {COUNTER} CREATE VIEW v AS SELECT counter FROM n; ALTER SOURCE n RENAME TO m;")
    assert session.execute("SELECT name FROM mz_sources")[0].rows == (("m",),)
    assert other.execute("SELECT name FROM mz_objects WHERE id LIKE 'u%'")[0].rows == ()
    session.execute("COMMIT;")
    assert other.execute("SELECT name FROM mz_sources")[0].rows == (("m",),)
    assert _names(session) == _names(Session()) == ["m", "v"]


def test_open_transaction_keeps_nobody_from_writing(session: Session) -> None:
    session.execute(f"BEGIN; {COUNTER}")
    Session().execute("CREATE SECRET s AS 'x'; CREATE SCHEMA a;")
    session.execute("COMMIT;")
    assert _names(Session()) == ["", "n", "s"]


def test_rollback_forgets_all_of_it(session: Session) -> None:
    session.execute(COUNTER)
    before = sqlite_dump(session)
    session.execute("BEGIN; DROP SOURCE n; CREATE SECRET s AS 'x'; SET cluster = c; COMMENT ON SCHEMA public IS 'x';")
    assert _names(session) == ["s"]
    session.execute("ROLLBACK;")
    assert (before, ["n"]) == (sqlite_dump(session), _names(session))
    assert session.execute("SHOW cluster")[0].rows == (("quickstart",),)


def sqlite_dump(session: Session) -> list[str]:
    with closing(sqlite3.connect(session.catalog.database.folder / "catalog.db")) as connection:
        return list(connection.iterdump())


def test_failed_transaction_runs_nothing_until_its_end(session: Session) -> None:
    fails(session, f"BEGIN; {COUNTER} CREATE VIEW v AS SELECT no FROM n;")
    assert fails(session, "SHOW VIEWS;").code == "SQ2650"
    (done,) = session.execute("COMMIT;")
    assert (done.tag, [notice.code for notice in done.notices]) == ("ROLLBACK", ["SQ2653"])
    assert _names(session) == []
    session.execute(COUNTER)


def test_settings_and_secrets_of_a_transaction_are_kept_with_it(session: Session) -> None:
    session.execute("BEGIN; CREATE SECRET s AS 'old'; ALTER SECRET s AS 'new'; CREATE SCHEMA a; SET search_path = a;")
    session.execute("ALTER SYSTEM SET enable_iceberg_sink = false; COMMIT;")
    assert session.catalog.secret("materialize.public.s").reveal() == "new"
    assert session.execute("SHOW search_path")[0].rows == (("a",),)
    assert Session().execute("SHOW enable_iceberg_sink")[0].rows == (("false",),)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("CREATE VIEW w AS SELECT counter FROM n;", "CREATE SECRET w AS 'x';"),
        ("CREATE VIEW w AS SELECT counter FROM n;", "DROP VIEW v; DROP SOURCE n;"),
        ("DROP VIEW v;", "DROP VIEW v;"),
        ("DROP VIEW v;", "CREATE VIEW w AS SELECT counter FROM v;"),
        ("ALTER VIEW v RENAME TO a;", "ALTER VIEW v RENAME TO b;"),
        (
            "CREATE OR REPLACE VIEW v AS SELECT 1 AS counter FROM n;",
            "CREATE OR REPLACE VIEW v AS SELECT 2 AS c FROM n;",
        ),
    ],
)
def test_who_changes_the_same_items_first_wins(session: Session, mine: str, theirs: str) -> None:
    session.execute(COUNTER + "CREATE VIEW v AS SELECT counter FROM n;")
    session.execute(f"BEGIN; CREATE SECRET other AS 'x'; {mine}")
    Session().execute(theirs)
    before = sqlite_dump(session)
    assert fails(session, "COMMIT;").code == "SQ5210"
    assert before == sqlite_dump(session)
    session.execute("CREATE SECRET other AS 'y';")


def test_transactions_over_other_items_are_both_kept(session: Session) -> None:
    session.execute(COUNTER)
    session.execute("BEGIN; CREATE VIEW a AS SELECT counter FROM n; CREATE OR REPLACE VIEW a AS SELECT 1 AS x FROM n;")
    other = Session()
    other.execute("BEGIN; CREATE VIEW b AS SELECT counter FROM n; ALTER VIEW b RENAME TO c; COMMIT;")
    session.execute("COMMIT;")
    assert _names(Session()) == ["a", "c", "n"]
    assert Session().notices == ()


def test_sinks_of_a_transaction_are_there_to_run_after_it(session: Session) -> None:
    session.execute("BEGIN;" + PIPELINE)
    assert session.sinks() == ()
    session.execute("COMMIT;")
    assert session.sinks() == (NAME,)
    assert session.catalog.control.desired(sink_id(session)) == "running"


def test_dropped_sinks_are_stopped_at_the_end_alone(session: Session) -> None:
    session.execute(PIPELINE)
    control, sink = session.catalog.control, sink_id(session)
    session.context(session.jobs()[0])
    folder = session.catalog.database.folder / "sinks" / sink
    session.execute("BEGIN; DROP SINK user_activity_iceberg;")
    assert (control.desired(sink), folder.is_dir()) == ("running", True)
    session.execute("COMMIT;")
    assert (control.desired(sink), folder.is_dir()) == ("dropped", False)


def test_sink_that_does_not_stop_keeps_all_as_it_was(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute(PIPELINE)
    control, sink = session.catalog.control, sink_id(session)
    control.acquire(sink, owner="runner", takeover=False)
    monkeypatch.setattr("sinkql.session.item.drop._stop_sinks", _never)
    session.execute("BEGIN; CREATE SECRET s AS 'x'; DROP SINK user_activity_iceberg;")
    assert fails(session, "COMMIT;").code == "SQ5204"
    assert control.desired(sink) == "running"
    assert _names(Session()) == sorted(["lake", "n", "user_activity_iceberg"])


def _never(*given: object, **named: object) -> None:
    raise SinkqlError("SQ5204", "it does not stop")


def test_rolled_back_tables_leave_no_files(session: Session) -> None:
    session.execute("CREATE TABLE kept (a int);")
    folder = session.catalog.database.folder / "tables"
    before = set(folder.iterdir())
    session.execute("BEGIN; ALTER TABLE kept RENAME TO k; CREATE TABLE t (a int); ROLLBACK;")
    assert before == set(folder.iterdir())
    session.execute("BEGIN; DROP TABLE kept; COMMIT;")
    assert not any(folder.glob("*.db"))


def test_script_that_ends_in_a_transaction_keeps_nothing(session: Session) -> None:
    session.execute(f"BEGIN; {COUNTER}")
    with pytest.raises(SinkqlError) as ended:
        session.end_script()
    assert ended.value.code == "SQ2655"
    assert _names(session) == []
    with pytest.raises(SinkqlError) as compiled:
        sinkql.compile(f"BEGIN; {COUNTER}")
    assert compiled.value.code == "SQ2655"


def test_compiled_transactions_are_as_in_a_session() -> None:
    text = f"{LAKE} BEGIN; {COUNTER} ROLLBACK; BEGIN; {COUNTER} ALTER SOURCE n RENAME TO m; COMMIT; ROLLBACK;"
    program = sinkql.compile(text)
    assert [item.name.rpartition(".")[2] for item in program.items] == ["lake", "m"]
    assert [notice.code for notice in program.notices][-1] == "SQ2652"


def test_killed_between_stopping_sinks_and_the_commit_the_sinks_run_on(folder: Path) -> None:
    session = Session()
    session.execute(PIPELINE)
    sink = sink_id(session)
    control = session.catalog.control
    control.set_desired(sink, "dropped")
    content = {"sinks": {NAME: sink}, "tables": [], "captured": [], "wishes": {sink: "running"}}
    with closing(sqlite3.connect(session.catalog.database.folder / "catalog.db")) as connection, connection:
        connection.execute(
            "INSERT INTO journal (intent, content, host, pid, process, started_at) VALUES ('commit', ?, ?, 1, 'x', '')",
            (json.dumps(content), socket.gethostname()),
        )
    Session()
    assert control.desired(sink) == "running"


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_table_made_and_dropped_in_one_transaction_leaves_no_file(session: Session, end: str) -> None:
    session.execute(f"CREATE TABLE kept (a integer); BEGIN; CREATE TABLE t (a integer); DROP TABLE t; {end};")
    folder = session.catalog.database.folder / "tables"
    assert len(list(folder.glob("*.db"))) == 1
    assert session.execute("SELECT * FROM kept")[0].rows == ()


def test_secret_rotated_in_a_transaction_is_read_again_after_it(session: Session) -> None:
    session.execute("CREATE SECRET s AS env_var('ONE'); BEGIN; ALTER SECRET s AS env_var('TWO'); COMMIT;")
    session.execute("SHOW SECRETS")
    entry = session.catalog.plans.entry("materialize.public.s")
    assert entry is not None
    assert "TWO" in to_sql(entry.statement)
