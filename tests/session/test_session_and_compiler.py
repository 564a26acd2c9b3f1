"""Generated programs give the same items, notices and errors in a session and in the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import Notice, SinkqlError
from sinkql.parser import parse
from sinkql.planner.item.setting import DEFAULTS
from sinkql.printer import to_sql
from sinkql.program import Compiler
from sinkql.session import Session
from support.keywords import WORDS

_START = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION broker TO KAFKA (BROKER = 'localhost:1', SECURITY PROTOCOL = PLAINTEXT);
"""

_STATEMENTS = """
CREATE SOURCE {a} FROM LOAD GENERATOR COUNTER
CREATE SOURCE IF NOT EXISTS {a} FROM LOAD GENERATOR COUNTER
CREATE SOURCE {a} FROM LOAD GENERATOR COUNTER (TICK INTERVAL = '1s')
CREATE SOURCE {a} FROM LOAD GENERATOR COUNTER EXPOSE PROGRESS AS {b}
CREATE SOURCE {a} FROM LOAD GENERATOR MARKETING FOR ALL TABLES
CREATE SOURCE {a} FROM LOAD GENERATOR MARKETING FOR TABLES (customers AS {b}, leads)
CREATE TABLE {a} FROM SOURCE {b} (REFERENCE customers)
ALTER SOURCE {a} ADD TABLE leads
ALTER SOURCE {a} ADD TABLE leads AS {b}
ALTER SOURCE {a} DROP TABLE {b}
ALTER SOURCE IF EXISTS {a} DROP TABLE leads, customers
ALTER SOURCE {a} REFRESH REFERENCES
CREATE TABLE {a} (id bigint PRIMARY KEY, name text)
CREATE TABLE IF NOT EXISTS {a} (id bigint PRIMARY KEY, name text)
CREATE TABLE {a} (id bigint, name text)
CREATE VIEW {a} AS SELECT * FROM {b}
CREATE VIEW IF NOT EXISTS {a} AS SELECT * FROM {b}
CREATE OR REPLACE VIEW {a} AS SELECT * FROM {b}
CREATE OR REPLACE VIEW {a} AS SELECT count(*) AS id FROM {b}
CREATE MATERIALIZED VIEW {a} AS SELECT count(*) AS id FROM {b}
CREATE OR REPLACE MATERIALIZED VIEW {a} AS SELECT max(id) AS id FROM {b}
CREATE MATERIALIZED VIEW {a} WITH (COMMIT INTERVAL = '1s') AS SELECT id, count(*) AS n FROM {b} GROUP BY id
CREATE OR REPLACE MATERIALIZED VIEW {a} WITH (COMMIT INTERVAL = '60s') AS SELECT id, max(id) FROM {b} GROUP BY id
CREATE OR REPLACE MATERIALIZED VIEW {a} WITH (COMMIT INTERVAL = '1m') AS SELECT id, max(id) FROM {b} GROUP BY id
CREATE INDEX {a} ON {b} (id)
CREATE INDEX ON {b} (id)
CREATE DEFAULT INDEX ON {b}
CREATE SECRET {a} AS 'one'
CREATE SECRET {a} AS 'two'
CREATE SECRET {a} AS env_var('ONE')
CREATE SECRET {a} AS env_var('TWO')
CREATE SECRET {a} AS ''
ALTER SECRET {a} AS 'two'
ALTER SECRET IF EXISTS {a} AS env_var('TWO')
CREATE CLUSTER {a} (SIZE = 'local[1]')
CREATE CLUSTER {a} (SIZE = 'local[2]')
CREATE CLUSTER quickstart (SIZE = 'local[1]')
CREATE CLUSTER IF NOT EXISTS quickstart (SIZE = 'local[1]')
ALTER CLUSTER {a} SET (SIZE = 'local[2]')
ALTER CLUSTER quickstart SET (SIZE = 'local[2]')
CREATE SCHEMA {a}
CREATE SCHEMA IF NOT EXISTS public
CREATE DATABASE {a}
CREATE TABLE {a}.{b} (id bigint PRIMARY KEY, name text)
CREATE SINK {a} FROM {b} INTO {lake} KEY (id) NOT ENFORCED MODE UPSERT
CREATE SINK {a} FROM {b} INTO {lake} MODE APPEND
CREATE SINK IF NOT EXISTS {a} FROM {b} INTO {lake} MODE APPEND
CREATE SINK FROM {b} INTO {lake} MODE APPEND
CREATE SINK {a} FROM {b} INTO {lake} MODE APPEND WITH (BRANCH = 'audit')
CREATE SINKS FOR ALL TABLES OF SOURCE {a} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop') MODE UPSERT
CREATE SINKS FOR TABLES ({a}, {b}) INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop') MODE UPSERT
ALTER SINK {a} SET FROM {b}
ALTER SINK {a} SET (COMMIT INTERVAL = '5s')
ALTER SINK {a} SET (COMIT INTERVAL = '5s')
ALTER SINK {a} RESET (COMMIT INTERVAL)
ALTER SINK {a} SET CLUSTER {b}
ALTER SINK {a} PUBLISH
ALTER SINK IF EXISTS {a} PUBLISH
ALTER SOURCE {a} SKIP
ALTER SOURCE IF EXISTS {a} SKIP
ALTER SOURCE {a} SET (TICK INTERVAL = '2s')
ALTER MATERIALIZED VIEW {a} SET (COMMIT INTERVAL = '2s')
ALTER MATERIALIZED VIEW {a} SET (REPLICATE = 3)
ALTER MATERIALIZED VIEW {a} SET CLUSTER {b}
ALTER TABLE {a} ADD COLUMN more integer
ALTER TABLE {a} ADD COLUMN IF NOT EXISTS more integer
ALTER TABLE {a} ADD COLUMN other integer NOT NULL
ALTER TABLE {a} RENAME TO {b}
ALTER TABLE IF EXISTS {a} RENAME TO {b}
ALTER VIEW {a} RENAME TO {b}
ALTER MATERIALIZED VIEW {a} RENAME TO {b}
ALTER SINK {a} RENAME TO {b}
ALTER SOURCE {a} RENAME TO {b}
ALTER CLUSTER {a} RENAME TO {b}
ALTER SCHEMA {a} RENAME TO {b}
ALTER CLUSTER {a} SWAP WITH {b}
ALTER SCHEMA {a} SWAP WITH {b}
ALTER TABLE {a} OWNER TO somebody
ALTER VIEW IF EXISTS {a} OWNER TO somebody
ALTER CONNECTION lake SET (WAREHOUSE = 'other')
ALTER CONNECTION lake ROTATE KEYS
ALTER CONNECTION broker SET (BROKER = 'localhost:2') WITH (VALIDATE = false)
COMMENT ON TABLE {a} IS 'some text'
COMMENT ON VIEW {a} IS NULL
COMMENT ON COLUMN {a}.id IS 'the key'
COMMENT ON COLUMN {a}.nothing IS 'the key'
DROP TABLE {a}
DROP TABLE IF EXISTS {a}, {b} CASCADE
DROP VIEW {a}
DROP VIEW {a} CASCADE
DROP MATERIALIZED VIEW {a}
DROP SOURCE {a}
DROP SOURCE IF EXISTS {a} CASCADE
DROP SINK {a}
DROP INDEX {a}
DROP SECRET {a}
DROP CLUSTER {a}
DROP CLUSTER quickstart
DROP SCHEMA {a}
DROP SCHEMA {a} CASCADE
DROP DATABASE {a} CASCADE
DROP CONNECTION broker
SET search_path = {a}, public
SET search_path = public
SET cluster = {a}
RESET cluster
SET databse = 'x'
SET extra_float_digits = 3
SET timezone = 'Europe/Paris'
ALTER SYSTEM SET enable_iceberg_sink = true
ALTER SYSTEM SET enable_iceberg_sink = maybe
SHOW {a}
SHOW database
SHOW TABLES FROM {a}
SHOW SINKS IN CLUSTER {a}
SHOW COLUMNS FROM {a}
SHOW SOURCES LIKE 'a%'
SHOW VIEWS WHERE nme = 'a'
SHOW CREATE TABLE {a}
SHOW CREATE VIEW {a}
SHOW CREATE SINK {a}
SHOW CREATE CONNECTION lake
EXPLAIN MATERIALIZED VIEW {a}
EXPLAIN PHYSICAL PLAN FOR SINK {a}
EXPLAIN TIMESTAMP FOR SELECT 1
EXPLAIN SELECT * FROM {a}
EXPLAIN KEY SCHEMA FOR SINK {a}
SELECT id FROM {a} LIMIT 0
SELECT nothing FROM {a}
SELECT 1 + 'x'
SELECT name FROM mz_sinks
SELECT nothing FROM mz_sinks
SELECT * FROM nowhere.{a}
INSERT INTO {a} VALUES (1, 'one')
INSERT INTO {a} (id, nothing) VALUES (1, 'one')
UPDATE {a} SET name = 'two' WHERE id = 1
DELETE FROM {a} WHERE nothing = 1
SUBSCRIBE {a} WITH (PROGRES)
SUBSCRIBE (SELECT 1)
SUBSCRIBE {a} AS OF 1
SUBSCRIBE nowhere
OPTIMIZE SINK {a}
REPLAY ERRORS FROM {a}
VALIDATE CONNECTION {a}
VALIDATE CONNECTION lake
VALIDATE CONNECTION broker
BEGIN
BEGIN READ ONLY
COMMIT
COMMIT AND CHAIN
ROLLBACK
ROLLBACK AND CHAIN
SET TRANSACTION READ ONLY
""".strip().splitlines()

_LAKE = "ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = '{}')"
_NAMES = ("a", "b", "c", "customers", "leads")
_OF_RUNS = ("SQ2339", "SQ2348", "SQ2353", "SQ2354", "SQ2355", "SQ2356", "SQ2434", "SQ2656")
"""Notices about rows and running sinks, which only a session has."""
_OF_ROWS = ("SQ2405", "SQ2420", "SQ2421", "SQ2422", "SQ3522")
"""Errors about rows and tables, which only a session has."""


class _SparkNeededError(Exception):
    """Raised by a statement that is correct and needs Spark."""


class _PlainSession(Session):
    @property
    def spark(self) -> object:  # type: ignore[override]  # always raises
        raise _SparkNeededError


def _without_servers() -> Registry:
    """Return a registry whose connections are always valid and whose sinks find no table."""
    registry = discover()
    connections = {
        name: replace(kind, validate=None if kind.validate is None else lambda connection, access: None)
        for name, kind in registry.connections.items()
    }
    sinks = {name: replace(kind, facts=None) for name, kind in registry.sinks.items()}
    return replace(registry, connections=connections, sinks=sinks)


_REGISTRY = _without_servers()


def _program(random: Random) -> Iterator[str]:
    creates = [text for text in _STATEMENTS if text.startswith("CREATE")]
    for number in range(40):
        text = random.choice(creates if number < 12 or random.random() < 0.4 else _STATEMENTS)
        a, b, c = random.sample(_NAMES, 3)
        yield text.format(a=a, b=b, lake=_LAKE.format(c))


def _outcome(run: Callable[[ast.Statement], tuple[Notice, ...]], statement: ast.Statement) -> tuple[object, ...]:
    """Run a statement; return its notices or its error."""
    try:
        notices = run(statement)
    except _SparkNeededError:
        return ()
    except SinkqlError as error:
        return ("error", error.code, error.message, error.span, error.detail, error.hint)
    return tuple((item.code, item.message, item.span, item.hint) for item in notices if item.code not in _OF_RUNS)


def _settings(catalog: MemoryCatalog) -> dict[str, str]:
    return {name: catalog.setting(name) for name in DEFAULTS}


def _items(catalog: MemoryCatalog) -> list[tuple[str, str, str]]:
    entries = sorted(catalog.entries(), key=lambda entry: entry.name)
    return [
        (entry.name, entry.kind, to_sql(entry.statement, redacted=WORDS))
        for entry in entries
        if entry.id.startswith("u")
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_session_and_the_compiler_interpret_statements_alike(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compiler, random = Compiler(_REGISTRY, {}), Random(seed)
    done: list[str] = []

    def compiled(statement: ast.Statement) -> tuple[Notice, ...]:
        count = len(compiler.notices)
        compiler.compile_statement(statement)
        return tuple(compiler.notices[count:])

    with _PlainSession(tmp_path / "catalog.db", registry=_REGISTRY) as session:
        for statement in parse(_START, WORDS):
            session.run_statement(statement)
            compiler.compile_statement(statement)
        for text in _program(random):
            done.append(text)
            (statement,) = parse(text + ";", WORDS)
            in_session = _outcome(lambda statement: session.run_statement(statement).notices, statement)
            in_memory = _outcome(compiled, statement)
            if in_session and in_session[0] == "error" and in_session[1] in _OF_ROWS:
                in_session = in_memory
            assert in_session == in_memory, ";\n".join(done)
            session.catalog.refresh()
            assert _items(session.catalog.plans) == _items(compiler.catalog), ";\n".join(done)
            assert _settings(session.catalog.plans) == _settings(compiler.catalog), ";\n".join(done)
            if session.transaction == "failed":
                for statement in parse("ROLLBACK;", WORDS):
                    session.run_statement(statement)
                    compiler.compile_statement(statement)
