"""Queries and previews of MariaDB's tables show the server's current rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb

pytestmark = pytest.mark.server


def test_tables_are_read_as_the_server_has_them(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("READER", PASSWORD)
    orders = ", ".join(f"({number}, {number}.5, '{{\"a\": 1}}')" for number in range(1, 3001))
    server.run(
        f"CREATE TABLE {database}.orders (id int PRIMARY KEY, amount decimal(12,2), doc json)",
        f"INSERT INTO {database}.orders VALUES {orders}",
        f"CREATE TABLE {database}.keyless (n int)",
        f"INSERT INTO {database}.keyless VALUES (1), (1), (2)",
    )
    with Session() as session:
        session.execute(
            "CREATE SECRET p AS env_var('READER'); CREATE CONNECTION my TO MYSQL "
            f"(HOST '127.0.0.1', PORT {server.port}, USER 'reader', PASSWORD SECRET p);"
            f"CREATE SOURCE s FROM MYSQL CONNECTION my FOR SCHEMAS ({database});"
        )
        found = session.preview("orders", limit=2)
        assert [(row[0], str(row[1]), row[2]) for row in found.rows] == [
            (1, "1.50", '{"a": 1}'),
            (2, "2.50", '{"a": 1}'),
        ]
        (found,) = session.execute("SELECT id FROM orders WHERE id > 2998;")
        assert sorted(found.rows) == [(2999,), (3000,)]
        assert sorted(session.preview("keyless").rows) == [(1,), (1,), (2,)]
        assert len(session.preview("keyless", limit=2).rows) == 2
