"""TPCH: the tables of the benchmark, by its rules for keys, prices and dates. A tick replaces an order and its items.

The texts differ from the benchmark's generator, so the benchmark's reference results do not apply. The lists of words
come from the TPC-H specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from itertools import product
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connectors.generator.columns import (
    Ints,
    Words,
    addresses,
    between,
    choice,
    days,
    decimals,
    integers,
    noise,
    patterned,
    sentences,
)
from sinkql.connectors.generator.table import GeneratedTable, PlannedTpch, Table, Turnover, Window, batch

_FIRST_DAY, _TODAY, _LAST_DAY = (
    (day - date(1970, 1, 1)).days for day in (date(1992, 1, 1), date(1995, 6, 17), date(1998, 12, 31))
)
_MOST_ITEMS = 7
_COUNTS = (10_000, 200_000, 150_000, 1_500_000, 1_000)
"""Suppliers, parts, customers, orders and clerks at scale 1."""
_SUPPLIERS_OF_A_PART = 4


def table(planned: PlannedTpch) -> Table:
    """Return the planned table."""
    scale = float(planned.scale_factor)
    suppliers, parts, customers, orders, clerks = (max(1, round(scale * count)) for count in _COUNTS)
    generator = _Tpch(planned.seed, suppliers, parts, customers, orders, clerks, planned.changes)
    small: dict[str, tuple[Callable[[Window], pa.RecordBatch], int]] = {
        "region": (generator.region, len(REGIONS)),
        "nation": (generator.nation, len(NATIONS)),
        "supplier": (generator.supplier, generator.suppliers),
        "part": (generator.part, generator.parts),
        "customer": (generator.customer, generator.customers),
    }
    name, versions_per_row = planned.table, 2 if generator.changes else 1
    if name in small:
        rows, count = small[name]
        return GeneratedTable(rows, count, 0, row_bytes=150)
    if name == "partsupp":
        return GeneratedTable(generator.partsupp, generator.parts, 0, weight=_SUPPLIERS_OF_A_PART, row_bytes=150)
    step = 1 if generator.changes else 0
    if name == "orders":
        return GeneratedTable(
            generator.order, generator.orders, step, versions_per_row, row_bytes=120, retracts=generator.changes
        )
    if name == "lineitem":
        return GeneratedTable(
            generator.lineitem,
            generator.orders,
            step,
            _MOST_ITEMS * versions_per_row,
            row_bytes=120,
            retracts=generator.changes,
        )
    raise LookupError(name)


@dataclass(frozen=True, slots=True)
class _Tpch:
    seed: int
    suppliers: int
    parts: int
    customers: int
    orders: int
    clerks: int
    changes: bool

    def noise(self, column: str, *numbers: Ints) -> Words:
        return noise(self.seed, column, *numbers)

    def region(self, window: Window) -> pa.RecordBatch:
        keys = window.positions
        return batch(
            {
                "r_regionkey": keys,
                "r_name": choice(REGIONS, keys),
                "r_comment": sentences(31, 115, self.noise("r_comment", keys)),
            }
        )

    def nation(self, window: Window) -> pa.RecordBatch:
        keys = window.positions
        return batch(
            {
                "n_nationkey": keys,
                "n_name": choice([name for name, _ in NATIONS], keys),
                "n_regionkey": np.array([region for _, region in NATIONS], np.int64)[keys],
                "n_comment": sentences(31, 114, self.noise("n_comment", keys)),
            }
        )

    def supplier(self, window: Window) -> pa.RecordBatch:
        keys = window.positions + 1
        return batch({**self._company("s", "Supplier", "s_suppkey", keys), "s_comment": self._text("s", keys, 25, 100)})

    def customer(self, window: Window) -> pa.RecordBatch:
        keys = window.positions + 1
        segment = between(0, len(SEGMENTS) - 1, self.noise("c_mktsegment", keys))
        return batch(
            {
                **self._company("c", "Customer", "c_custkey", keys),
                "c_mktsegment": choice(SEGMENTS, segment),
                "c_comment": self._text("c", keys, 29, 116),
            }
        )

    def _company(self, prefix: str, word: str, key: str, keys: Ints) -> dict[str, Any]:
        nation = between(0, len(NATIONS) - 1, self.noise(f"{prefix}_nationkey", keys))
        first, second, third = (
            between(10 ** (digits - 1), 10**digits - 1, self.noise(f"{prefix}_phone {index}", keys))
            for index, digits in enumerate((3, 3, 4))
        )
        return {
            key: keys,
            f"{prefix}_name": patterned(f"{word}#", (keys, 9)),
            f"{prefix}_address": addresses(10, 40, self.noise(f"{prefix}_address", keys)),
            f"{prefix}_nationkey": nation,
            f"{prefix}_phone": patterned((nation + 10, 2), "-", (first, 3), "-", (second, 3), "-", (third, 4)),
            f"{prefix}_acctbal": decimals(between(-999_99, 9999_99, self.noise(f"{prefix}_acctbal", keys))),
        }

    def _text(self, prefix: str, keys: Ints, low: int, high: int) -> pa.Array:
        return sentences(low, high, self.noise(f"{prefix}_comment", keys))

    def part(self, window: Window) -> pa.RecordBatch:
        keys = window.positions + 1
        maker = between(1, 5, self.noise("p_mfgr", keys))
        brand = maker * 10 + between(1, 5, self.noise("p_brand", keys))
        return batch(
            {
                "p_partkey": keys,
                "p_name": self._colors(keys),
                "p_mfgr": patterned("Manufacturer#", (maker, 1)),
                "p_brand": patterned("Brand#", (brand, 2)),
                "p_type": choice(TYPES, between(0, len(TYPES) - 1, self.noise("p_type", keys))),
                "p_size": integers(between(1, 50, self.noise("p_size", keys))),
                "p_container": choice(CONTAINERS, between(0, len(CONTAINERS) - 1, self.noise("p_container", keys))),
                "p_retailprice": decimals(_retail_price(keys)),
                "p_comment": self._text("p", keys, 5, 22),
            }
        )

    def _colors(self, keys: Ints) -> pa.Array:
        """Return five different colors for each part: the colors form a circle, and a random step separates them."""
        first, step = self.noise("p_name", keys), between(1, 22, self.noise("p_name step", keys))
        indexes = [(between(0, len(COLORS) - 1, first) + number * step) % len(COLORS) for number in range(5)]
        return pc.binary_join_element_wise(*(choice(COLORS, index) for index in indexes), " ")

    def partsupp(self, window: Window) -> pa.RecordBatch:
        keys = np.repeat(window.positions + 1, _SUPPLIERS_OF_A_PART)
        turn = np.tile(np.arange(_SUPPLIERS_OF_A_PART, dtype=np.int64), window.to - window.at)
        number = keys * _SUPPLIERS_OF_A_PART + turn
        return batch(
            {
                "ps_partkey": keys,
                "ps_suppkey": self._supplier_of(keys, turn),
                "ps_availqty": integers(between(1, 9999, self.noise("ps_availqty", number))),
                "ps_supplycost": decimals(between(1_00, 1000_00, self.noise("ps_supplycost", number))),
                "ps_comment": self._text("ps", number, 49, 198),
            }
        )

    def _supplier_of(self, parts: Ints, turn: Ints) -> Ints:
        """Return one of the four suppliers of each part; they differ even if there are few suppliers."""
        distance = self.suppliers // _SUPPLIERS_OF_A_PART
        shift = (parts - 1) // self.suppliers if self.suppliers > 300 else 0
        return (parts + turn * (distance + shift)) % self.suppliers + 1

    def order(self, window: Window) -> pa.RecordBatch:
        keys, versions, diff = self._turnover.changes(window)
        items = self._items(keys, versions)
        price = items.price * (100 - items.discount) // 100 * (100 + items.tax) // 100
        total = np.add.reduceat(price, items.begins) if len(keys) else price
        shipped = np.add.reduceat((items.shipped <= _TODAY).astype(np.int64), items.begins) if len(keys) else price
        status = np.where(shipped == items.counts, 0, np.where(shipped == 0, 1, 2))
        customer = between(0, self.customers - self.customers // 3 - 1, self.noise("o_custkey", keys, versions))
        columns = {
            "o_orderkey": _order_key(keys),
            "o_custkey": customer // 2 * 3 + customer % 2 + 1,  # a third of the customers have no orders
            "o_orderstatus": choice(("F", "O", "P"), status),
            "o_totalprice": decimals(total),
            "o_orderdate": days(self._ordered(keys, versions)),
            "o_orderpriority": choice(
                PRIORITIES, between(0, len(PRIORITIES) - 1, self.noise("o_orderpriority", keys, versions))
            ),
            "o_clerk": patterned("Clerk#", (between(1, self.clerks, self.noise("o_clerk", keys, versions)), 9)),
            "o_shippriority": integers(np.zeros(len(keys), np.int64)),
            "o_comment": sentences(19, 78, self.noise("o_comment", keys, versions)),
        }
        return batch(columns, diff if self.changes else None)

    def lineitem(self, window: Window) -> pa.RecordBatch:
        keys, versions, diff = self._turnover.changes(window)
        items = self._items(keys, versions)
        received = items.shipped + between(1, 30, items.noise("l_receiptdate"))
        returned = np.where(received > _TODAY, 0, between(1, 2, items.noise("l_returnflag")))
        ordered = np.repeat(self._ordered(keys, versions), items.counts)
        columns = {
            "l_orderkey": _order_key(np.repeat(keys, items.counts)),
            "l_partkey": items.part,
            "l_suppkey": self._supplier_of(items.part, between(0, 3, items.noise("l_suppkey"))),
            "l_linenumber": integers(items.number),
            "l_quantity": decimals(items.quantity * 100),
            "l_extendedprice": decimals(items.price),
            "l_discount": decimals(items.discount),
            "l_tax": decimals(items.tax),
            "l_returnflag": choice(("N", "R", "A"), returned),
            "l_linestatus": choice(("F", "O"), (items.shipped > _TODAY).astype(np.int64)),
            "l_shipdate": days(items.shipped),
            "l_commitdate": days(ordered + between(30, 90, items.noise("l_commitdate"))),
            "l_receiptdate": days(received),
            "l_shipinstruct": choice(INSTRUCTIONS, between(0, len(INSTRUCTIONS) - 1, items.noise("l_shipinstruct"))),
            "l_shipmode": choice(MODES, between(0, len(MODES) - 1, items.noise("l_shipmode"))),
            "l_comment": sentences(10, 43, items.noise("l_comment")),
        }
        return batch(columns, np.repeat(diff, items.counts) if self.changes else None)

    @property
    def _turnover(self) -> Turnover:
        stride = round(self.orders * 0.618) or 1
        while gcd(stride, self.orders) > 1:
            stride += 1
        return Turnover(self.orders, stride)

    def _ordered(self, keys: Ints, versions: Ints) -> Ints:
        return between(_FIRST_DAY, _LAST_DAY - 151, self.noise("o_orderdate", keys, versions))

    def _items(self, keys: Ints, versions: Ints) -> _Items:
        counts = between(1, _MOST_ITEMS, self.noise("items", keys, versions))
        begins = np.cumsum(counts) - counts
        number = np.arange(counts.sum(), dtype=np.int64) - np.repeat(begins, counts) + 1
        rows = (np.repeat(keys, counts) * (_MOST_ITEMS + 1) + number, np.repeat(versions, counts))
        part = between(1, self.parts, self.noise("l_partkey", *rows))
        quantity = between(1, 50, self.noise("l_quantity", *rows))
        ordered = np.repeat(self._ordered(keys, versions), counts)
        return _Items(
            self.seed,
            rows,
            counts,
            begins,
            number,
            part,
            quantity,
            quantity * _retail_price(part),
            between(0, 10, self.noise("l_discount", *rows)),
            between(0, 8, self.noise("l_tax", *rows)),
            ordered + between(1, 121, self.noise("l_shipdate", *rows)),
        )


@dataclass(frozen=True, slots=True)
class _Items:
    """The order items with the columns that `orders` needs, too; order i has `counts[i]` items, from `begins[i]` on."""

    seed: int
    rows: tuple[Ints, Ints]
    counts: Ints
    begins: Ints
    number: Ints
    part: Ints
    quantity: Ints
    price: Ints
    discount: Ints
    tax: Ints
    shipped: Ints

    def noise(self, column: str) -> Words:
        return noise(self.seed, column, *self.rows)


def _retail_price(parts: Ints) -> Ints:
    """Return the price of parts, in hundredths."""
    return 90_000 + parts // 10 % 20_001 + 100 * (parts % 1000)


def _order_key(numbers: Ints) -> Ints:
    """Return keys from numbers that start at 0: the benchmark uses the first 8 of every 32 keys."""
    numbers = numbers + 1
    return (numbers >> 3 << 5) | (numbers & 7)


REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")

NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4),
    ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
"""Names, and the keys of their regions."""

SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")

TYPES = tuple(
    " ".join(words)
    for words in product(
        ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
        ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
        ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
    )
)
CONTAINERS = tuple(
    " ".join(words)
    for words in product(
        ("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
    )
)
_COLORS = (
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse "
    "chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest "
    "frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light "
    "lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale "
    "papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky "
    "slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow"
)
COLORS = tuple(_COLORS.split())
