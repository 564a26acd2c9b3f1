"""`sinkql init --from postgres://…`: the script runs, and its tables have the server's rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.cli.main import run_command
from sinkql.session import Session
from support.postgres import Postgres
from support.postgres import postgres as new_server
from support.readers import duckdb_folder

pytestmark = pytest.mark.server

_PASSWORD = "it's a / secret"


@pytest.fixture
def address(
    postgres: Postgres, postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield the address of a database, for a user whose password is in PGPASSWORD."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", _PASSWORD)
    postgres.execute(
        "CREATE TABLE users (id int PRIMARY KEY, name text, seen tsvector); INSERT INTO users VALUES (1, 'Ada', 'a b');"
        'CREATE SCHEMA other; CREATE TABLE other.users (code text PRIMARY KEY, "Order" numeric(10, 2));'
        "INSERT INTO other.users VALUES ('x', 1.5);"
        "CREATE TABLE log (line text); ALTER TABLE log REPLICA IDENTITY FULL; INSERT INTO log VALUES ('a'), ('a');"
        "CREATE TABLE keyless (n int); CREATE TABLE forgotten (id int PRIMARY KEY);"
        "CREATE PUBLICATION small FOR TABLE users;"
        "CREATE PUBLICATION shop FOR TABLE users, other.users, log, keyless;"
        f"CREATE ROLE {postgres_database}_reader LOGIN REPLICATION; "
        f"GRANT pg_read_all_data TO {postgres_database}_reader",
        postgres_database,
    )
    yield f"postgres://{postgres_database}_reader@127.0.0.1:{postgres.port}/{postgres_database}"
    reader = f"{postgres_database}_reader"
    postgres.execute(f"DROP OWNED BY {reader}; DROP ROLE {reader}", postgres_database)


def test_the_script_runs_and_its_tables_are_those_of_the_server(
    address: str, postgres_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["init", "--from", address]) == 0
    script = Path("pipeline.sql").read_text()
    assert _PASSWORD not in script
    assert "AS env_var('PGPASSWORD')" in script
    assert "-- Other publications of the database: small.\n" in script
    assert "-- ALTER PUBLICATION shop ADD TABLE public.forgotten;\n" in script
    assert '-- public.keyless is left out: table "public.keyless" has no primary key' in script
    assert "-- Run ALTER TABLE public.keyless REPLICA IDENTITY FULL; on the server" in script
    with Session() as session:
        session.execute(script)
        with capturing(session):
            catch_up(session)
    tables = Path("lake") / postgres_database
    assert duckdb_folder(tables / "users") == [(1, "Ada", "'a' 'b'")]
    assert duckdb_folder(tables / "other_users") == [("x", Decimal("1.50"))]
    assert duckdb_folder(tables / "log", "line, _mz_diff") == [("a", 2)]
    assert run_command(["init", "--from", address]) == 4
    assert "SQ4041" in capsys.readouterr().err
    assert Path("pipeline.sql").read_text() == script


def test_some_tables_are_named(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", "--from", address, "log", "-o", "-"]) == 0
    printed = capsys.readouterr().out
    assert ("FROM log" in printed, "users" in printed.replace("other.users", "")) == (True, False)
    assert run_command(["init", "--from", address, "public.lgo", "-o", "-"]) == 4
    assert "Did you mean public.log?" in capsys.readouterr().err


def test_a_publication_that_is_missing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with new_server({"wal_level": "minimal", "max_wal_senders": "0"}) as server:
        server.execute(
            "CREATE TABLE t (id int); INSERT INTO t VALUES (7); CREATE ROLE reader LOGIN;GRANT SELECT ON t TO reader"
        )
        address = f"postgres://reader@127.0.0.1:{server.port}/postgres"
        assert run_command(["init", "--from", address]) == 1
        assert "wal_level" in capsys.readouterr().err
        assert run_command(["preview", "--from", address, "t", "--output", "json"]) == 0
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"id": 7}]
    with new_server() as server:
        address = f"postgres://postgres@127.0.0.1:{server.port}/postgres"
        assert run_command(["init", "--from", address]) == 1
        statement = "CREATE PUBLICATION sinkql FOR ALL TABLES WITH (publish_via_partition_root = true);"
        assert statement in capsys.readouterr().err
        server.execute(
            f"CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); {statement};"
            "CREATE ROLE reader LOGIN REPLICATION"
        )
        assert run_command(["init", "--from", address.replace("postgres@", "reader@")]) == 1
        told = capsys.readouterr().err
        assert ("cannot be read" in told, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO" in told) == (True, True)
        assert not Path("pipeline.sql").exists()
        assert run_command(["init", "--from", address]) == 0
        assert "REFERENCE = public.t" in Path("pipeline.sql").read_text()
        server.execute(
            "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);"
            "CREATE TABLE part PARTITION OF parted DEFAULT;"
            "ALTER PUBLICATION sinkql SET (publish_via_partition_root = false)"
        )
        capsys.readouterr()
        assert run_command(["init", "--from", address, "-o", "-"]) == 0
    printed = capsys.readouterr().out
    assert "-- The publication has each partition of public.parted as a separate table.\n" in printed
    assert "-- ALTER PUBLICATION sinkql SET (publish_via_partition_root = true);\n" in printed


def test_a_password_that_is_wrong_or_missing_is_told_in_the_words_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with new_server() as server:
        server.execute(
            "CREATE ROLE ann LOGIN PASSWORD 'p@ss/w:rd#1'; CREATE TABLE t (id int); GRANT SELECT ON t TO ann"
        )
        (server.data / "pg_hba.conf").write_text(
            "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        server.execute("SELECT pg_reload_conf()")
        place = f"127.0.0.1:{server.port}/postgres"
        for command in (["init"], ["preview", "t"]):
            assert run_command([*command, "--from", f"postgres://ann@{place}"]) == 4
            told = capsys.readouterr().err
            assert ("hint: Set PGPASSWORD to the user's password.\n" in told, "CREATE" in told) == (True, False)
        assert run_command(["doctor", "--from", f"postgres://ann@{place}"]) == 4
        assert "Set PGPASSWORD to the user's password." in capsys.readouterr().out
        assert run_command(["init", "--from", f"postgres://ann:p@ss/w:rd#1@{place}"]) == 4
        told = capsys.readouterr().err
        assert ("write @ : / # ? % as %40 %3A %2F %23 %3F %25" in told, "rd#1" in told) == (True, False)
        assert run_command(["preview", "t", "--from", f"postgres://ann:p%40ss%2Fw%3Ard%231@{place}"]) == 0
        monkeypatch.setenv("PGPASSWORD", "wrong")
        assert run_command(["preview", "t", "--from", f"postgres://ann@{place}"]) == 4
        assert "hint: Correct PGPASSWORD, or the user in the address.\n" in capsys.readouterr().err


def test_tables_at_an_address_are_previewed(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    for table in ("forgotten", "public.keyless", "other.users"):
        assert run_command(["preview", "--from", address, table, "--output", "json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"code": "x", "Order": "1.50"}]
    assert run_command(["preview", "--from", address, "nothing"]) == 4
    assert "SQ4040" in capsys.readouterr().err


def test_a_name_that_is_none_is_told_beside_others(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", "--from", address, "log", "usres"]) == 4
    assert "Did you mean users?" in capsys.readouterr().err
    assert run_command(["init", "--from", address, "log", "keyless"]) == 0
    assert "public.keyless: left out, pipeline.sql says why\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [
        "host/db",
        "oracle://host/db",
        "postgres://host",
        "postgres://a,b/db",
        "kafka://",
        "kafka://host/topic",
        "mysql://a,b/db",
        "postgres://ann:pass/word@host/db",
    ],
)
def test_addresses_that_are_none_are_told(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", "--from", wrong, "-o", "-"]) == 4
    assert "SQ4039" in capsys.readouterr().err
