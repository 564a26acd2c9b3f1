"""Values at the limits of every type, read from the log and from tables, equal the server's output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from mysql.captured import received, stream_of, table_of
from mysql.vectors import BAD, TEXTS, VECTORS
from sinkql.connector_api.cdc import Event, RowsChanged, TableRows
from sinkql.connectors.mysql.type import parse_declaration
from sinkql.connectors.mysql.value import SINGLE, decoder
from support.mariadb import MariaDb

pytestmark = pytest.mark.server


@pytest.fixture
def tables(server: MariaDb, database: str) -> Tables:
    return Tables(server, database)


class Tables:
    """A table per type with its values in numbered rows, read from the log and from the table."""

    def __init__(self, server: MariaDb, database: str) -> None:
        self.server = server
        self.database = database

    def read(self, values: Mapping[str, Sequence[str]], *, text: bool = False) -> dict[str, Rows]:
        """Return the values by type, from the log, from the table and as the server prints them."""
        names = {type_: f"v{number}" for number, type_ in enumerate(values)}
        with self.server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {self.database}")
            for type_, name in names.items():
                cursor.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v {type_} NULL)")
        wanted = ("v",) if text else ()
        described = {t: table_of(self.server, self.database, name, text=wanted) for t, name in names.items()}
        logged: dict[str, list[TableRows]] = {each.id: [] for each in described.values()}

        def keep(event: Event) -> None:
            assert isinstance(event, RowsChanged), event
            for id_, rows in event.tables.items():
                logged[id_] += rows

        with stream_of(self.server) as stream:
            stream.begin(stream.create(), list(described.values()))
            self._fill(names, values)
            received(stream, stream.end(), keep)
            found = {}
            for type_, table in described.items():
                with stream.chunk(table) as chunk:
                    read = list(chunk.read(None, 1 << 20).rows)
                shown = dict(self.server.rows(f"SELECT id, {printed(type_, text=text)} FROM {'.'.join(table.name)}"))
                found[type_] = Rows(logged[table.id], read, shown)
        return found

    def _fill(self, names: Mapping[str, str], values: Mapping[str, Sequence[str]]) -> None:
        with self.server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {self.database}")
            cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'")
            for type_, name in names.items():
                rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values[type_], 1))
                cursor.execute(f"INSERT INTO {name} VALUES (0, NULL), {rows}")


class Rows:
    """The rows of one table: from the log, from the table, and as the server prints them."""

    def __init__(self, logged: Sequence[TableRows], read: Sequence[TableRows], printed: dict[int, Any]) -> None:
        self.logged, self.read = _values(logged), _values(read)
        self.log_errors = [error.message for each in logged for error in each.errors]
        self.read_errors = [error.message for each in read for error in each.errors]
        self.printed = printed


def _values(parts: Sequence[TableRows]) -> dict[int, Any]:
    found = {}
    for part in parts:
        for row in part.rows.to_pylist():
            assert row["$diff"] == 1
            found[row["id"]] = row["v"]
    return found


def printed(type_: str, column: str = "v", *, text: bool = False) -> str:
    """Return a query expression for a column in the form that `expected` parses; with `text`, for its text."""
    kind = parse_declaration(type_).kind
    if text:
        return f"CAST({column} AS CHAR CHARACTER SET utf8mb4)"
    if kind == "float":
        return f"{column} * 1e0"
    if kind == "bit":
        return f"{column} + 0"
    if kind in ("date", "datetime", "timestamp", "time", "year", "uuid", "inet4", "inet6"):
        return f"CAST({column} AS CHAR CHARACTER SET utf8mb4)"
    if kind.endswith(("char", "text", "enum", "set")):
        return f"HEX(CONVERT({column} USING utf8mb4))"
    return f"HEX({column})" if kind.endswith(("binary", "blob")) else column


def expected(type_: str, shown: Any) -> Any:
    """Parse the text that the server prints for a value."""
    kind = parse_declaration(type_).kind
    if shown is None:
        return None
    if kind.endswith(("char", "text", "enum", "set")):
        return bytes.fromhex(shown).decode()
    if kind.endswith(("binary", "blob")):
        return bytes.fromhex(shown)
    match kind:
        case "date":
            return date.fromisoformat(shown)
        case "datetime":
            return datetime.fromisoformat(shown)
        case "timestamp":
            return datetime.fromisoformat(f"{shown}+00:00")
        case "time":
            return time.fromisoformat(shown)
        case "year":
            return int(shown)
        case "bit":
            return Decimal(shown)
    return Decimal(shown) if type_ == "bigint unsigned" else shown


def test_values_are_those_that_the_server_prints(tables: Tables) -> None:
    assert sum(map(len, VECTORS.values())) >= 150
    for type_, rows in tables.read(VECTORS).items():
        said = {number: expected(type_, value) for number, value in rows.printed.items()}
        assert repr(said) == repr({each: plain(value) for each, value in rows.logged.items()}), type_
        assert repr(said) == repr({each: plain(value) for each, value in rows.read.items()}), type_
        assert rows.log_errors == rows.read_errors == []


def plain(value: Any) -> Any:
    """Return a value with times in fixed-offset time zones, as Python's own parser writes them."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return datetime.fromisoformat(value.isoformat())
    return value


def test_values_that_no_type_holds_are_errors_of_their_rows(tables: Tables) -> None:
    for type_, rows in tables.read(BAD).items():
        assert rows.logged == rows.read == {0: None}, type_
        assert rows.log_errors == rows.read_errors, type_
        assert len(rows.log_errors) == len(BAD[type_]), type_
        assert all(each.startswith('column "v": ') for each in rows.log_errors), type_


def test_columns_read_as_text_have_what_the_server_prints(tables: Tables) -> None:
    for type_, rows in tables.read(TEXTS, text=True).items():
        assert rows.printed == rows.logged, type_
        assert rows.printed == rows.read, type_


def test_each_byte_of_a_character_set_is_the_servers_character(server: MariaDb) -> None:
    for charset in SINGLE:
        one = decoder(charset)
        assert one is not None
        query = f"SELECT seq, HEX(CONVERT(CONVERT(UNHEX(LPAD(HEX(seq), 2, '0')) USING {charset}) USING utf32)) FROM "
        for byte, character in server.rows(f"{query} mysql.seq_0_to_255"):
            expected = bytes.fromhex(character).decode("utf-32-be")
            if expected not in ("?", "\ufffd") or byte == ord("?"):
                assert expected == one(bytes((byte,))), (charset, byte)
