"""Edge values of every type, from a server into an Iceberg table: two readers return the server's text."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from postgres.pipeline import capturing, catch_up
from postgres.test_vectors import FIT, TYPES, same
from sinkql.session import Session
from support.postgres import Postgres
from support.readers import duckdb_folder, open_table, pyiceberg_rows

pytestmark = [pytest.mark.server, pytest.mark.long]

_SINK = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER postgres);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (wide);
CREATE SINK wide_sink FROM wide INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'wide') KEY (id)
  MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_COLUMNS = {type_: f"c{number}" for number, type_ in enumerate(FIT)}
_LAST = max(map(len, FIT.values()))


def _fill(server: Postgres, database: str, rows: Sequence[int]) -> None:
    """Insert rows by number: each column has the value with that number, or NULL."""
    values = [(row, *(found[row] if row < len(found) else None for found in FIT.values())) for row in rows]
    places = ", ".join(["%s"] * (1 + len(FIT)))
    with server.connect(database) as connection:
        connection.cursor().executemany(f"INSERT INTO wide VALUES ({places})", values)


def test_readers_find_what_the_server_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres, postgres_database: str
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = ", ".join(f"{name} {type_}" for type_, name in _COLUMNS.items())
    postgres.execute(
        f"{TYPES} CREATE TABLE wide (id int PRIMARY KEY, {columns}); CREATE PUBLICATION p FOR TABLE wide",
        postgres_database,
    )
    _fill(postgres, postgres_database, range(0, _LAST, 2))
    with Session() as session:
        session.execute(_SINK.format(port=postgres.port, database=postgres_database))
        with capturing(session):
            catch_up(session)
            _fill(postgres, postgres_database, range(1, _LAST, 2))
            catch_up(session, turn=2)
        session.execute("DROP SOURCE s CASCADE;")
    names = ("id", *_COLUMNS.values())
    readers = {
        "duckdb": duckdb_folder(Path("lake/n/wide"), ", ".join(names)),
        "pyiceberg": pyiceberg_rows(open_table(Path("lake"), "n.wide"), names),
    }
    for number, (type_, name) in enumerate(_COLUMNS.items(), 1):
        asked = f"SELECT to_json({name})::text, {name}::text FROM wide ORDER BY id"
        said = postgres.execute(f"SET TimeZone = 'UTC'; {asked}", postgres_database)
        for reader, rows in readers.items():
            assert [row[0] for row in sorted(rows)] == list(range(_LAST)), reader
            for row, (json_text, text) in zip(sorted(rows), said, strict=True):
                value = _plain(row[number], json.loads(json_text or "null"))
                assert same(value, json_text, text, type_), (reader, type_, value, text)


def _plain(value: Any, said: Any) -> Any:
    """Return a value in the form of the server's JSON; tables have arrays and ranges as structs."""
    match value:
        case uuid.UUID():
            return str(value)
        case {"items": items, "dimensions": _}:
            if said and isinstance(said[0], list):
                size = len(said[0])
                items = [items[at : at + size] for at in range(0, len(items), size)]
                return [[_plain(each, None) for each in row] for row in items]
            return [_plain(each, part) for each, part in zip(items, said, strict=True)]
        case {"lower": _, "empty": bool()}:
            return _range(value)
        case dict():
            return {name: _plain(each, said[name]) for name, each in value.items()}
        case _:
            return value


def _range(value: Mapping[str, Any]) -> str:
    if value["empty"]:
        return "empty"
    signs = "[" if value["lower_inclusive"] else "(", "]" if value["upper_inclusive"] else ")"
    return f"{signs[0]}{_bound(value['lower'])},{_bound(value['upper'])}{signs[1]}"


def _bound(value: Any) -> str:
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return (text.rstrip("0") if value.microsecond else text) + ("+00" if value.tzinfo else "")
    return "" if value is None else str(value)
