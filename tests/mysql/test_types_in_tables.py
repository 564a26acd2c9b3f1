"""Values at the limits of every type arrive in an Iceberg table as the server prints them, for two readers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mysql.test_vectors import expected, printed
from mysql.vectors import VECTORS
from postgres.pipeline import capturing, catch_up
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.readers import duckdb_folder, open_table, pyiceberg_rows

pytestmark = [pytest.mark.server, pytest.mark.long]

_SINK = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({database}.wide);
CREATE SINK wide_sink FROM wide INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'wide') KEY (id)
  MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_COLUMNS = {type_: f"c{number}" for number, type_ in enumerate(VECTORS)}


def _fill(server: MariaDb, database: str, rows: Sequence[int]) -> None:
    """Insert rows; row n has the n-th value of each column's type, or NULL if the type has fewer."""
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'")
        for row in rows:
            values = [found[row] if row < len(found) else "NULL" for found in VECTORS.values()]
            cursor.execute(f"INSERT INTO wide VALUES ({row}, {', '.join(values)})")


def test_readers_find_what_the_server_prints(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = ", ".join(f"{name} {type_} NULL" for type_, name in _COLUMNS.items())
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("SET innodb_strict_mode = OFF")
        cursor.execute(f"CREATE TABLE wide (id int PRIMARY KEY, {columns}) ROW_FORMAT = DYNAMIC")
    last = max(map(len, VECTORS.values()))
    _fill(server, database, range(0, last, 2))
    with Session() as session:
        session.execute(_SINK.format(password=PASSWORD.replace("'", "''"), port=server.port, database=database))
        with capturing(session):
            catch_up(session)
            _fill(server, database, range(1, last, 2))
            catch_up(session, turn=2)
    asked = ", ".join(printed(type_, name) for type_, name in _COLUMNS.items())
    said = [
        [expected(type_, value) for type_, value in zip(_COLUMNS, row, strict=True)]
        for row in server.rows(f"SELECT {asked} FROM {database}.wide ORDER BY id")
    ]
    names = ("id", *_COLUMNS.values())
    for found in (
        duckdb_folder(Path("lake/n/wide"), ", ".join(names)),
        pyiceberg_rows(open_table(Path("lake"), "n.wide"), names),
    ):
        by_id = sorted(found)
        assert [row[0] for row in by_id] == list(range(last))
        for number, type_ in enumerate(VECTORS):
            values = [row[1 + number] for row in by_id]
            assert [repr(each) for each in map(_plain, values)] == [repr(_plain(row[number])) for row in said], type_


def _plain(value: Any) -> Any:
    """Return a value in the form that both readers share."""
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case uuid.UUID():
            return str(value)
        case Decimal():
            return value.normalize()
        case _:
            return value
