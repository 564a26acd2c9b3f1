"""Queries with inserted, doubled, replaced and deleted words, and whether Postgres's grammar accepts each.

`python -m language.postgres_grammar`, run in the tests' folder, writes them to `postgres_grammar.jsonl`. It needs
pglast, the grammar of Postgres 18 as a library; the tests do not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

from golden import casefile
from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.parser import parse
from sinkql.parser.read import lexer
from sinkql.planner.syntax import sqlglot_tree
from support.keywords import WORDS

HERE = Path(__file__).parent
_FILE = HERE / "postgres_grammar.jsonl"
_LONGEST = 300
_TRIED = 40_000
_KEPT = {(False, True): 1_500, (False, False): 1_000, (True, True): 1_000}
_WORDS = (
    "a", "1", "'x'", ",", "(", ")", ".", "=", ">", "<", "AS", "IS", "NOT", "NULL", "AND", "OR", "IN", "LIKE", "BETWEEN",
    "FROM", "WHERE", "SELECT", "ON", "JOIN", "LEFT", "::", "::int", "+", "-", "||", "->", "[", "]", "[1]", ":",
    "DISTINCT", "ALL", "FILTER", "OVER", "(a > 1)", "CASE", "WHEN", "THEN", "ELSE", "END", "*", '"q"', "GROUP BY",
    "HAVING", "UNION", "LIMIT", "ORDER BY", "DESC", "INTERVAL", "date", "b", "t", "USING", "LATERAL", "COLLATE",
    "AT TIME ZONE", "ANY", "VALUES", "WITH", "OFFSET", "ISNULL", "TRUE", "~", "count", "f(a)", "ESCAPE", "SYMMETRIC",
    "ARRAY", "ROW", "EXISTS", "NULLS", "FIRST", "ONLY", "NATURAL", "CROSS", "FULL", "WINDOW", "FOR", "#", "@>", "<<",
    "=>", "e", "1e5", "IS NOT", "IS DISTINCT FROM", "NOT IN", "RLIKE", "q q",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A query, and whether Postgres's grammar accepts it."""

    text: str
    right: bool


def judged() -> tuple[Judged, ...]:
    """Return the queries of the file."""
    return tuple(Judged(**json.loads(line)) for line in _FILE.read_text("utf-8").splitlines())


def accepted(text: str) -> bool:
    """Return whether SinkQL's parser accepts a text as a query."""
    try:
        sqlglot_tree.parse(ast.Query(text, Span(0, len(text))))
    except SinkqlError:
        return False
    return True


def _queries() -> tuple[str, ...]:
    """Return the queries of the golden files and of the vectors."""
    found: set[str] = set()
    for file in sorted((HERE.parent / "golden").rglob("*.txt")):
        for case in casefile.read(file.read_text("utf-8"))[0]:
            try:
                statements = parse(case.input or "", WORDS)
            except SinkqlError:
                continue
            queries = [getattr(each, "query", None) for each in statements]
            found |= {each.text for each in queries if isinstance(each, ast.Query)}
    vectors = (HERE.parent / "expressions" / "vectors.jsonl").read_text("utf-8").splitlines()
    for vector in vectors:
        sql = json.loads(vector)["sql"]
        found.add(sql if sql.upper().startswith(("SELECT", "WITH")) else f"SELECT {sql}")
    return tuple(sorted(each for each in found if len(each) < _LONGEST))


def changed(text: str, random: Random) -> str:
    """Insert, double, replace or delete a word of a text, once or twice."""
    for _ in range(random.choice((1, 1, 1, 2))):
        try:
            found = [(each.start, each.end) for each in lexer.scan(text) if each.end > each.start]
        except SinkqlError:
            return text
        if not found:
            return text
        start, end = random.choice(found)
        other = text[slice(*random.choice(found))]
        text = random.choice((
            text[:start] + text[end:],
            f"{text[:end]} {text[start:end]}{text[end:]}",
            text[:start] + random.choice(_WORDS) + text[end:],
            f"{text[:start]}{random.choice(_WORDS)} {text[start:]}",
            f"{text[:end]} {random.choice(_WORDS)}{text[end:]}",
            text[:start] + other + text[end:],
        ))  # fmt: skip
    return text


def _written() -> Iterator[Judged]:
    import pglast  # type: ignore[import-not-found]  # installed only to write the file

    def right(text: str) -> bool:
        try:
            pglast.parse_sql(text)
        except pglast.parser.ParseError:
            return False
        return True

    random, texts = Random(7), _queries()
    left = dict(_KEPT)
    seen = set()
    for _ in range(_TRIED):
        text = changed(random.choice(texts), random)
        if text in seen or "\0" in text:
            continue
        seen.add(text)
        with patch.object(sqlglot_tree, "_cross_check"):
            lenient = accepted(text)
        kind = (right(text), lenient)
        if left.get(kind, 0) and (not kind[0] or accepted(text)):
            left[kind] -= 1
            yield Judged(text, kind[0])


if __name__ == "__main__":
    lines = [json.dumps({"text": each.text, "right": each.right}, ensure_ascii=False) for each in _written()]
    _FILE.write_text("\n".join(lines) + "\n", "utf-8")
    sys.stdout.write(f"{len(lines)} queries\n")
