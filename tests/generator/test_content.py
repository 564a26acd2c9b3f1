"""The rows of generators: references that hold at any tick, the rules of TPC-H, values and times by tick."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from generator import made
from sinkql.connector_api.stream import Limit

_REFERENCES = (
    ("users.org_id", "organizations.id"),
    ("accounts.org_id", "organizations.id"),
    ("auctions.seller", "users.id"),
    ("bids.buyer", "users.id"),
    ("bids.auction_id", "auctions.id"),
    ("impressions.customer_id", "customers.id"),
    ("clicks.impression_id", "impressions.id"),
    ("leads.customer_id", "customers.id"),
    ("coupons.lead_id", "leads.id"),
    ("conversion_predictions.lead_id", "leads.id"),
    ("supplier.s_nationkey", "nation.n_nationkey"),
    ("customer.c_nationkey", "nation.n_nationkey"),
    ("nation.n_regionkey", "region.r_regionkey"),
    ("partsupp.ps_partkey", "part.p_partkey"),
    ("partsupp.ps_suppkey", "supplier.s_suppkey"),
    ("orders.o_custkey", "customer.c_custkey"),
    ("lineitem.l_orderkey", "orders.o_orderkey"),
    ("lineitem.(l_partkey, l_suppkey)", "partsupp.(ps_partkey, ps_suppkey)"),
)
_KEYS = {"partsupp": "ps_partkey, ps_suppkey", "lineitem": "l_orderkey, l_linenumber", "clicks": "impression_id"}


def _tables(text: str = made.SOURCES) -> duckdb.DuckDBPyConnection:
    """Return a database with all tables, after the last tick."""
    connection = duckdb.connect()
    for name, reader in made.readers(text).items():
        connection.register(name, made.table(reader))
    return connection


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    found = connection.execute(query).fetchone()
    assert found is not None
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("ticks", [1, 2, 13, 14, 77, 1600])
def test_what_is_referred_to_is_there_at_each_tick(ticks: int) -> None:
    connection = _tables(re.sub(r"UP TO \d+", f"UP TO {ticks}", made.SOURCES))
    for (child, column), (parent, key) in (map(_split, each) for each in _REFERENCES):
        missing = f"SELECT count(*) FROM {child} WHERE {column} NOT IN (SELECT {key} FROM {parent})"
        assert _one(connection, missing) == 0, (child, column)


def _split(side: str) -> tuple[str, str]:
    table, _, column = side.partition(".")
    return table, column


def test_keys_are_unique() -> None:
    connection = _tables()
    for name in ("users", "auctions", "bids", "leads", "coupons", *_KEYS):
        key = _KEYS.get(name, "id")
        assert _one(connection, f"SELECT count(*) > 0, count(*) = count(DISTINCT ({key})) FROM {name}") == (True, True)


def test_tpch_has_the_rows_and_the_rules_of_the_benchmark() -> None:
    connection = _tables("CREATE SOURCE shop FROM LOAD GENERATOR TPCH FOR ALL TABLES;")
    counts = {
        "region": 5, "nation": 25, "supplier": 100, "part": 2000, "partsupp": 8000, "customer": 1500, "orders": 15000
    }  # fmt: skip
    assert counts == {name: _one(connection, f"SELECT count(*) FROM {name}") for name in counts}
    assert 59_000 < _one(connection, "SELECT count(*) FROM lineitem") < 61_000
    wrong = """
    SELECT count(*) FILTER (NOT l_shipdate BETWEEN o_orderdate + 1 AND o_orderdate + 121),
      count(*) FILTER (NOT l_commitdate BETWEEN o_orderdate + 30 AND o_orderdate + 90),
      count(*) FILTER (NOT l_receiptdate BETWEEN l_shipdate + 1 AND l_shipdate + 30),
      count(*) FILTER (NOT o_orderdate BETWEEN DATE '1992-01-01' AND DATE '1998-12-31' - 151),
      count(*) FILTER ((l_linestatus = 'O') <> (l_shipdate > DATE '1995-06-17')),
      count(*) FILTER ((l_returnflag = 'N') <> (l_receiptdate > DATE '1995-06-17')),
      count(*) FILTER (l_extendedprice <> l_quantity * p_retailprice),
      count(*) FILTER (o_custkey % 3 = 0), count(*) FILTER (o_orderkey % 32 >= 8)
    FROM lineitem JOIN orders ON o_orderkey = l_orderkey JOIN part ON p_partkey = l_partkey
    """
    assert _one(connection, wrong) == (0,) * 9
    sums = """
    SELECT count(*) FROM orders JOIN (
      SELECT l_orderkey, sum(floor(floor(l_extendedprice * 100 * (1 - l_discount)) * (1 + l_tax))) / 100 AS total,
        CASE count(DISTINCT l_linestatus) WHEN 1 THEN min(l_linestatus) ELSE 'P' END AS status
      FROM lineitem GROUP BY l_orderkey
    ) ON l_orderkey = o_orderkey WHERE o_totalprice = total AND o_orderstatus = status
    """
    assert _one(connection, sums) == 15000
    assert _one(connection, "SELECT p_retailprice FROM part WHERE p_partkey = 1999") == Decimal("1900.99")
    assert _one(connection, "SELECT max(len(c_comment)), min(len(c_phone)), max(len(c_name)) FROM customer") == (
        116, 15, 18
    )  # fmt: skip


def test_a_tick_of_tpch_replaces_one_order_with_its_items() -> None:
    made_by = made.readers()
    orders, items = made_by["orders"], made_by["lineitem"]
    for tick in (1500, 1501, 2999, 3000, 4321):  # the first 1,500 ticks insert the initial orders
        changed = made.rows(orders, tick, tick + 1)
        assert sorted(row[-1] for row in changed) == [-1, 1]
        assert len({row[0] for row in changed}) == 1
        assert {row[0] for row in made.rows(items, tick, tick + 1)} == {changed[0][0]}
    turn = [made.rows(orders, tick, tick + 1)[0][0] for tick in range(1500, 3000)]
    assert len(set(turn)) == 1500


def test_auctions_have_their_bids_one_a_tick_and_times_from_the_source_s_beginning() -> None:
    connection = _tables()
    found = "SELECT count(*), min(n), max(n) FROM (SELECT count(*) AS n FROM bids GROUP BY auction_id)"
    auctions, fewest, most = _one(connection, found)
    assert (auctions, fewest, most) == (_one(connection, "SELECT count(*) FROM auctions"), 2, 9)
    assert auctions + _one(connection, "SELECT count(*) FROM bids") == 3000
    late = "SELECT count(*) FROM bids JOIN auctions a ON a.id = auction_id WHERE bid_time >= end_time OR amount > 99"
    assert _one(connection, late) == 0
    first = made.rows(made.readers()["auctions"], 0, 1)[0][3]
    assert first == datetime.fromtimestamp(made.SINCE / 1000, UTC) + timedelta(seconds=11)
    bids = made.readers()["bids"]
    assert [len(made.rows(bids, tick, tick + 1)) for tick in range(3)] == [0, 1, 1]


def test_leads_convert_and_impressions_are_clicked_later() -> None:
    connection = _tables()
    assert 150 < _one(connection, "SELECT count(*) FROM clicks") < 250
    click = "SELECT min(click_time - impression_time), max(click_time - impression_time) FROM clicks JOIN impressions"
    least, most = _one(connection, f"{click} ON id = impression_id")
    assert timedelta(seconds=20) <= least < most < timedelta(seconds=40)
    leads = """
    SELECT count(*) FILTER (converted_at IS NULL) > 500, count(*) FILTER (converted_at IS NOT NULL) > 500,
      count(*) FILTER ((converted_at IS NULL) <> (conversion_amount IS NULL)),
      max(converted_at - created_at) < INTERVAL 30 MILLISECOND
    FROM leads
    """
    assert _one(connection, leads) == (True, True, 0, True)
    coupons = (
        "SELECT max(score), count(*) FILTER (experiment_bucket = 'control') FROM coupons JOIN conversion_predictions"
    )
    score, control = _one(connection, f"{coupons} USING (lead_id)")
    assert 0.4 < score <= 0.5
    assert control == 0
    lead = made.rows(made.readers()["leads"], 0, 1)[0]
    assert lead[3] is None  # the conversion comes a tick later


def test_values_come_round_by_round_then_by_batches() -> None:
    log, kv = made.table(made.readers()["log"]).to_pylist(), made.readers()["kv"]
    assert len(log) == 24 * 3 + 8 * 60
    assert [row["key"] for row in log[:26]] == [*range(24), 0, 1]
    assert [row["offset"] for row in log[:80:8]] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert all(row["partition"] == row["key"] % 4 and len(row["value"]) == 11 for row in log)
    assert len({row["value"] for row in log}) == len(log)
    last = {row["key"]: row["value"] for row in log}
    assert last == {row["key"]: row["value"] for row in made.table(kv).to_pylist() if row["$diff"] > 0}


def test_the_clock_shows_the_time_of_its_last_tick() -> None:
    clock = made.readers()["clock"]
    (begin,) = made.rows(clock, 0, 1)
    (now,) = made.rows(clock, 0, 61)
    assert now[0] - begin[0] == timedelta(minutes=1)
    assert begin[0].timestamp() * 1000 == made.SINCE


def test_ticks_before_the_beginning_are_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "CREATE SOURCE house FROM LOAD GENERATOR AUCTION (AS OF 26, TICK INTERVAL '1h') FOR ALL TABLES;"
    auctions, users = (made.readers(text)[name] for name in ("auctions", "users"))
    hour = 3_600_000
    monkeypatch.setattr("sinkql.connectors.generator.reader._now_ms", lambda: made.SINCE + 5 * hour // 2)
    assert auctions.latest(made.at(0), Limit(1 << 40)) == auctions.initial(at_end=True) == made.at(28)
    assert users.latest(made.at(0), Limit(1 << 40)) == made.at(64 * 64)
    assert auctions.lag(made.at(27)) == 1800
    assert auctions.lag(made.at(28)) == 0
    assert made.rows(auctions, 0, 1)[0][3].timestamp() == made.SINCE / 1000 - 25 * 3600 + 10


@pytest.mark.parametrize("name", sorted(made.readers()))
def test_a_batch_has_no_more_rows_than_its_limit(name: str) -> None:
    reader = made.readers()[name]
    stop = reader.latest(made.at(0), Limit(40), reader.target(made.at(0)))["count"]
    assert 0 < len(made.rows(reader, 0, stop)) <= 40 or name == "clicks"
