"""TPC-H's tables with the columns that its queries q3, q5 and q8 use, as JSON lines.

The rows have uniform distributions like TPC-H's own, four lines an order, ten orders a customer.
"""

from __future__ import annotations

import numpy as np

from bench.common import ROOT

TABLES = {
    "region": "r_regionkey integer NOT NULL, r_name text NOT NULL, PRIMARY KEY (r_regionkey) NOT ENFORCED",
    "nation": "n_nationkey integer NOT NULL, n_name text NOT NULL, n_regionkey integer NOT NULL, "
    "PRIMARY KEY (n_nationkey) NOT ENFORCED",
    "supplier": "s_suppkey integer NOT NULL, s_nationkey integer, PRIMARY KEY (s_suppkey) NOT ENFORCED",
    "customer": "c_custkey integer NOT NULL, c_nationkey integer, c_mktsegment text, "
    "PRIMARY KEY (c_custkey) NOT ENFORCED",
    "part": "p_partkey integer NOT NULL, p_type text, PRIMARY KEY (p_partkey) NOT ENFORCED",
    "orders": "o_orderkey bigint NOT NULL, o_custkey integer, o_orderdate date, o_shippriority integer, "
    "PRIMARY KEY (o_orderkey) NOT ENFORCED",
    "lineitem": "l_orderkey bigint NOT NULL, l_partkey integer, l_suppkey integer, l_extendedprice numeric(15,2), "
    "l_discount numeric(15,2), l_shipdate date",
}
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_TYPES = tuple(
    f"{size} {finish} {metal}"
    for size in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for finish in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for metal in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
)
_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = 25


def query(name: str) -> str:
    """Return a query of `tests/views/tpch.sql`."""
    text = (ROOT / "tests/views/tpch.sql").read_text()
    return text.split(f"-- {name}\n")[1].split(";")[0]


class Orders:
    """A generator of orders with their lines, and of the rows that these reference."""

    def __init__(self, orders: int) -> None:
        self._orders, self._next = orders, 1
        self._random = np.random.default_rng(8)
        self._customers, self._parts, self._suppliers = orders // 10, orders * 2 // 15, max(orders // 150, 10)

    def base(self) -> dict[str, list[str]]:
        """Return the lines of all tables by name, with the generator's number of orders."""
        nation = self._random.integers(0, _NATIONS, self._customers + 1).tolist()
        return {
            "region": [f'{{"r_regionkey":{i},"r_name":"{each}"}}\n' for i, each in enumerate(_REGIONS)],
            "nation": [
                f'{{"n_nationkey":{i},"n_name":"{"BRAZIL" if i == 1 else f"N{i}"}","n_regionkey":{i % 5}}}\n'
                for i in range(_NATIONS)
            ],
            "supplier": [f'{{"s_suppkey":{i},"s_nationkey":{i % 25}}}\n' for i in range(1, self._suppliers + 1)],
            "customer": [
                f'{{"c_custkey":{i},"c_nationkey":{nation[i]},"c_mktsegment":"{_SEGMENTS[i * 7 % 5]}"}}\n'
                for i in range(1, self._customers + 1)
            ],
            "part": [f'{{"p_partkey":{i},"p_type":"{_TYPES[i % 150]}"}}\n' for i in range(1, self._parts + 1)],
            **self.some(self._orders),
        }

    def some(self, count: int) -> dict[str, list[str]]:
        """Return `count` new orders with their lines."""
        random, first = self._random, self._next
        self._next += count
        many = np.full(count, 4) if count > 250 else np.full(count, 3)
        days = random.integers(0, 2_400, count)
        dates = (np.datetime64("1992-01-01") + days).astype(str).tolist()
        customer = random.integers(1, self._customers + 1, count).tolist()
        orders = [
            f'{{"o_orderkey":{first + i},"o_custkey":{customer[i]},"o_orderdate":"{dates[i]}","o_shippriority":0}}\n'
            for i in range(count)
        ]
        of = np.repeat(np.arange(count), many)
        shipped = (np.datetime64("1992-01-01") + days[of] + random.integers(1, 122, len(of))).astype(str).tolist()
        part, supplier = (random.integers(1, most + 1, len(of)).tolist() for most in (self._parts, self._suppliers))
        price, discount = (
            random.integers(90_000, 10_000_000, len(of)).tolist(),
            random.integers(0, 11, len(of)).tolist(),
        )
        lines = [
            f'{{"l_orderkey":{first + order},"l_partkey":{part[i]},"l_suppkey":{supplier[i]},'
            f'"l_extendedprice":{price[i] // 100}.{price[i] % 100:02},"l_discount":0.{discount[i]:02},'
            f'"l_shipdate":"{shipped[i]}"}}\n'
            for i, order in enumerate(of.tolist())
        ]
        return {"orders": orders, "lineitem": lines}
