"""`sinkql doctor` over a Postgres server: the problems that it finds, and the statements that fix them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.cli.main import run_command
from sinkql.connectors.postgres.slot import BOUND_HINT
from sinkql.planner.name import as_name
from sinkql.session import Session
from support.postgres import Postgres
from support.postgres import postgres as new_server

pytestmark = pytest.mark.server

Doctor = Callable[..., dict[str, dict[str, Any]]]
_LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"


def _connection(server: Postgres, database: str, user: str = "postgres") -> str:
    place = f"HOST '127.0.0.1', PORT {server.port}, DATABASE '{database}', USER {user}"
    return f"CREATE CONNECTION pg TO POSTGRES ({place}) WITH (VALIDATE = false);"


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    monkeypatch.chdir(tmp_path)

    def run(script: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the checks of the connection `pg` by name, after comparing them with the exit code."""
        given = []
        if script is not None:
            Path("script.sql").write_text(script)
            given = ["-f", "script.sql"]
        capsys.readouterr()
        code = run_command(["doctor", *given, "--output", "json"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert code == (4 if any(each["state"] == "wrong" for each in found) else 0)
        return {each["name"].removeprefix("pg: "): each for each in found}

    return run


def _fixes(server: Postgres, database: str, check: dict[str, Any]) -> None:
    """Run the statement that a check suggests."""
    server.execute(check["fix"].partition("Run ")[2].partition(" on the server")[0], database)


def test_a_server_that_lacks_all_is_told_what_to_do(doctor: Doctor) -> None:
    with new_server({"wal_level": "replica", "max_replication_slots": "0", "max_wal_senders": "0"}) as server:
        server.execute("CREATE ROLE reader LOGIN")
        found = doctor(_connection(server, "postgres", "reader"))
    states = {name: check["state"] for name, check in found.items()}
    assert states == {
        "version": "ok", "wal_level": "wrong", "max_replication_slots": "wrong", "max_wal_senders": "wrong",
        "max_slot_wal_keep_size": "warning", "encryption": "ok", "replication": "wrong", "publication": "warning",
    }  # fmt: skip
    assert "SET wal_level = 'logical'" in found["wal_level"]["fix"]
    assert "max_wal_senders" in found["replication"]["fix"]


def test_tables_are_mended_as_it_says(doctor: Doctor, postgres: Postgres, postgres_database: str) -> None:
    postgres.execute(
        "CREATE TABLE good (id int PRIMARY KEY); CREATE TABLE keyless (n int); CREATE TABLE unread (n int); "
        "CREATE TABLE other (id int PRIMARY KEY); "
        "CREATE PUBLICATION p FOR TABLE good, keyless, unread WITH (publish = 'insert')",
        postgres_database,
    )
    source = (
        "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (good, keyless);"
        "CREATE TABLE o FROM SOURCE s (REFERENCE public.other);"
    )
    script = _connection(postgres, postgres_database) + source
    found = doctor(script)
    assert found["publication p"]["state"] == "wrong"
    _fixes(postgres, postgres_database, found["publication p"])
    found = doctor(script)
    states = {name: check["state"] for name, check in found.items() if name.startswith(("table", "publication"))}
    assert states == {
        "publication p": "ok", "table public.good": "ok", "table public.keyless": "wrong",
        "table public.unread": "warning", "table public.other": "wrong",
    }  # fmt: skip
    for name in ("table public.keyless", "table public.other"):
        _fixes(postgres, postgres_database, found[name])
    assert {check["state"] for name, check in doctor(script).items() if "unread" not in name} <= {"ok", "warning"}


def test_a_user_is_told_which_privileges_are_missing(
    doctor: Doctor, postgres: Postgres, postgres_database: str
) -> None:
    postgres.execute(
        "CREATE ROLE poor LOGIN; CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR ALL TABLES",
        postgres_database,
    )
    script = _connection(postgres, postgres_database, "poor")
    script += "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;"
    found = doctor(script)
    assert {name for name, check in found.items() if check["state"] == "wrong"} == {"replication", "table public.t"}
    assert "ALTER ROLE name REPLICATION" in found["replication"]["fix"]
    assert "GRANT SELECT ON TABLE public.t TO name;" in found["table public.t"]["fix"]
    postgres.execute("ALTER ROLE poor REPLICATION; GRANT SELECT ON t TO poor", postgres_database)
    assert {check["state"] for check in doctor(script).values()} <= {"ok", "warning"}
    postgres.execute("DROP OWNED BY poor; DROP ROLE poor", postgres_database)


def test_no_server_is_one_finding(doctor: Doctor) -> None:
    script = "CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT 1, DATABASE d, USER u);"
    (found,) = doctor(script).values()
    assert (found["name"], found["state"]) == ("pg", "wrong")
    assert "nothing listens on port 1" in found["found"]


@pytest.fixture
def captured(postgres: Postgres, postgres_database: str, tmp_path: Path, doctor: Doctor) -> Iterator[Session]:
    """Yield a session whose sink has read a table through a slot."""
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR ALL TABLES", postgres_database)
    with Session() as session:
        session.execute(_connection(postgres, postgres_database) + _LAKE)
        session.execute(
            "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;"
            "CREATE SINKS FOR ALL TABLES OF SOURCE s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n') "
            "WITH (COMMIT INTERVAL = '1s');"
        )
        with capturing(session):
            catch_up(session)
        yield session


def test_slots_are_those_of_sources_or_nobodys(
    captured: Session, doctor: Doctor, postgres: Postgres, postgres_database: str
) -> None:
    found = doctor()
    assert (found["slot of s"]["state"], "no process reads it now" in found["slot of s"]["found"]) == ("ok", True)
    assert (found["lake"]["state"], found["lake"]["found"]) == ("ok", "it answers")
    postgres.execute("SELECT pg_create_logical_replication_slot('sinkql_gone', 'pgoutput')", postgres_database)
    orphan = doctor()["slot sinkql_gone"]
    assert orphan["state"] == "warning"
    statement = orphan["fix"].partition("run ")[2].partition(" on the server")[0]
    postgres.execute(statement, postgres_database)
    assert {name for name in doctor() if name.startswith("slot")} == {"slot of s"}


def test_a_log_that_sinks_leave_behind_is_told_and_one_of_nobody(captured: Session, doctor: Doctor) -> None:
    assert doctor()["s: log"]["state"] == "ok"
    (place,) = (captured.catalog.database.folder / "capture").iterdir()
    for size, why in ((1, "exceeded MAX RETAINED WAL"), (19 << 30, "when the log is full")):
        figures = {"kept_by": "log", "log_bytes": size, "retained_bytes": 5}
        captured.catalog.control.measured(place.name, {"": figures})
        found = doctor()["s: log"]
        assert found["state"] == "warning"
        assert why in found["found"]
    (place.parent / "another").mkdir()
    assert {name for name in doctor() if name.startswith("log ")} == {"log another"}


def test_a_slot_that_has_lost_changes_is_wrong(doctor: Doctor, tmp_path: Path) -> None:
    small = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "2MB", "min_wal_size": "2MB"}
    with new_server(small) as server:
        server.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR ALL TABLES")
        with Session() as session:
            session.execute(_connection(server, "postgres"))
            session.execute("CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;")
            source_id = session.catalog.plans.facts(session.catalog.plans.resolve(as_name("s")))["source_id"]
        slot = "sinkql_" + source_id.replace("-", "_")
        server.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        while not server.execute("SELECT 1 FROM pg_replication_slots WHERE wal_status = 'lost'"):
            server.execute("SELECT pg_switch_wal(); INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t")
            server.execute("CHECKPOINT")
        found = doctor()["slot of s"]
    assert (found["state"], found["found"]) == ("wrong", "the server has removed unread changes")
    raising, _, skipping = found["fix"].partition(" Then ")
    assert raising == BOUND_HINT
    assert skipping.startswith("run ALTER SOURCE s SKIP.")
