"""Subsources and tables FROM SOURCE as items of a catalog: created, read, renamed, commented, deployed and dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.program.compiler import compile_text
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import Deployment, plan_deployment
from sinkql.session.deploy.script_catalog import Script

_ALL = "CREATE SOURCE house FROM LOAD GENERATOR AUCTION (UP TO 50) FOR ALL TABLES;"
_SOME = "CREATE SOURCE house FROM LOAD GENERATOR AUCTION (UP TO 50) FOR TABLES (bids, auction.users AS people);"
_TABLES = ("accounts", "auctions", "bids", "organizations", "users")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session() as opened:
        yield opened


def _rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    return list(session.execute(text)[-1].rows)


def _names(session: Session, text: str) -> list[str]:
    return [row[0] for row in _rows(session, text)]


def _steps(deployment: Deployment) -> list[tuple[str, str]]:
    return [(step.action, step.name.rpartition(".")[2]) for step in deployment.steps]


def _plan(session: Session, text: str) -> Deployment:
    return plan_deployment([Script("pipeline.sql", text)], session)


def test_a_source_for_all_tables_has_a_subsource_of_each(session: Session) -> None:
    session.execute(_ALL)
    assert _names(session, "SHOW SUBSOURCES ON house;") == list(_TABLES)
    assert _names(session, "SHOW SOURCES;") == sorted([*_TABLES, "house"])
    assert _rows(session, "SELECT count(*) FROM organizations;") == [(100,)]
    assert _rows(session, "SELECT count(*) FROM bids;") == [(42,)]
    session.execute("CREATE SOURCE other FROM LOAD GENERATOR TPCH;")
    assert _names(session, "SHOW SUBSOURCES ON other;") == []


def test_subsources_lie_in_the_schema_of_their_source_or_where_they_are_put(session: Session) -> None:
    session.execute("CREATE SCHEMA a; CREATE SCHEMA b;")
    session.execute(
        "CREATE SOURCE a.house FROM LOAD GENERATOR AUCTION (UP TO 50) FOR TABLES (bids, users AS b.people);"
    )
    assert _names(session, "SHOW SUBSOURCES FROM a;") == ["bids"]
    assert _names(session, "SHOW SUBSOURCES FROM b;") == ["people"]


def test_a_source_is_made_with_all_of_its_subsources_or_not_at_all(session: Session) -> None:
    session.execute("CREATE TABLE users (id bigint);")
    with pytest.raises(SinkqlError, match='table "users" already exists') as error:
        session.execute(_ALL)
    assert error.value.code == "SQ2002"
    assert _names(session, "SHOW SOURCES;") == []
    session.execute(_SOME)
    assert _names(session, "SHOW SOURCES;") == ["bids", "house", "people"]


def test_the_tables_of_a_source_begin_together_and_keep_their_beginning(session: Session) -> None:
    session.execute(_ALL)
    session.execute("CREATE TABLE offers FROM SOURCE house (REFERENCE auction.bids);")
    begins = set()
    for name in (*_TABLES, "offers"):
        item = session.catalog.plans.item(f"materialize.public.{name}")
        assert isinstance(item, logical.Source)
        begins.add(item.options["tuning"]["since"])
    assert len(begins) == 1
    assert _rows(session, "SELECT * FROM bids;") == _rows(session, "SELECT * FROM offers;")
    with Session() as again:
        assert _rows(again, "SELECT * FROM bids;") == _rows(session, "SELECT * FROM bids;")


def test_what_a_table_reads_follows_the_names_of_its_source(session: Session) -> None:
    session.execute(_SOME)
    session.execute("CREATE TABLE offers FROM SOURCE house (REFERENCE bids); CREATE SCHEMA s;")
    before = _rows(session, "SELECT * FROM offers;")
    session.execute("ALTER SOURCE house RENAME TO hall; ALTER SOURCE people RENAME TO guests;")
    session.execute("ALTER TABLE offers RENAME TO calls; COMMENT ON COLUMN calls.id IS 'of the bid';")
    session.execute("COMMENT ON SOURCE guests IS 'who comes';")
    assert _names(session, "SHOW SUBSOURCES ON hall;") == ["bids", "guests"]
    assert _names(session, "SHOW TABLES ON hall;") == ["calls"]
    assert _rows(session, "SHOW CREATE SOURCE guests;")[0][1].splitlines() == [
        "CREATE SUBSOURCE materialize.public.guests",
        "  OF SOURCE materialize.public.hall (REFERENCE = auction.users);",
    ]
    assert _rows(session, "SELECT * FROM calls;") == before
    assert ("guests", "subsource", None, "who comes") in _rows(session, "SHOW SOURCES;")
    with Session() as again:
        assert _rows(again, "SELECT * FROM calls;") == before


def test_a_source_goes_with_what_reads_it(session: Session) -> None:
    session.execute(_ALL)
    session.execute("CREATE TABLE offers FROM SOURCE house (REFERENCE bids); CREATE VIEW v AS SELECT id FROM offers;")
    session.execute("DROP SOURCE users;")
    with pytest.raises(SinkqlError) as error:
        session.execute("DROP SOURCE house;")
    assert error.value.code == "SQ2006"
    session.execute("DROP SOURCE house CASCADE;")
    assert _names(session, "SHOW OBJECTS;") == []


def test_a_transaction_makes_and_drops_tables_of_a_source(session: Session) -> None:
    session.execute("BEGIN;")
    session.execute(f"{_ALL} CREATE TABLE offers FROM SOURCE house (REFERENCE bids); DROP TABLE offers; COMMIT;")
    assert _names(session, "SHOW SUBSOURCES;") == list(_TABLES)
    session.execute("BEGIN; CREATE TABLE offers FROM SOURCE house (REFERENCE bids); ROLLBACK;")
    assert _names(session, "SHOW TABLES;") == []


def test_scripts_are_applied_once_and_changed_lists_are_followed(session: Session) -> None:
    view = "CREATE VIEW v AS SELECT id FROM bids;"
    apply(_plan(session, view + _ALL), session)
    assert _names(session, "SHOW SUBSOURCES ON house;") == list(_TABLES)
    assert _plan(session, view + _ALL).steps == ()
    deployment = _plan(session, view + _SOME)
    assert {step for step in _steps(deployment) if step[0] != "replace"} >= {
        ("create", "people"), ("drop", "accounts"), ("drop", "users")
    }  # fmt: skip
    apply(deployment, session)
    assert _names(session, "SHOW SUBSOURCES ON house;") == ["bids", "people"]
    assert _plan(session, view + _SOME).steps == ()


def test_a_script_is_compiled_with_the_subsources_of_its_sources() -> None:
    program = compile_text(_SOME + "CREATE TABLE t FROM SOURCE house (REFERENCE users); DROP SOURCE people;")
    assert [(each.kind, each.name.rpartition(".")[2]) for each in program.items] == [
        ("SOURCE", "house"), ("SOURCE", "bids"), ("TABLE", "t")
    ]  # fmt: skip
