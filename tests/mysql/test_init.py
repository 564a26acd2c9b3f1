"""`sinkql init --from mysql://…`: the script that it writes runs, and its tables are those of the server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.cli.group import run_command
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
