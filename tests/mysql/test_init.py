"""`sinkql init --from mysql://…` writes a script that runs and reads the server's tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.cli.main import run_command
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.readers import duckdb_folder

pytestmark = pytest.mark.server


@pytest.fixture
def address(server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    server.run(
        f"CREATE TABLE {database}.orders (id int PRIMARY KEY, amount decimal(12,2), at point)",
        f"INSERT INTO {database}.orders VALUES (1, 1.5, POINT(1, 1)), (2, 2.5, NULL)",
        f"CREATE TABLE {database}.files (id int PRIMARY KEY) ENGINE = MyISAM",
    )
    return f"mysql://reader@127.0.0.1:{server.port}"


def test_a_database_in_the_address_is_the_one_whose_tables_are_read(
    address: str, server: MariaDb, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.run(f"CREATE DATABASE {database}_more", f"CREATE TABLE {database}_more.users (id int PRIMARY KEY)")
    assert run_command(["init", "--from", f"{address}/{database}_more", "-o", "-"]) == 0
    script = capsys.readouterr().out
    assert ("NAMESPACE = '" + f"{database}_more'" in script, "orders" in script) == (True, False)
    assert run_command(["init", "--from", f"{address}/{database}_mroe"]) == 4
    assert f"Did you mean {database}_more?" in capsys.readouterr().err
    assert run_command(["doctor", "--from", f"{address}/{database}_mroe"]) == 4
    server.run(f"DROP DATABASE {database}_more")


def test_a_user_who_may_select_alone_may_look(
    address: str, server: MariaDb, database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.run(
        f"CREATE TABLE {database}.child (id int PRIMARY KEY, o int, "
        f"FOREIGN KEY (o) REFERENCES {database}.orders (id) ON DELETE CASCADE)",
        f"INSERT INTO {database}.child VALUES (5, 1)",
        "CREATE USER looker@'%' IDENTIFIED BY 'x'",
        f"GRANT SELECT ON {database}.* TO looker@'%'",
    )
    looker = address.replace("reader@", "looker@")
    assert run_command(["preview", "--from", looker, "child"]) == 4
    assert "hint: Correct MYSQL_PWD, or the user in the address." in capsys.readouterr().err
    monkeypatch.setenv("MYSQL_PWD", "x")
    assert run_command(["preview", "--from", looker, f"{database}.child", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 5, "o": 1}
    assert run_command(["init", "--from", looker]) == 4
    assert "REPLICATION SLAVE" in capsys.readouterr().err
    server.run("DROP USER looker@'%'")


def test_the_script_runs_and_its_tables_are_those_of_the_server(address: str, database: str) -> None:
    given = ["--namespace", "shop", f"{database}.orders", f"{database}.files"]
    assert run_command(["init", "--from", address, *given]) == 0
    script = Path("pipeline.sql").read_text()
    assert (PASSWORD in script, "AS env_var('MYSQL_PWD')" in script) == (False, True)
    assert f"-- Run ALTER TABLE `{database}`.`files` ENGINE = InnoDB;" in script
    with Session() as session:
        session.execute(script)
        with capturing(session):
            catch_up(session)
    assert [(row[0], str(row[1])) for row in duckdb_folder(Path("lake/shop/orders"))] == [(1, "1.50"), (2, "2.50")]


def test_a_table_at_an_address_is_previewed(address: str, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["preview", "--from", address, f"{database}.orders", "--limit", "1", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 1, "amount": "1.50"}
