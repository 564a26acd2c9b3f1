"""Every statement of the dialect, run against a small catalog → the page that says what SinkQL does with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from sinkql.connectors.files.bucket import Bucket
from sinkql.connectors.kafka.admin import Admin, Topic
from sinkql.connectors.mysql import facts as mysql_facts
from sinkql.connectors.postgres import facts as postgres_facts
from sinkql.errors import SinkqlError
from sinkql.session import Session

_FORMS = Path(__file__).with_name("forms.sql")
_SECTION = "--# "
_BASE = """
CREATE SECRET s AS 'x';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = SECRET s, SECRET ACCESS KEY = SECRET s, REGION = 'us-east-1');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION pg TO POSTGRES (HOST 'db', DATABASE 'shop', USER 'u') WITH (VALIDATE = false);
CREATE CONNECTION my TO MYSQL (HOST 'db', USER 'u') WITH (VALIDATE = false);
CREATE CONNECTION brokers TO KAFKA (BROKER 'broker:9092', SECURITY PROTOCOL = PLAINTEXT) WITH (VALIDATE = false);
CREATE CONNECTION schemas TO CONFLUENT SCHEMA REGISTRY (URL 'http://registry:8081') WITH (VALIDATE = false);
CREATE CLUSTER c (SIZE = 'local[2]');
CREATE SCHEMA sc;
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE SOURCE h FROM LOAD GENERATOR AUCTION (UP TO 10);
CREATE SOURCE d FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (public.users AS buyers);
CREATE TABLE t (id bigint PRIMARY KEY, name text);
CREATE VIEW v AS SELECT counter FROM n;
CREATE MATERIALIZED VIEW m AS SELECT counter FROM n;
CREATE MATERIALIZED VIEW tens AS SELECT counter / 10 AS ten, count(*) AS n FROM n GROUP BY 1;
CREATE INDEX i ON tens (ten);
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'x', TABLE = 'k')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '10s', BRANCH = 'audit');
"""
_COLUMNS = [{"name": "id", "type": {"oid": 20, "name": "bigint"}, "nullable": False}]
_USERS = {"schema": "public", "name": "users", "oid": 1, "identity": "default", "columns": _COLUMNS, "key": ["id"]}
_PUBLICATION = {"postgres": {"version": 180000, "system": "1", "tables": [_USERS]}}
_ORDERS = {
    "database": "shop",
    "name": "orders",
    "columns": [{"name": "id", "type": "int(11)", "nullable": False}],
    "key": ["id"],
}
_TOPIC = Topic("orders", "1", (0,))
_SHOP = {"mysql": {"mariadb": True, "version": "10.11", "tables": [_ORDERS]}}
_HEAD = """# Statements

What SinkQL does with each statement of the dialect: it runs, or fails with the error that is shown. A test runs every
statement of this page on its own, in a catalog with a secret `s`, the connections `aws`, `lake`, `pg`, `my`, `brokers`
and `schemas`, a cluster `c`, a schema `sc`, the sources `n (counter)`, `h` (an auction house) and `d` (a database with
the table `buyers`), a table `t (id, name)`, a view `v`, the materialized views `m` and `tens (ten, n)`, of which the
latter has an index `i`, and a sink `k`, on a branch, that has
not run yet.
[Error codes](errors/index.md) explains the error codes.
"""


def page(folder: Path) -> str:
    """Return the page; `folder` is empty, and takes the catalogs."""
    base = folder / "base"
    base.mkdir()
    with _offline(), Session(base / "catalog.db") as session:
        session.execute(_BASE)
    lines = [_HEAD.strip()]
    for number, (section, statements) in enumerate(_sections()):
        lines += ["", f"## {section}", "", "| statement | result |", "|---|---|"]
        for place, statement in enumerate(statements):
            copy = folder / f"{number}-{place}"
            shutil.copytree(base, copy)
            lines.append(f"| {_code(statement)} | {_outcome(statement, copy / 'catalog.db')} |")
            shutil.rmtree(copy)
    return "\n".join(lines) + "\n"


def _sections() -> Iterator[tuple[str, list[str]]]:
    for text in _FORMS.read_text().split(_SECTION)[1:]:
        title, _, body = text.partition("\n")
        yield title, body.splitlines()


@contextmanager
def _offline() -> Iterator[None]:
    """Let statements reach no other machine."""
    with (
        patch.object(Bucket, "list", lambda _: iter(())),
        patch.object(Admin, "check", lambda _: None),
        patch.object(Admin, "topic", lambda _, name: _TOPIC),
        patch.object(mysql_facts, "find", lambda planned, access: _SHOP),
        patch.object(postgres_facts, "find", lambda login, publication: _PUBLICATION),
    ):
        yield


def _outcome(text: str, catalog: Path) -> str:
    with _offline(), Session(catalog) as session:
        try:
            session.execute(text)
        except SinkqlError as error:
            hint = f" {error.hint}" if error.hint else ""
            return f"[{error.code}](errors/{error.code}.md): {_escaped(error.message)}.{_escaped(hint)}"
    return "runs"


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
