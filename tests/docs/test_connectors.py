"""The pages of connectors: their options are those of the code, and their SQL runs on real servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sinkql
from docs.connector_page import faults, filled, options
from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.extension.registry import Registry, discover
from sinkql.parser import parse
from sinkql.session import Session
from support.kafka import Kafka, kafka
from support.mariadb import MariaDb, mariadb
from support.postgres import Postgres, postgres
from support.registry import StubRegistry, stub_registry

pytestmark = [pytest.mark.long, pytest.mark.server]

_FOLDER = Path(__file__).parents[2] / "docs" / "connectors"
_PAGES = sorted(_FOLDER.glob("*.md"))
_SHOP = """
CREATE TABLE users (id integer PRIMARY KEY, name varchar(80) NOT NULL, country varchar(2));
CREATE TABLE orders (id bigint PRIMARY KEY, user_id integer NOT NULL, amount numeric(10, 2) NOT NULL);
"""
_RIGHTS = """
CREATE ROLE sinkql LOGIN REPLICATION PASSWORD 'change me';
GRANT SELECT ON users, orders TO sinkql;
CREATE PUBLICATION mz_source FOR TABLE users, orders;
"""
_ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": ["null", "string"]}],
}
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>offline|error: SQ\d+) -->\n+)?```sql\n(?P<sql>.*?)^```$", re.MULTILINE | re.DOTALL
)
_SETUP = re.compile(r"^<!-- setup: (.+) -->$", re.MULTILINE)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return discover()


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with kafka() as found:
        found.topic(2, "orders")
        found.topic(1, "customers", cleanup_policy="compact")
        yield found


@pytest.fixture(scope="module")
def shop() -> Iterator[Postgres]:
    with postgres() as found:
        found.execute("CREATE DATABASE shop")
        found.execute(_SHOP + _RIGHTS, "shop")
        yield found


@pytest.fixture(scope="module")
def database_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb(tmp_path_factory.mktemp("maria")) as found:
        tables = [statement for statement in _SHOP.split(";") if statement.strip()]
        found.run("CREATE DATABASE shop", "USE shop", *tables)
        found.run(
            "CREATE USER sinkql@'%' IDENTIFIED BY 'change me'",
            "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO sinkql@'%'",
        )
        yield found


@pytest.fixture(scope="module")
def schemas() -> Iterator[StubRegistry]:
    with stub_registry() as found:
        found.register("orders-value", _ORDER)
        yield found


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_options_are_those_of_the_code(path: Path, registry: Registry, pytestconfig: pytest.Config) -> None:
    text = path.read_text()
    written = filled(text, options(registry))
    if pytestconfig.getoption("--rewrite"):
        path.write_text(written)
    assert written == text
    assert faults(text) == []


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_sql_runs(path: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PGPASSWORD", "MYSQL_PWD", "KAFKA_PASSWORD", "REGISTRY_PASSWORD", "WEBHOOK_KEY", "AWS_SECRET"):
        monkeypatch.setenv(name, "change me")
    text = path.read_text()
    for setup in _SETUP.findall(text):
        for name in setup.split(", "):
            text = _SETUPS[name](text, request)
    ran = ""
    with Session() as session:
        for block in _BLOCK.finditer(text):
            mark, sql = block["mark"] or "", block["sql"]
            if mark == "offline":
                sinkql.compile(ran + sql)
            elif mark:
                with pytest.raises(SinkqlError) as caught:
                    session.execute(sql)
                assert mark == f"error: {caught.value.code}"
            else:
                for statement in parse(sql):
                    session.execute(_planned(statement) or sql[statement.span.start : statement.span.end])
                ran += sql


def _planned(statement: ast.Statement) -> str | None:
    """Return what plans a query alone, if running it would start Spark."""
    if isinstance(statement, ast.Select) and "mz_" not in statement.query.text:
        return f"EXPLAIN RAW PLAN FOR {statement.query.text}"
    return None


def _with_kafka(text: str, request: pytest.FixtureRequest) -> str:
    broker: Kafka = request.getfixturevalue("broker")
    return text.replace("localhost:9092", broker.address)


def _with_postgres(text: str, request: pytest.FixtureRequest) -> str:
    server: Postgres = request.getfixturevalue("shop")
    return text.replace("HOST = 'localhost'", f"HOST = '127.0.0.1', PORT = {server.port}")


def _with_mariadb(text: str, request: pytest.FixtureRequest) -> str:
    server: MariaDb = request.getfixturevalue("database_server")
    return text.replace("HOST = 'localhost'", f"HOST = '127.0.0.1', PORT = {server.port}")


def _with_registry(text: str, request: pytest.FixtureRequest) -> str:
    stub: StubRegistry = request.getfixturevalue("schemas")
    return text.replace("http://localhost:8081", stub.url)


_SETUPS: dict[str, Callable[[str, pytest.FixtureRequest], str]] = {
    "kafka": _with_kafka,
    "postgres": _with_postgres,
    "mariadb": _with_mariadb,
    "registry": _with_registry,
}
