"""Tables of a database, whatever their names, become Iceberg tables, including tables that are created later."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.postgres import Postgres
from support.readers import duckdb_folder

from .pipeline import capturing, catch_up

pytestmark = [pytest.mark.server, pytest.mark.soak]

_ODD = [
    "Weird Name", "select", 'a"b', "ünïcode", "日本語", "a.b", "CamelCase", "camelcase", "order", "user", "table",
    "x" * 63, "1st", "$dollar", "semi;colon", "it's", "-dash", "name with \"quotes\" and 'apostrophes'", "group", "m",
    "emoji😀", "_", "a b", "A B", "&amp", "{b}", "[c]", "*", "|p", "<l>", "t1", "t1__errors", "CON", "İstanbul", "ß",
    "sink", "ſ", "ﬁ", "m_sink", "values", "interval", "materialize", "public", "source", "key", "mode", "namespace",
    "null", "true", "current_date",
]  # fmt: skip
_REFUSED = {"a/b": 'must not contain "/"', "..": "is not allowed as the name", " lead": 'must not be " lead"'}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _make(postgres: Postgres, database: str, name: str, number: int) -> None:
    table = _quoted(name)
    postgres.execute(f'CREATE TABLE {table} (id int PRIMARY KEY, {table} text, "Sel ect" int)', database)
    if number % 5:
        postgres.execute(f"INSERT INTO {table} VALUES (1, 'x', {number})", database)


def test_fifty_tables_are_followed_whatever_they_are_called(
    tmp_path: Path, postgres: Postgres, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(_ODD):
        _make(postgres, postgres_database, name, number)
    postgres.execute("CREATE PUBLICATION p FOR ALL TABLES", postgres_database)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(
            f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {postgres.port}, "
            f"DATABASE '{postgres_database}', USER 'postgres');"
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
            "CREATE SOURCE everything FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;"
        )
        sinks = (
            "CREATE SINKS FOR ALL TABLES OF SOURCE everything INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'raw') "
            "WITH (COMMIT INTERVAL = '1s');"
        )
        session.execute(sinks)
        assert len(session.sinks()) == len(_ODD)
        with capturing(session):
            catch_up(session)
            for name in _ODD:
                postgres.execute(f"INSERT INTO {_quoted(name)} VALUES (2, 'y', 7)", postgres_database)
            _make(postgres, postgres_database, "later on", 4)
            session.execute("ALTER SOURCE everything REFRESH REFERENCES;")
            session.execute(sinks)
            catch_up(session, turn=2)
        for number, name in enumerate(_ODD):
            expected = [(1, "x", number)] if number % 5 else []
            assert duckdb_folder(Path("lake/raw") / name) == [*expected, (2, "y", 7)], name
        assert duckdb_folder(Path("lake/raw/later on")) == [(1, "x", 4)]
        for name, said in _REFUSED.items():
            _make(postgres, postgres_database, name, 0)
            with pytest.raises(SinkqlError, match=said):
                session.execute(
                    "CREATE SCHEMA IF NOT EXISTS more;"
                    "CREATE SOURCE more.s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;"
                    + sinks.replace("OF SOURCE everything", "OF SOURCE more.s")
                )
            postgres.execute(f"DROP TABLE {_quoted(name)}", postgres_database)
            session.execute("DROP SOURCE IF EXISTS more.s CASCADE;")
        session.execute("DROP SOURCE everything CASCADE;")
