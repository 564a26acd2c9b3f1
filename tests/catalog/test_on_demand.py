"""Opening a catalog plans nothing. Items are planned on demand, with the same result as all together."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sinkql import ast
from sinkql.catalog.address import Address
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.registry import discover
from sinkql.parser import parse
from sinkql.planner.item.statement import own_name, plan
from sinkql.session import Session

_REGISTRY = discover()
_NEEDS_THE_KEY = ["materialize.public.s", "materialize.public.aws"]
_BUILT_IN = ("quickstart", "materialize.", "materialize.public.")


def _script(views: int, seed: int = 3) -> str:
    chance = random.Random(seed)
    statements = [
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');",
        "CREATE SCHEMA other; CREATE CLUSTER c (SIZE = 'local[1]'); CREATE SECRET s AS 'x';",
        "CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'a', SECRET ACCESS KEY = SECRET s);",
        "CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE TABLE t (counter bigint PRIMARY KEY);",
    ]
    relations = ["n", "t"]
    for number in range(views):
        name = chance.choice(["v{}", "other.v{}"]).format(number)
        used = chance.choice(relations[-6:])
        cluster = chance.choice(["", " IN CLUSTER c"])
        statements.append(f"CREATE MATERIALIZED VIEW {name}{cluster} AS SELECT counter + 1 AS counter FROM {used};")
        relations.append(name)
        if chance.random() < 0.3:
            statements.append(
                f"CREATE SINK k{number} FROM {name} INTO ICEBERG CATALOG CONNECTION lake "
                f"(NAMESPACE = 'a', TABLE = 't{number}') MODE APPEND WITH (COMMIT INTERVAL = '1s');"
            )
    return "".join(statements)


@contextmanager
def _plans() -> Iterator[list[str]]:
    """Yield a list that grows with the names of planned items."""
    found: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is plan.__code__:
            name = own_name(frame.f_locals["statement"])
            found.extend([] if name in _BUILT_IN else [name])

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)


@pytest.fixture
def filled(place: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    monkeypatch.chdir(tmp_path)
    with Session(place) as session:
        session.execute(_script(24))
    return place


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the same catalog in a file, for tests that do not depend on the kind of catalog."""
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_script(24))
    return tmp_path / "catalog.db"


def _content(catalog: Catalog) -> list[tuple[Any, ...]]:
    plans = catalog.plans
    return [
        (each, plans.item(each.name), plans.dependencies(each.name), sorted(plans.dependents(each.name)))
        for each in plans.entries()
    ]


def test_looking_at_a_catalog_plans_nothing(filled: Address) -> None:
    with _plans() as planned, Session(filled) as session:
        session.execute(
            "SHOW SINKS; SHOW OBJECTS; SHOW MATERIALIZED VIEWS FROM other; SELECT count(*) FROM mz_columns;"
        )
        session.status()
        session.stop()
    assert planned == []
    with _plans() as planned, Session(filled) as session:
        assert session.notices == ()
    assert planned == _NEEDS_THE_KEY


def test_what_cannot_be_planned_any_more_is_found_by_trying_what_may_be(file: Path) -> None:
    newer = replace(_REGISTRY, versions="2.0")
    with _plans() as planned:
        assert Catalog(file, newer).broken == {}
    assert len(planned) > 30
    with _plans() as planned:
        assert Catalog(file, newer).broken == {}
    assert planned == _NEEDS_THE_KEY
    session = Session(file, registry=newer)
    session.execute("CREATE VIEW w AS SELECT counter FROM n; CREATE VIEW x AS SELECT counter FROM w;")
    session.execute("ALTER SYSTEM SET enable_iceberg_sink = false")
    with session.catalog.database.write() as connection:
        connection.execute("UPDATE items SET create_sql = replace(create_sql, 'counter', 'nope') WHERE name = 'w'")
    with _plans() as planned:
        broken = Catalog(file, newer).broken
    assert {"materialize.public.w", "materialize.public.x"} < set(broken)
    assert "SINK" in {each.entry.kind for each in broken.values()}
    session.execute("ALTER SYSTEM RESET enable_iceberg_sink")
    with _plans() as planned:
        assert set(Catalog(file, newer).broken) == {"materialize.public.w", "materialize.public.x"}


def test_what_is_asked_for_is_planned_with_what_it_uses(file: Path) -> None:
    catalog = Catalog(file, _REGISTRY)
    with _plans() as planned:
        assert catalog.plans.item("materialize.public.n") is not None
        assert planned == ["materialize.public.n"]
        assert catalog.plans.item("materialize.public.aws") is not None
        assert planned[1:] == ["materialize.public.s", "materialize.public.aws"]
        assert catalog.plans.item("materialize.public.aws") is not None
    assert len(planned) == 3


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_asking_gives_what_planning_all_gives(file: Path, seed: int) -> None:
    chance = random.Random(seed)
    eager, lazy = Catalog(file, _REGISTRY), Catalog(file, _REGISTRY)
    eager.plans.plan_all()
    names = list(eager.entries())
    for _ in range(12):
        ask = chance.choice([lazy.plans.item, lazy.plans.entry, lazy.plans.dependents, lazy.plans.has])
        ask(chance.choice(names))
        if chance.random() < 0.2:
            lazy.plans = lazy.plans.copy()
    assert list(lazy.entries()) == names
    assert _content(lazy) == _content(eager)


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(4))
def test_changes_by_another_process_reach_what_waits(file: Path, seed: int) -> None:
    chance = random.Random(seed)
    lazy = Catalog(file, _REGISTRY)
    with Session(file) as other:
        for number in range(4):
            views = [name for name in other.catalog.plans.names("MATERIALIZED VIEW") if "public" in name]
            view = chance.choice(views)
            change = chance.choice(
                [
                    f"ALTER MATERIALIZED VIEW {view} RENAME TO renamed{number};",
                    f"DROP MATERIALIZED VIEW {view} CASCADE;",
                    f"CREATE VIEW new{number} AS SELECT counter FROM {view};",
                    "ALTER CLUSTER c SET (SIZE = 'local[2]');",
                    "ALTER SCHEMA other RENAME TO moved; ALTER SCHEMA moved RENAME TO other;",
                ]
            )
            lazy.plans.item(chance.choice(views))
            other.execute(change)
            lazy.refresh()
    assert sorted(map(str, _content(lazy))) == sorted(map(str, _content(Catalog(file, _REGISTRY))))
    assert lazy.plans.broken == {}


def test_what_waits_for_an_item_outlives_it(file: Path) -> None:
    lazy, eager = Catalog(file, _REGISTRY), Catalog(file, _REGISTRY)
    eager.plans.plan_all()
    for name in ("materialize.public.n", "materialize.public.lake"):
        users = lazy.plans.all_users(name)
        lazy.plans.remove(name)
        assert users
        assert [lazy.plans.item(each) for each in users] == [eager.plans.item(each) for each in users]


def test_a_long_chain_of_views_is_planned_from_its_end(place: Address) -> None:
    statements = ["CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE VIEW v0 AS SELECT counter FROM n;"]
    statements += [f"CREATE VIEW v{number + 1} AS SELECT counter FROM v{number};" for number in range(120)]
    with Session(place) as session:
        session.execute("BEGIN;" + "".join(statements) + "COMMIT;")
    assert Catalog(place, _REGISTRY).plans.item("materialize.public.v120") is not None


def test_a_sink_that_another_program_renamed_leaves_no_place_under_its_old_name(file: Path) -> None:
    with Session(file) as session:
        (name, *_) = session.catalog.plans.names("SINK")
        old = name.rpartition(".")[2]
        with session.catalog.database.write() as connection:
            connection.execute("UPDATE items SET create_sql = replace(create_sql, ?, 'new') WHERE name = ?", (old, old))
    plans = Catalog(file, _REGISTRY).plans
    sink = "CREATE SINK {} FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = '{}') MODE APPEND {}"
    interval = "WITH (COMMIT INTERVAL = '1s')"
    plans.add(_create(sink.format("k", "own", interval)), {})
    assert plans.item(name) is None
    plans.remove("materialize.public.new")
    plans.add(_create(sink.format("again", old.replace("k", "t"), interval)), {})


def _create(text: str) -> ast.Create:
    (statement,) = parse(text + ";", _REGISTRY.keywords)
    assert isinstance(statement, ast.Create)
    return statement
