"""The tables of generators with several tables: their columns, keys and kinds of changes."""

from __future__ import annotations

from collections.abc import Mapping

from sinkql import logical
from sinkql.connector_api.types import parse_type

_TABLES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "auction": {
        "organizations": ("id bigint, name text", "id"),
        "users": ("id bigint, org_id bigint, name text", "id"),
        "accounts": ("id bigint, org_id bigint, balance bigint", "id"),
        "auctions": ("id bigint, seller bigint, item text, end_time timestamptz", "id"),
        "bids": ("id bigint, buyer bigint, auction_id bigint, amount integer, bid_time timestamptz", "id"),
    },
    "marketing": {
        "customers": ("id bigint, email text, income bigint", "id"),
        "impressions": ("id bigint, customer_id bigint, campaign_id bigint, impression_time timestamptz", "id"),
        "clicks": ("impression_id bigint, click_time timestamptz", "impression_id"),
        "leads": (
            "id bigint, customer_id bigint, created_at timestamptz, converted_at timestamptz?, "
            "conversion_amount bigint?",
            "id",
        ),
        "coupons": ("id bigint, lead_id bigint, created_at timestamptz, amount bigint", "id"),
        "conversion_predictions": (
            "lead_id bigint, experiment_bucket text, predicted_at timestamptz, score double precision",
            "lead_id",
        ),
    },
    "tpch": {
        "supplier": (
            "s_suppkey bigint, s_name text, s_address text, s_nationkey bigint, s_phone text, "
            "s_acctbal numeric(15,2), s_comment text",
            "s_suppkey",
        ),
        "part": (
            "p_partkey bigint, p_name text, p_mfgr text, p_brand text, p_type text, p_size integer, "
            "p_container text, p_retailprice numeric(15,2), p_comment text",
            "p_partkey",
        ),
        "partsupp": (
            "ps_partkey bigint, ps_suppkey bigint, ps_availqty integer, ps_supplycost numeric(15,2), ps_comment text",
            "ps_partkey ps_suppkey",
        ),
        "customer": (
            "c_custkey bigint, c_name text, c_address text, c_nationkey bigint, c_phone text, "
            "c_acctbal numeric(15,2), c_mktsegment text, c_comment text",
            "c_custkey",
        ),
        "orders": (
            "o_orderkey bigint, o_custkey bigint, o_orderstatus text, o_totalprice numeric(15,2), o_orderdate date, "
            "o_orderpriority text, o_clerk text, o_shippriority integer, o_comment text",
            "o_orderkey",
        ),
        "lineitem": (
            "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber integer, l_quantity numeric(15,2), "
            "l_extendedprice numeric(15,2), l_discount numeric(15,2), l_tax numeric(15,2), l_returnflag text, "
            "l_linestatus text, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct text, "
            "l_shipmode text, l_comment text",
            "l_orderkey l_linenumber",
        ),
        "nation": ("n_nationkey bigint, n_name text, n_regionkey bigint, n_comment text", "n_nationkey"),
        "region": ("r_regionkey bigint, r_name text, r_comment text", "r_regionkey"),
    },
}
"""The columns and the key by generator and table; a column with a question mark can be NULL."""

_CHANGING = {"marketing": {"leads"}, "tpch": {"orders", "lineitem"}}


def shapes(generator: str, *, changes: bool = True) -> dict[str, logical.Shape]:
    """Return the shapes of a generator's tables by name; without `changes`, all tables are append-only."""
    shapes_by_name = {}
    for name, (text, key) in _TABLES[generator].items():
        retracts = changes and name in _CHANGING.get(generator, set())
        change = logical.Change.RETRACT if retracts else logical.Change.APPEND
        shapes_by_name[name] = logical.Shape(columns(text), (frozenset(key.split()),), change)
    return shapes_by_name


def columns(text: str) -> tuple[logical.Column, ...]:
    """Return columns written as `name type, …`; a question mark after a type means that it can be NULL."""
    pairs = (column.split(" ", 1) for column in text.split(", "))
    return tuple(logical.Column(name, parse_type(type_.rstrip("?")), type_.endswith("?")) for name, type_ in pairs)
