"""The pipelines of examples/views return the expected rows after each change that they describe."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sinkql.testing import Pipeline, assert_rows, load
from support.command import run
from support.readers import duckdb_folder

_EXAMPLES = Path(__file__).parents[2] / "examples" / "views"
_IN_TABLES: dict[str, list[tuple[Any, ...]]] = {
    "current_customers": [(1, "Ann", "Rome"), (3, "Cleo", "Lima")],
    "top_products": [
        ("rice", 1, "jasmine", Decimal("4.50")),
        ("rice", 2, "basmati", Decimal("4.00")),
        ("tea", 1, "green", Decimal("11.00")),
        ("tea", 2, "black", Decimal("9.50")),
        ("tea", 3, "white", Decimal("7.25")),
    ],
    "events_once": [("e1", 0), ("e2", 1)],
    "sessions": [(1, 1, 2), (1, 2, 1), (2, 1, 1)],
    "price_history": [
        ("rice", "2026-01-01", None),
        ("tea", "2026-01-01", "2026-02-15"),
        ("tea", "2026-02-15", None),
    ],
    "orders_in_euro": [(1, Decimal("105")), (2, Decimal("106")), (3, None)],
    "sales_wide": [
        (100, Decimal("5.00"), "Ann", "Green tea"),
        (101, Decimal("1.20"), "Ben", "Basmati"),
        (102, Decimal("12.00"), "Ann", None),
    ],
    "last_hour": [],
}
_SHOWN = {
    "events_once": "event_id, second(received_at)",
    "sessions": "user_id, session::bigint, pages",
    "price_history": "product, valid_from::date::text, valid_to::date::text",
    "orders_in_euro": "order_id, euro",
    "sales_wide": "line_id, amount, buyer, product",
}


@pytest.mark.spark
@pytest.mark.slow
def test_the_examples_run_and_duckdb_reads_their_tables(tmp_path: Path) -> None:
    scripts = sorted(map(str, _EXAMPLES.glob("*.sql")))
    ended = run("exec", "--once", *scripts, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    for table, rows in _IN_TABLES.items():
        found = duckdb_folder(tmp_path / "lake" / "views" / table, _SHOWN.get(table, "*"))
        assert sorted(found, key=repr) == sorted(rows, key=repr), table


def example(name: str) -> Pipeline:
    return load(_EXAMPLES / f"{name}.sql")


def test_a_customer_has_the_row_of_its_last_change() -> None:
    pipeline = example("latest_row")
    log = ("position", "operation", "customer_id", "name", "city")
    for row in ((1, "insert", 1, "Ann", "Oslo"), (3, "update", 1, "Ann", "Rome"), (2, "update", 1, "Ann", "Bern")):
        pipeline.insert("customer_log", dict(zip(log, row, strict=True)))
    rome = {"customer_id": 1, "name": "Ann", "city": "Rome"}
    assert_rows(pipeline.rows("current_customers_sink"), [rome])
    pipeline.insert("customer_log", {"position": 4, "operation": "delete", "customer_id": 1})
    assert pipeline.changes("current_customers_sink") == [(-1, rome)]


def test_the_fourth_product_moves_up() -> None:
    pipeline = example("top_products")
    sales = [{"sale_id": n, "category": "tea", "product": f"p{n}", "amount": n} for n in range(1, 5)]
    pipeline.insert("sales", sales)
    assert [row["product"] for row in _placed(pipeline)] == ["p4", "p3", "p2"]
    pipeline.delete("sales", {"sale_id": 3})
    assert [row["product"] for row in _placed(pipeline)] == ["p4", "p2", "p1"]


def _placed(pipeline: Pipeline) -> list[dict[str, Any]]:
    return sorted(pipeline.rows("top_products_sink"), key=lambda row: row["place"])


def test_a_delivery_that_was_earlier_takes_the_place() -> None:
    pipeline = example("first_delivery")
    pipeline.insert("deliveries", {"event_id": "e", "received_at": "2026-01-01 10:00+00", "payload": "1"})
    pipeline.commit()
    pipeline.insert("deliveries", {"event_id": "e", "received_at": "2026-01-01 09:00+00", "payload": "2"})
    assert [row["payload"] for row in pipeline.rows("events_once_sink")] == ["2"]


def test_a_page_between_two_sessions_makes_them_one() -> None:
    pipeline = example("sessions")
    for minute in ("00", "50"):
        pipeline.insert("page_views", {"user_id": 1, "viewed_at": f"2026-01-01 10:{minute}", "page": "/"})
    assert [row["pages"] for row in pipeline.rows("sessions_sink")] == [1, 1]
    pipeline.insert("page_views", {"user_id": 1, "viewed_at": "2026-01-01 10:25", "page": "/"})
    assert [row["pages"] for row in pipeline.rows("sessions_sink")] == [3]


def test_a_late_price_ends_the_one_before_it() -> None:
    pipeline = example("price_history")
    for day in (1, 20):
        pipeline.insert("prices_set", {"product": "tea", "set_at": f"2026-01-{day:02}", "price": day})
    pipeline.commit()
    pipeline.insert("prices_set", {"product": "tea", "set_at": "2026-01-10", "price": 10})
    ends = {row["price"]: row["valid_to"] and row["valid_to"].day for row in pipeline.rows("price_history_sink")}
    assert ends == {Decimal(1): 10, Decimal(10): 20, Decimal(20): None}


def test_a_late_rate_changes_the_orders_it_holds_for() -> None:
    pipeline = example("as_of_join")
    for number, day in ((1, 2), (2, 5)):
        order = {"order_id": number, "currency": "CHF", "amount": 100, "placed_at": f"2026-01-0{day}"}
        pipeline.insert("orders", order)
    pipeline.insert("rates", {"currency": "CHF", "since": "2026-01-01", "rate": 1})
    assert _euro(pipeline) == {1: 100, 2: 100}
    pipeline.insert("rates", {"currency": "CHF", "since": "2026-01-04", "rate": 2})
    assert _euro(pipeline) == {1: 100, 2: 200}
    pipeline.delete("rates", {"currency": "CHF", "since": "2026-01-01"})
    assert _euro(pipeline) == {1: None, 2: 200}


def _euro(pipeline: Pipeline) -> dict[int, Decimal | None]:
    return {row["order_id"]: row["euro"] for row in pipeline.rows("orders_in_euro_sink")}


def test_a_product_that_comes_later_completes_its_lines() -> None:
    pipeline = example("star_schema")
    pipeline.insert("lines", {"line_id": 1, "buyer_id": 1, "product_id": 9, "quantity": 2, "unit_price": 3})
    pipeline.insert("buyers", {"buyer_id": 1, "name": "Ann", "country": "NO"})
    assert [(row["buyer"], row["product"]) for row in pipeline.rows("sales_wide_sink")] == [("Ann", None)]
    pipeline.insert("products", {"product_id": 9, "title": "Tea", "category": "tea"})
    assert [(row["buyer"], row["product"]) for row in pipeline.rows("sales_wide_sink")] == [("Ann", "Tea")]
