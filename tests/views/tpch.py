"""TPC-H: small tables in which each of its 22 queries finds rows, and the queries as views.

The rows are generated from a seed. The queries come from the specification, with a smaller LIMIT.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal

from views.churn import Update, of
from views.harness import Relation
from views.rows import Row

_TEXT = "text"
_MONEY = "numeric(15,2)"

REGION = Relation("region", {"r_regionkey": "int NOT NULL", "r_name": "text NOT NULL"}, ("r_regionkey",))
NATION = Relation(
    "nation",
    {"n_nationkey": "int NOT NULL", "n_name": "text NOT NULL", "n_regionkey": "int NOT NULL"},
    ("n_nationkey",),
)
SUPPLIER = Relation(
    "supplier",
    {
        "s_suppkey": "int NOT NULL",
        "s_name": "text NOT NULL",
        "s_address": _TEXT,
        "s_nationkey": "int",
        "s_phone": _TEXT,
        "s_acctbal": _MONEY,
        "s_comment": _TEXT,
    },
    ("s_suppkey",),
)
CUSTOMER = Relation(
    "customer",
    {
        "c_custkey": "int NOT NULL",
        "c_name": "text NOT NULL",
        "c_address": _TEXT,
        "c_nationkey": "int",
        "c_phone": _TEXT,
        "c_acctbal": _MONEY,
        "c_mktsegment": _TEXT,
        "c_comment": _TEXT,
    },
    ("c_custkey",),
)
PART = Relation(
    "part",
    {
        "p_partkey": "int NOT NULL",
        "p_name": _TEXT,
        "p_mfgr": _TEXT,
        "p_brand": _TEXT,
        "p_type": _TEXT,
        "p_size": "int",
        "p_container": _TEXT,
    },
    ("p_partkey",),
    "upsert",
)
PARTSUPP = Relation(
    "partsupp",
    {"ps_partkey": "int NOT NULL", "ps_suppkey": "int NOT NULL", "ps_availqty": "int", "ps_supplycost": _MONEY},
    ("ps_partkey", "ps_suppkey"),
)
ORDERS = Relation(
    "orders",
    {
        "o_orderkey": "bigint NOT NULL",
        "o_custkey": "int",
        "o_orderstatus": _TEXT,
        "o_totalprice": _MONEY,
        "o_orderdate": "date",
        "o_orderpriority": _TEXT,
        "o_shippriority": "int",
        "o_comment": _TEXT,
    },
    ("o_orderkey",),
)
LINEITEM = Relation(
    "lineitem",
    {
        "l_orderkey": "bigint NOT NULL",
        "l_partkey": "int",
        "l_suppkey": "int",
        "l_linenumber": "int NOT NULL",
        "l_quantity": _MONEY,
        "l_extendedprice": _MONEY,
        "l_discount": _MONEY,
        "l_tax": _MONEY,
        "l_returnflag": _TEXT,
        "l_linestatus": _TEXT,
        "l_shipdate": "date",
        "l_commitdate": "date",
        "l_receiptdate": "date",
        "l_shipinstruct": _TEXT,
        "l_shipmode": _TEXT,
    },
    ("l_orderkey", "l_linenumber"),
)
RELATIONS = (REGION, NATION, SUPPLIER, CUSTOMER, PART, PARTSUPP, ORDERS, LINEITEM)

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = (
    ("BRAZIL", 1), ("CANADA", 1), ("UNITED STATES", 1), ("CHINA", 2), ("INDIA", 2), ("FRANCE", 3), ("GERMANY", 3),
    ("SAUDI ARABIA", 4), ("KENYA", 0),
)  # fmt: skip
_BOXES = {"Brand#12": "SM BOX", "Brand#23": "MED BOX", "Brand#34": "LG BOX", "Brand#45": "JUMBO JAR"}
_KINDS = (
    "ECONOMY ANODIZED STEEL", "MEDIUM POLISHED BRASS", "PROMO BURNISHED COPPER", "STANDARD BRUSHED BRASS",
    "PROMO PLATED STEEL",
)  # fmt: skip
_DATES = (("1993-07-01", 180), ("1994-01-01", 360), ("1994-12-20", 84), ("1995-07-20", 60), ("1995-12-10", 70))
"""The ranges that queries filter by: the earliest order date, and the number of days."""
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")


def rows(size: int, random_: random.Random) -> dict[str, list[Row]]:
    """Return all rows: `size` orders, with about three lines each."""
    parts, suppliers, customers = max(size // 4, 8), max(size // 6, 9), max(size // 4, 8)
    offers = _offers(parts, suppliers, random_)
    orders = [_order(number, customers, random_) for number in range(1, size + 1)]
    return {
        "region": list(enumerate(_REGIONS)),
        "nation": [(number, name, region) for number, (name, region) in enumerate(_NATIONS)],
        "supplier": [_supplier(number, random_) for number in range(1, suppliers + 1)],
        "customer": [_customer(number, random_) for number in range(1, customers + 1)],
        "part": [_part(number, random_) for number in range(1, parts + 1)],
        "partsupp": [(part, supplier, random_.randint(1, 60), _cost(random_)) for part, supplier in offers],
        "orders": orders,
        "lineitem": [line for order in orders for line in _lines(order, offers, random_)],
    }


def updates() -> dict[str, Update]:
    """Return the columns that updates change, with functions for their new values."""
    return {
        "supplier": of(SUPPLIER, {"s_nationkey": _nation, "s_acctbal": _balance}),
        "customer": of(CUSTOMER, {"c_nationkey": _nation, "c_acctbal": _balance, "c_mktsegment": _segment}),
        "part": of(PART, {"p_size": _size, "p_type": _kind}),
        "partsupp": of(PARTSUPP, {"ps_availqty": lambda random_: random_.randint(1, 60), "ps_supplycost": _cost}),
        "orders": of(ORDERS, {"o_orderdate": _day, "o_orderstatus": _status, "o_custkey": lambda r: r.randint(1, 9)}),
        "lineitem": of(
            LINEITEM, {"l_quantity": _quantity, "l_suppkey": lambda r: r.randint(1, 8), "l_discount": _share}
        ),
    }


def _offers(parts: int, suppliers: int, random_: random.Random) -> list[tuple[int, int]]:
    """Return pairs of a part and a supplier."""
    pairs = [(part, other) for part in range(1, parts + 1) for other in range(1, suppliers + 1)]
    return sorted(random_.sample(pairs, min(len(pairs), parts * 3)))


def _supplier(number: int, random_: random.Random) -> Row:
    comment = "the Customer had Complaints" if not random_.randrange(5) else "carefully"
    nation = number % len(_NATIONS)
    return number, f"Supplier#{number}", f"way {number}", nation, f"{nation + 10}-1", _balance(random_), comment


def _customer(number: int, random_: random.Random) -> Row:
    phone = f"{random_.choice((13, 31, 23, 29, 11))}-{number}"
    account = (_nation(random_), phone, _balance(random_), _segment(random_), f"note {number}")
    return number, f"Customer#{number}", f"street {number}", *account


def _part(number: int, random_: random.Random) -> Row:
    brand = random_.choice(list(_BOXES))
    name = random_.choice(("forest green", "forest lace", "green mint", "navy rose"))
    return number, name, f"Manufacturer#{number % 5}", brand, _kind(random_), _size(random_), _BOXES[brand]


def _order(number: int, customers: int, random_: random.Random) -> Row:
    comment = "special packing requests" if not random_.randrange(4) else "fluffily"
    customer, price = random_.randint(1, customers * 2 // 3), Decimal(random_.randrange(10**5, 10**7)) / 100
    status, priority = _status(random_), random_.choice(_PRIORITIES)
    return number, customer, status, price, _day(random_), priority, random_.randrange(2), comment


def _lines(order: Row, offers: list[tuple[int, int]], random_: random.Random) -> list[Row]:
    large = not random_.randrange(8)
    found = []
    for number in range(1, 8 if large else random_.randint(2, 5)):
        part, supplier = random_.choice(offers)
        quantity = Decimal(random_.randint(48, 50)) if large else _quantity(random_)
        shipped = order[4] + timedelta(random_.randint(1, 90))
        committed = shipped + timedelta(random_.randint(-5, 25))
        received = shipped + timedelta(random_.randint(1, 20))
        price = quantity * random_.randint(900, 1100)
        flag = random_.choice("RAN")
        state = "F" if shipped.year < 1995 else "O"
        mode = random_.choice(("AIR", "AIR REG", "MAIL", "SHIP"))
        way = random_.choice(("DELIVER IN PERSON", "DELIVER IN PERSON", "NONE"))
        of_line = (part, supplier, number, quantity, price, _share(random_), _share(random_), flag, state)
        found.append((order[0], *of_line, shipped, committed, received, way, mode))
    return found


def _nation(random_: random.Random) -> int:
    return random_.choice((0, 1, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8))


def _balance(random_: random.Random) -> Decimal:
    return Decimal(random_.randrange(-99999, 999999)) / 100


def _segment(random_: random.Random) -> str:
    return random_.choice(("BUILDING", "MACHINERY"))


def _size(random_: random.Random) -> int:
    return random_.choice((3, 4, 5, 9, 14, 15, 15, 49))


def _kind(random_: random.Random) -> str:
    return random_.choice(_KINDS)


def _cost(random_: random.Random) -> Decimal:
    return Decimal(random_.randrange(100, 9999)) / 100


def _share(random_: random.Random) -> Decimal:
    return Decimal(random_.randrange(11)) / 100


def _quantity(random_: random.Random) -> Decimal:
    return Decimal(random_.choice((1, 2, 3, 10, 15, 25, 41, 45)))


def _status(random_: random.Random) -> str:
    return random_.choice("FFO")


def _day(random_: random.Random) -> date:
    first, days = random_.choice(_DATES)
    return date.fromisoformat(first) + timedelta(random_.randrange(days))
