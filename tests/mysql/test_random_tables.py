"""Tables of random columns and values, NULL included: the log and a chunk have the server's rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from mysql.captured import received, stream_of, table_of
from mysql.test_vectors import expected, plain, printed
from mysql.vectors import VECTORS
from sinkql.connector_api.cdc import Event, RowsChanged, TableRows
from support.mariadb import MariaDb

pytestmark = pytest.mark.server

_TYPES = [type_ for type_ in VECTORS if not type_.startswith(("char(255)", "text", "medium", "long", "tinytext"))]


def _columns(chance: random.Random) -> list[str]:
    some = chance.sample(_TYPES, chance.randint(1, 12))
    return [*some, *chance.choices(some, k=chance.randint(0, 3))]


def _row(chance: random.Random, number: int, types: Sequence[str]) -> str:
    values = ("NULL" if chance.random() < 0.4 else chance.choice(VECTORS[type_]) for type_ in types)
    return f"({number}, {', '.join(values)})"


def _values(parts: Sequence[TableRows], width: int) -> dict[int, list[Any]]:
    """Apply changes in order; return the remaining rows by id."""
    found: dict[int, list[Any]] = {}
    for part in parts:
        assert not part.errors
        for row in part.rows.to_pylist():
            found.pop(row["id"], None)
            if row["$diff"] == 1:
                found[row["id"]] = [plain(row[f"c{number}"]) for number in range(width)]
    return dict(sorted(found.items()))


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(12))
def test_rows_are_the_servers(server: MariaDb, database: str, seed: int) -> None:
    chance = random.Random(seed)
    types = _columns(chance)
    columns = ", ".join(f"c{number} {type_} NULL" for number, type_ in enumerate(types))
    parts: list[TableRows] = []

    def keep(event: Event) -> None:
        assert isinstance(event, RowsChanged), event
        for rows in event.tables.values():
            parts.extend(rows)

    compress = chance.choice(("ON", "OFF"))
    server.run(f"SET GLOBAL log_bin_compress_min_len = 10, log_bin_compress = {compress}")
    with server.connect(database=database) as connection, connection.cursor() as cursor, stream_of(server) as stream:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
        table = table_of(server, database, "t")
        stream.begin(stream.create(), [table])
        ids = list(range(chance.randint(1, 60)))
        while ids:
            some, ids = ids[: chance.randint(1, 20)], ids[20:]
            cursor.execute(f"INSERT INTO t VALUES {', '.join(_row(chance, number, types) for number in some)}")
        for number, type_ in enumerate(types):
            cursor.execute(f"UPDATE t SET c{number} = {chance.choice(VECTORS[type_])} WHERE id % 7 = {number % 7}")
        cursor.execute(f"DELETE FROM t WHERE id % 5 = {chance.randrange(5)} AND id > 0")
        received(stream, stream.end(), keep)
        with stream.chunk(table) as chunk:
            read = list(chunk.read(None, 1 << 20).rows)
    server.run("SET GLOBAL log_bin_compress = OFF")
    asked = ", ".join(printed(type_, f"c{number}") for number, type_ in enumerate(types))
    said = {
        row[0]: [expected(type_, value) for type_, value in zip(types, row[1:], strict=True)]
        for row in server.rows(f"SELECT id, {asked} FROM {database}.t ORDER BY id")
    }
    assert repr(said) == repr(_values(parts, len(types)))
    assert repr(said) == repr(_values(read, len(types)))


def test_null_may_be_the_last_value_that_the_log_has(server: MariaDb, database: str) -> None:
    server.run("SET GLOBAL log_bin_compress_min_len = 10, log_bin_compress = ON")  # shorter rows are not compressed
    with server.connect(database=database) as connection, connection.cursor() as cursor, stream_of(server) as stream:
        names = {type_: f"t{number}" for number, type_ in enumerate(_TYPES)}
        for type_, name in names.items():
            cursor.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, pad bigint NOT NULL, v {type_} NULL)")
        stream.begin(stream.create(), [table_of(server, database, name) for name in names.values()])
        for name in names.values():
            found: list[Event] = []
            cursor.execute(f"INSERT INTO {name} SELECT seq, seq, NULL FROM seq_1_to_40")
            received(stream, stream.end(), found.append)
            (rows,) = (
                part for each in found if isinstance(each, RowsChanged) for part in each.tables[f"{database}.{name}"]
            )
            assert [(row["id"], row["v"]) for row in rows.rows.to_pylist()] == [(each, None) for each in range(1, 41)]
    server.run("SET GLOBAL log_bin_compress = OFF")
