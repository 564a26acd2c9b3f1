"""Statements of items are replaced: ids stay, names are rewritten, and dependents are planned again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sinkql import ast, logical
from sinkql.catalog.address import Address
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import adding, redefining
from sinkql.catalog.replan import Definitions, redefine
from sinkql.catalog.verify import problems
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.planner.edit.qualify import qualify
from sinkql.printer import to_sql

VIEWS = {
    "plain": "SELECT id FROM orders WHERE orders.price > 0",
    "alias": "SELECT orders.id FROM orders AS orders",
    "full": "SELECT public.orders.id, materialize.public.orders.price FROM public.orders",
    "star": "SELECT orders.* FROM orders",
    "with_": "WITH orders AS (SELECT orders.price FROM orders) SELECT orders.price FROM orders",
    "twice": "SELECT id FROM orders UNION ALL SELECT orders.id FROM paid AS orders",
}


def _statements(text: str) -> list[ast.Create]:
    return [statement for statement in parse(text) if isinstance(statement, ast.Create)]


def _script() -> str:
    made = "".join(f"CREATE VIEW {name} AS {query};\n" for name, query in VIEWS.items() if name != "twice")
    return f"""
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory') WITH (VALIDATE = false);
CREATE CLUSTER small (SIZE = 'local[1]');
CREATE SOURCE orders (id bigint NOT NULL, price numeric(10, 2)) FROM FILES (PATH = 'orders') FORMAT JSON;
CREATE MATERIALIZED VIEW paid IN CLUSTER small AS SELECT id FROM orders WHERE price > 0;
{made}
CREATE VIEW twice AS {VIEWS["twice"]};
CREATE SINK s IN CLUSTER small FROM paid INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


def _memory() -> MemoryCatalog:
    catalog = MemoryCatalog(discover())
    for statement in _statements(_script()):
        catalog.add(statement, _facts(statement))
    return catalog


def _stored(place: Address) -> Catalog:
    catalog = Catalog(place, discover())
    for statement in _statements(_script()):
        catalog.change(adding(qualify(statement, catalog.plans), _facts(statement), None))
    return catalog


def _redefine(catalog: Catalog, changes: Definitions) -> None:
    catalog.change(redefining(changes, catalog.reader()))


def _facts(statement: ast.Create) -> logical.Facts:
    return {"sink_id": "0"} if isinstance(statement, ast.CreateSink) else {}


def _full(name: str) -> str:
    return f"materialize.public.{name}"


def _named(catalog: logical.CatalogReader, old: str, new: str) -> Definitions:
    """Return the changed definitions after an item is renamed."""
    entry = catalog.entry(old)
    assert entry is not None
    name = entry.statement.name
    if isinstance(name, ast.Ident):
        return {old: (replace(entry.statement, name=ast.Ident(new)), entry.facts)}  # type: ignore[arg-type]  # a cluster
    assert name is not None
    parts = (*name.parts[:-1], ast.Ident(new))
    return {old: (replace(entry.statement, name=ast.Name(parts)), entry.facts)}  # type: ignore[arg-type]  # no cluster


def _changed(catalog: logical.CatalogReader, text: str) -> Definitions:
    (statement,) = _statements(text)
    full = qualify(statement, catalog)
    assert isinstance(full.name, ast.Name)
    return {full.name.text: (full, {})}


def _queries(catalog: logical.CatalogReader) -> dict[str, str]:
    found = {}
    for name in VIEWS:
        entry = catalog.entry(_full(name))
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateView)
        found[name] = entry.statement.query.text
    return found


def _items(catalog: MemoryCatalog) -> list[tuple[str, str, str, logical.Item | None]]:
    found = [(e.id, e.name, to_sql(e.statement), catalog.item(e.name)) for e in catalog.entries()]
    return sorted(found, key=lambda each: each[0])


def test_rename_of_a_relation_is_written_into_every_query_that_reads_it() -> None:
    catalog = _memory()
    before = {entry.name: entry.id for entry in catalog.entries()}
    redefine(catalog, _named(catalog, _full("orders"), "purchases"))
    assert _queries(catalog) == {
        "plain": "SELECT id FROM materialize.public.purchases WHERE purchases.price > 0",
        "alias": "SELECT orders.id FROM materialize.public.purchases AS orders",
        "full": "SELECT public.purchases.id, materialize.public.purchases.price FROM materialize.public.purchases",
        "star": "SELECT purchases.* FROM materialize.public.purchases",
        "with_": "WITH orders AS (SELECT purchases.price FROM materialize.public.purchases)"
        " SELECT orders.price FROM orders",
        "twice": "SELECT id FROM materialize.public.purchases UNION ALL"
        " SELECT orders.id FROM materialize.public.paid AS orders",
    }
    after = {entry.name: entry.id for entry in catalog.entries()}
    assert after == {(_full("purchases") if name == _full("orders") else name): i for name, i in before.items()}
    assert catalog.entry(_full("orders")) is None
    assert set(catalog.dependents(_full("purchases"))) == {_full(name) for name in (*VIEWS, "paid")}


@pytest.mark.parametrize("renamed", ["orders", "paid", "lake", "small", "s"])
def test_renamed_items_read_again_are_those_in_memory(place: Address, renamed: str) -> None:
    catalog, memory = _stored(place), _memory()
    old = renamed if renamed == "small" else _full(renamed)
    _redefine(catalog, _named(catalog.plans, old, "New.Name"))
    redefine(memory, _named(memory, old, "New.Name"))
    again = Catalog(place, discover())
    again.plans.plan_all()
    assert again.plans.broken == {}
    assert _items(again.plans) == _items(catalog.plans) == _items(memory)
    for entry in again.plans.entries()[3:]:
        assert set(again.dependents(entry.name)) == set(again.plans.dependents(entry.name))


def test_source_keeps_the_name_it_was_first_known_by(place: Address) -> None:
    catalog = _stored(place)
    _redefine(catalog, _named(catalog.plans, _full("orders"), "a"))
    _redefine(catalog, _named(catalog.plans, _full("a"), "b"))
    entry = catalog.plans.entry(_full("b"))
    assert entry is not None
    assert entry.facts == {"identity": _full("orders")}


def test_two_items_may_swap_their_names(place: Address) -> None:
    catalog = _stored(place)
    _redefine(
        catalog, {**_named(catalog.plans, _full("plain"), "alias"), **_named(catalog.plans, _full("alias"), "plain")}
    )
    again = Catalog(place, discover())
    assert "purchases" not in _queries(again.plans)["plain"]
    assert _queries(again.plans)["plain"] == "SELECT orders.id FROM materialize.public.orders AS orders"
    assert _queries(again.plans)["alias"] == "SELECT id FROM materialize.public.orders WHERE orders.price > 0"


def test_item_may_come_to_use_a_younger_one(place: Address) -> None:
    catalog = _stored(place)
    _redefine(catalog, _changed(catalog.plans, "CREATE VIEW plain AS SELECT orders.id FROM twice AS orders;"))
    again = Catalog(place, discover())
    again.plans.plan_all()
    assert again.plans.broken == {}
    assert _full("plain") in again.dependents(_full("twice"))
    assert _full("plain") not in again.dependents(_full("orders"))


def test_change_that_breaks_a_dependent_changes_nothing_and_lists_it(place: Address) -> None:
    catalog = _stored(place)
    before = _items(catalog.plans)
    new = "CREATE SOURCE orders (id bigint NOT NULL) FROM FILES (PATH = 'orders') FORMAT JSON;"
    with pytest.raises(SinkqlError) as refused:
        _redefine(catalog, _changed(catalog.plans, new))
    assert refused.value.code == "SQ2016"
    assert refused.value.detail is not None
    assert 'materialized view "paid": column "price" does not exist' in refused.value.detail.splitlines()
    catalog.refresh()
    assert before == _items(catalog.plans) == _items(Catalog(place, discover()).plans)


def test_mistake_in_the_new_statement_is_told_as_such() -> None:
    catalog = _memory()
    before = _items(catalog)
    with pytest.raises(SinkqlError) as refused:
        redefine(catalog, _changed(catalog, "CREATE VIEW plain AS SELECT no FROM orders;"))
    assert refused.value.code == "SQ2204"
    assert before == _items(catalog)


def test_item_that_would_read_itself_is_refused() -> None:
    catalog = _memory()
    with pytest.raises(SinkqlError) as refused:
        redefine(catalog, _changed(catalog, "CREATE MATERIALIZED VIEW paid AS SELECT id FROM twice;"))
    assert (refused.value.code, refused.value.message) == ("SQ2017", '"paid" would read from itself')


def test_name_that_is_taken_is_refused() -> None:
    catalog = _memory()
    with pytest.raises(SinkqlError) as refused:
        redefine(catalog, _named(catalog, _full("plain"), "star"))
    assert refused.value.code == "SQ2002"


def test_item_that_plans_no_more_is_rewritten_and_tried_again(place: Address) -> None:
    catalog = _stored(place)
    with catalog.database.write() as connection:
        row = connection.first("SELECT * FROM items WHERE name = 'orders'")
        without = row.create_sql.replace(",\n", ";").replace("price", "prize")
        connection.update("items", {"create_sql": without}, "id = ?", row.id)
        connection.execute("UPDATE identity SET generation = 99")
    catalog.refresh()
    assert set(catalog.broken) >= {_full("plain")}
    _redefine(catalog, _named(catalog.plans, _full("orders"), "purchases"))
    assert "materialize.public.purchases" in to_sql(catalog.broken[_full("plain")].entry.statement)
    right = "CREATE SOURCE purchases (id bigint NOT NULL, price numeric(10, 2)) FROM FILES (PATH = 'o') FORMAT JSON;"
    _redefine(catalog, _changed(catalog.plans, right))
    assert catalog.broken == {}
    assert [*problems(Catalog(place, discover()))] == []
    with catalog.database.read() as connection:
        facts = connection.scalar("SELECT facts FROM items WHERE name = 'purchases'")
    assert json.loads(str(facts)) == {}
