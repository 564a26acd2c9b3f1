"""`sinkql doctor` on a MariaDB server reports problems, and the statements that repair them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkql.cli.main import run_command
from support.mariadb import PASSWORD, MariaDb

pytestmark = pytest.mark.server

Doctor = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def doctor(
    server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("READER", PASSWORD)

    def run(source: str, user: str = "reader") -> dict[str, dict[str, Any]]:
        """Return the results for the connection `my` by name, and check the exit code."""
        place = f"HOST '127.0.0.1', PORT {server.port}, USER '{user}', PASSWORD SECRET p"
        script = f"CREATE SECRET p AS env_var('READER'); CREATE CONNECTION my TO MYSQL ({place}); {source}"
        Path("script.sql").write_text(script)
        capsys.readouterr()
        code = run_command(["doctor", "-f", "script.sql", "--output", "json"])
        printed = capsys.readouterr()
        found = [json.loads(line) for line in printed.out.splitlines()]
        assert code == (4 if any(each["state"] == "wrong" for each in found) else 0), printed.err
        assert PASSWORD not in printed.out + printed.err
        return {each["name"].removeprefix("my: "): each for each in found}

    return run


def _not_ok(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["state"] for name, check in found.items() if check["state"] != "ok"}


def test_settings_are_mended_as_it_says(doctor: Doctor, server: MariaDb, database: str) -> None:
    source = f"CREATE SOURCE s FROM MYSQL CONNECTION my FOR SCHEMAS ({database});"
    server.run(f"CREATE TABLE {database}.t (id int PRIMARY KEY)")
    assert _not_ok(doctor(source)) == {}
    wrong = {"binlog_format": "'STATEMENT'", "binlog_row_metadata": "'NO_LOG'", "binlog_row_image": "'MINIMAL'"}
    before = dict(server.rows("SHOW GLOBAL VARIABLES LIKE 'binlog_%'"))
    try:
        server.run(*(f"SET GLOBAL {name} = {value}" for name, value in wrong.items()))
        server.run("SET GLOBAL binlog_expire_logs_seconds = 3600")
        found = doctor(source)
        assert _not_ok(found) == {**dict.fromkeys(wrong, "wrong"), "binlog_expire_logs_seconds": "warning"}
        for name in _not_ok(found):
            server.run(found[name]["fix"].partition("Run ")[2].partition(";")[0])
        assert _not_ok(doctor(source)) == {}
    finally:
        server.run(f"SET GLOBAL binlog_expire_logs_seconds = {before['binlog_expire_logs_seconds']}")


def test_tables_that_are_read_must_be_readable(doctor: Doctor, server: MariaDb, database: str) -> None:
    server.run(
        f"CREATE TABLE {database}.good (id int PRIMARY KEY)",
        f"CREATE TABLE {database}.unsafe (id int PRIMARY KEY) ENGINE = MyISAM",
        f"CREATE TABLE {database}.places (id int PRIMARY KEY, at point)",
        f"CREATE TABLE {database}.pets (id int PRIMARY KEY, owner int, FOREIGN KEY (owner) REFERENCES "
        f"{database}.good (id) ON DELETE CASCADE)",
    )
    named = ", ".join(f"{database}.{each}" for each in ("good", "unsafe", "places", "pets", "none"))
    found = doctor(f"CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({named});")
    assert _not_ok(found) == {
        f"table {database}.unsafe": "wrong", f"table {database}.places": "warning", f"table {database}.pets": "warning",
        f"table {database}.none": "wrong",
    }  # fmt: skip
    assert found[f"table {database}.unsafe"]["fix"] == f"Run ALTER TABLE `{database}`.`unsafe` ENGINE = InnoDB;"
    assert f"EXCLUDE COLUMNS ({database}.places.at)" in found[f"table {database}.places"]["fix"]
    assert _not_ok(doctor(f"CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({database}.good);")) == {}


def test_a_user_is_told_which_privileges_are_missing(doctor: Doctor, server: MariaDb, database: str) -> None:
    password = PASSWORD.replace("'", "''")
    server.run(f"CREATE TABLE {database}.t (id int PRIMARY KEY)", f"CREATE USER poor@'%' IDENTIFIED BY '{password}'")
    source = f"CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({database}.t);"
    try:
        found = doctor(source, "poor")
        assert _not_ok(found) == {"privileges": "wrong", f"table {database}.t": "wrong"}
        assert "GRANT SELECT, REPLICATION SLAVE" in found["privileges"]["fix"]
        server.run("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO poor@'%'")
        assert _not_ok(doctor(source, "poor")) == {}
    finally:
        server.run("DROP USER poor@'%'")
