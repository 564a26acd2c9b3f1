"""The Postgres examples run against a real server; DuckDB reads their tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script
from support.postgres import Postgres
from support.readers import duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long]

_EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", "change me")
    with Session() as opened:
        yield opened


def _example(name: str, server: Postgres, database: str) -> str:
    """Run an example's script for the server, and return its pipeline for this server."""
    server.execute((_EXAMPLES / name / "server.sql").read_text(), database)
    script = (_EXAMPLES / name / "pipeline.sql").read_text()
    return (
        script.replace("HOST 'localhost'", "HOST '127.0.0.1'")
        .replace("PORT 5432", f"PORT {server.port}")
        .replace("DATABASE 'shop'", f"DATABASE '{database}'")
        .replace("DATABASE 'warehouse'", f"DATABASE '{database}'")
    )


def test_tables_and_a_view_follow_the_server(session: Session, postgres: Postgres, postgres_database: str) -> None:
    session.execute(_example("postgres_cdc", postgres, postgres_database))
    users, spending = Path("lake/shop/users"), Path("lake/shop/spending")
    with capturing(session):
        catch_up(session)
        assert duckdb_folder(users) == [(1, "Ada", "GB"), (2, "Bengt", "SE"), (3, "Chen", "CN")]
        assert duckdb_folder(spending) == [(1, 2, Decimal("15.00")), (2, 1, Decimal("20.00"))]
        postgres.execute(
            "UPDATE users SET country = 'DE' WHERE id = 1; DELETE FROM orders WHERE id IN (2, 3); "
            "UPDATE users SET id = 4 WHERE id = 3; INSERT INTO orders VALUES (9, 4, 1.25, now())",
            postgres_database,
        )
        catch_up(session, turn=2)
    assert duckdb_folder(users) == [(1, "Ada", "DE"), (2, "Bengt", "SE"), (4, "Chen", "CN")]
    assert duckdb_folder(spending) == [(1, 1, Decimal("10.50")), (4, 1, Decimal("1.25"))]
    assert len(_slots(postgres, postgres_database)) == 1
    session.execute("DROP SOURCE shop CASCADE;")
    assert _slots(postgres, postgres_database) == []
    postgres.execute("DROP OWNED BY sinkql; DROP ROLE sinkql", postgres_database)


def test_all_tables_of_a_database_are_tables_of_iceberg(
    session: Session, postgres: Postgres, postgres_database: str
) -> None:
    script = _example("whole_database", postgres, postgres_database)
    session.execute(script)
    raw = Path("iceberg/raw")
    with capturing(session):
        catch_up(session)
        postgres.execute(
            "CREATE TABLE later (id integer PRIMARY KEY); INSERT INTO later VALUES (7); "
            "UPDATE products SET price = 8.5 WHERE code = 'ink'",
            postgres_database,
        )
        session.execute("ALTER SOURCE everything REFRESH REFERENCES;")
        session.execute(script[script.index("CREATE SINKS") :])
        catch_up(session, turn=2)
    assert duckdb_folder(raw / "customers", "id, name, tags.items, details") == [
        (1, "Ada", ["early", "often"], '{"vip": true}'),
        (2, "Bengt", None, None),
    ]
    assert duckdb_folder(raw / "products") == [("ink", Decimal("8.50")), ("pen", Decimal("1.20"))]
    assert duckdb_folder(raw / "purchases") == [
        (1, "pen", "sent", date(2026, 3, 1)),
        (2, "ink", "new", date(2026, 3, 2)),
    ]
    assert duckdb_folder(raw / "later") == [(7,)]
    session.execute("DROP SOURCE everything CASCADE;")
    postgres.execute("DROP OWNED BY reader; DROP ROLE reader", postgres_database)


def _slots(server: Postgres, database: str) -> list[tuple[object, ...]]:
    return server.execute(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{database}'")


def test_scripts_describe_a_whole_database(
    session: Session, postgres: Postgres, postgres_database: str, tmp_path: Path
) -> None:
    script = [Script("pipeline.sql", _example("whole_database", postgres, postgres_database))]
    apply(plan_deployment(script, session), session)
    assert [name.rpartition(".")[2] for name in session.sinks()] == [
        "customers_sink",
        "products_sink",
        "purchases_sink",
    ]
    assert plan_deployment(script, session).steps == ()
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert [each for each in files if b"change me" in each.read_bytes()] == []
    session.execute("DROP SOURCE everything CASCADE;")
    postgres.execute("DROP OWNED BY reader; DROP ROLE reader", postgres_database)
