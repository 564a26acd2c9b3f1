"""Random queries over a system relation, with Postgres 18's results.

`python -m session.system_queries CONNINFO CATALOG`, run in the tests' folder, writes `system_queries.jsonl`. It needs
psycopg and a database of Postgres 18 (initdb --locale-provider=builtin --locale=C.UTF-8), and creates a table like the
relation there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path
from random import Random
from typing import Any

_FILE = Path(__file__).with_name("system_queries.jsonl")
_COUNT = 1_500
_PLACES, _EXACT = Decimal(1).scaleb(-10), Context(prec=200)
TABLE = """CREATE TABLE u (
  "12" bigint NOT NULL DEFAULT 5, "007" text, " 3 " text DEFAULT 'x', "1e3" boolean DEFAULT true,
  "true" integer NOT NULL,
  "no" text, "abc" text, "AbC" timestamp, "größe" date, "a%b_c" numeric(5,2) DEFAULT 1.5, "it's" real,
  "9999999999999999999" integer DEFAULT 7, "-1.5" uuid, "2024-02-29" text DEFAULT 'é', "a\\b" bytea
);
"""
"""The table that the relation describes; some of its names are valid inputs of casts."""
ROWS = "mz_columns"
_COLUMNS = ("name", "type", '"default"')
_TEXTS = (
    "''",
    "'a'",
    "'AbC'",
    "'a%'",
    "'_b%'",
    "'12'",
    "' 3 '",
    "'x'",
    "'%e%'",
    "'bigint'",
    "E'a\\\\b'",
    "NULL",
    "'ß'",
)
_WHOLE = ("«0»", "«1»", "«2»", "«-3»", "«7»", "«2147483647»", "«9223372036854775807»", "NULL", "'5'", "'x'")
"""Values in marks are sent to Postgres as subqueries, or it would evaluate them, and fail, while it plans."""
_BOOLEANS = ("true", "false", "NULL", "nullable", "'yes'", "'maybe'")
_TYPES = ("int", "bigint", "smallint", "boolean", "numeric", "text", "double precision", "date", "bytea", "uuid")


@dataclass(frozen=True, slots=True)
class Judged:
    """A query and its rows; None if Postgres refuses the query."""

    sql: str
    rows: tuple[tuple[Any, ...], ...] | None


def judged() -> tuple[Judged, ...]:
    """Return the queries of the file."""
    found = (json.loads(line) for line in _FILE.read_text("utf-8").splitlines())
    return tuple(Judged(sql, None if rows is None else tuple(map(tuple, rows))) for sql, rows in found)


def plain(rows: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Return rows as JSON holds them; numerics become texts with ten fraction digits, SinkQL's limit."""
    return tuple(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            shown = format(value.quantize(_PLACES, context=_EXACT), "f")
            return "numeric " + (shown.rstrip("0").rstrip(".") if "." in shown else shown)
        case bytes():
            return f"\\x{value.hex()}"
        case bool() | int() | float() | str() | None:
            return value
    return str(value)


class _Queries:
    """Random queries; some are wrong."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def query(self) -> str:
        chance = self._random
        some = f"id = 'u1' AND position <= {chance.randint(1, 15)}"
        kind = chance.random()
        if kind < 0.7:
            return f"SELECT {self.any(3)} FROM {ROWS} WHERE {some} ORDER BY position"
        if kind < 0.8:
            return f"SELECT name FROM {ROWS} WHERE id = 'u1' AND {self.boolean(2)} ORDER BY position"
        if kind < 0.9:
            return f"SELECT name FROM {ROWS} WHERE {some} ORDER BY {self.any(2)} {self._order()}, position"
        key, total = self.any(1), self._aggregate()
        return f"SELECT {key}, {total} FROM {ROWS} WHERE {some} GROUP BY {key} ORDER BY 1 {self._order()}, 2"

    def _order(self) -> str:
        return self._random.choice(("", "", "DESC", "NULLS FIRST", "DESC NULLS LAST"))

    def _aggregate(self) -> str:
        kind = self._random.choice(("count(*)", "count({})", "min({})", "max({})", "count(DISTINCT {})",
                                    "sum(position)", "bool_or(nullable)", "avg(position)", "sum({})"))  # fmt: skip
        return kind.format(self.any(1))

    def any(self, depth: int) -> str:
        """Return an expression of a random type; it may be invalid."""
        return self._random.choice((self.text, self.text, self.whole, self.boolean, self._cast))(depth)

    def text(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.2:
            return self._random.choice((*_COLUMNS, *_COLUMNS, *_TEXTS))
        return self._made(
            depth,
            ("({t} || {t})", "({t} || {w})", "upper({t})", "lower({t})", "left({t}, {w})", "right({t}, {w})",
             "btrim({t})", "replace({t}, {t}, {t})", "substring({t}, {w})", "substring({t} FROM {w} FOR 2)",
             "coalesce({t}, {t})",
             "nullif({t}, {t})", "CASE WHEN {b} THEN {t} ELSE {t} END", "split_part({t}, '_', 1)", "reverse({t})",
             "greatest({t}, {t})", "lpad({t}, 5, 'xy')", "concat({t}, {w}, {b})", "CASE {t} WHEN {t} THEN {t} END",
             "({b})::text", "({w})::text", "md5({t})", "translate({t}, 'ab', 'x')", "repeat({t}, 2)"),
        )  # fmt: skip

    def whole(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.2:
            return self._random.choice(("position", "position", *_WHOLE))
        return self._made(
            depth,
            ("({w} + {w})", "({w} - {w})", "({w} * {w})", "({w} / {w})", "({w} % {w})", "length({t})", "abs({w})",
             "coalesce({w}, {w})", "strpos({t}, {t})", "octet_length({t})", "({t})::int",
             "CASE WHEN {b} THEN {w} ELSE {w} END", "-({w})", "({w} & {w})", "ascii({t})", "least({w}, {w})",
             "({w} / 2.0)", "round({w} / 3.0, 2)", "({b})::int", "position({t} IN {t})"),
        )  # fmt: skip

    def boolean(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.1:
            return self._random.choice(_BOOLEANS)
        return self._made(
            depth,
            ("({t} = {t})", "({t} < {t})", "({t} >= {t})", "({w} = {w})", "({w} < {w})", "({w} <> {w})", "({t} = {w})",
             "({t} LIKE {t})", "({t} NOT LIKE '%e%')", "({t} ILIKE {t})", "({t} IS NULL)", "({b} IS NOT TRUE)",
             "({b} AND {b})", "({b} OR {b})", "(NOT {b})", "({t} IN ({t}, {t}))", "({w} IN ({w}, {w}))",
             "({w} BETWEEN {w} AND {w})", "({t} IS DISTINCT FROM {t})", "({t} ~ '^[a-z]+$')", "({t} ~* 'B')",
             "({t} !~ '[0-9]')", "({b} = {b})", "({b} > {b})", "({t} NOT IN ({t}, NULL))", "({t})::boolean",
             "starts_with({t}, {t})", "({t} = ANY (ARRAY[{t}, {t}]))", "({b} = {w})", "({t} > {b})",
             "EXISTS (SELECT 1 FROM mz_columns AS o WHERE o.id = 'u1' AND o.position = {w})",
             "({t} IN (SELECT o.name FROM mz_columns AS o WHERE o.id = 'u1'))"),
        )  # fmt: skip

    def _cast(self, depth: int) -> str:
        inner = self._random.choice((self.text, self.whole, self.boolean))(max(depth - 1, 0))
        return f"CAST({inner} AS {self._random.choice(_TYPES)})"

    def _made(self, depth: int, forms: Sequence[str]) -> str:
        makers: dict[str, Callable[[int], str]] = {"{t}": self.text, "{w}": self.whole, "{b}": self.boolean}
        found = self._random.choice(forms)
        for placeholder, make in makers.items():
            while placeholder in found:
                found = found.replace(placeholder, make(depth - 1), 1)
        return found


def _write(connection: str) -> None:
    import psycopg

    from sinkql.session import Session

    with Session(Path(sys.argv[2])) as session:
        session.execute(TABLE)
        rows = session.execute(f'SELECT id, name, position, nullable, type, "default" FROM {ROWS}')[0].rows
    with psycopg.connect(connection, autocommit=True) as postgres:
        postgres.execute(f"DROP TABLE IF EXISTS {ROWS}")
        columns = 'id text, name text, position bigint, nullable boolean, type text, "default" text'
        postgres.execute(f"CREATE TABLE {ROWS} ({columns})")
        with postgres.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {ROWS} VALUES (%s, %s, %s, %s, %s, %s)", rows)
        random = Random(3)
        queries = dict.fromkeys(_Queries(random).query() for _ in range(_COUNT))
        marked = re.compile("«([^»]*)»")
        lines = []
        for sql in queries:
            try:
                found: Any = plain(postgres.execute(marked.sub(r"(SELECT \1)", sql).encode()).fetchall())
            except psycopg.Error:
                found = None
            lines.append(json.dumps([marked.sub(r"\1", sql), found], ensure_ascii=False))
    _FILE.write_text("\n".join(lines) + "\n", "utf-8")
    sys.stdout.write(f"{len(lines)} queries\n")


if __name__ == "__main__":
    _write(sys.argv[1])
