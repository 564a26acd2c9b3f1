"""A statement is lexed, parsed and planned once; spans in its plan refer to the stored text."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import CodeType, FrameType
from typing import Any

import pytest
from sqlglot.parsers.postgres import PostgresParser

from sinkql import ast, physical
from sinkql.errors import Span
from sinkql.parser.read import lexer
from sinkql.planner.item.statement import plan
from sinkql.planner.query.plan import plan_one_shot
from sinkql.planner.query.select import plan_select
from sinkql.planner.syntax.grammar import select
from sinkql.session import Session

from .script import COUNTER, LAKE

_VIEW = "CREATE MATERIALIZED VIEW v AS SELECT counter, 100 / (counter - 77) AS q FROM n WHERE counter <> 5;"
_TABLE = "CREATE TABLE t (id bigint, name text);"


@contextmanager
def calls(**functions: Callable[..., Any]) -> Iterator[Counter[str]]:
    """Count the calls of functions within the block; lexemes that the query grammar reads are not counted."""
    found: Counter[str] = Counter()
    names: dict[CodeType, str] = {function.__code__: name for name, function in functions.items()}

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in names:
            found[names[frame.f_code]] += 1
        elif event == "call" and frame.f_code is select.read.__code__ and "lexemes" in functions:
            found["lexemes"] -= sum(lexeme.kind != "END" for lexeme in frame.f_locals["lexemes"])

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(before)


_ONCE = {"lexemes": lexer._lexeme, "parsed": PostgresParser.parse, "planned": plan_select}


def _lexemes(text: str) -> int:
    return sum(lexeme.kind != "END" for lexeme in lexer.scan(text))


def test_a_view_is_lexed_parsed_and_planned_once(session: Session) -> None:
    session.execute(COUNTER)
    with calls(**_ONCE, items=plan) as found:
        session.execute(_VIEW)
        assert session.sinks() == ()  # reads the catalog again, and plans nothing
    assert found == {"lexemes": _lexemes(_VIEW), "parsed": 1, "planned": 1, "items": 1}


@pytest.mark.parametrize(
    "text",
    [
        "CREATE SOURCE s (a bigint) FROM FILES (PATH = 'in') FORMAT JSON;",
        "CREATE CLUSTER c (SIZE = 'local[1]');",
        "CREATE SECRET s AS 'hush';",
        "CREATE TABLE t (id bigint PRIMARY KEY);",
    ],
)
def test_an_item_that_asks_nobody_is_lexed_and_planned_once(session: Session, text: str) -> None:
    with calls(lexemes=lexer._lexeme, items=plan) as found:
        session.execute(text)
    assert found == {"lexemes": _lexemes(text), "items": 1}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t WHERE id > 1 ORDER BY name, id DESC LIMIT 2;",
        "SELECT name AS a, id FROM t ORDER BY 2, a, id + 1;",
        "INSERT INTO t SELECT id, name FROM t ORDER BY id;",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b');",
    ],
)
def test_a_query_that_runs_is_lexed_parsed_and_planned_once(session: Session, text: str) -> None:
    session.execute(_TABLE)
    with calls(**_ONCE) as found:
        session.execute(text)
    planned = {} if "VALUES" in text else {"planned": 1}
    assert found == {"lexemes": _lexemes(text), "parsed": 1, **planned}


@pytest.mark.parametrize(
    ("text", "width", "places"),
    [
        ("SELECT name, count(*) FROM t GROUP BY name ORDER BY max(id), name", 2, [2, 0]),
        ("SELECT id, id FROM t ORDER BY id * 2, 1, length(name)", 2, [2, 0, 3]),
        ("SELECT count(*) AS n FROM t HAVING count(*) > 1 ORDER BY min(id)", 1, [1]),
        ("SELECT id FROM t UNION ALL SELECT 1 ORDER BY id", 1, [0]),
        ("VALUES (1, 2), (3, 4) ORDER BY column2", 2, [1]),
    ],
)
def test_an_ordered_query_is_planned_once(session: Session, text: str, width: int, places: list[int]) -> None:
    session.execute(_TABLE)
    query = ast.Query(text, Span(0, len(text)))
    with calls(parsed=PostgresParser.parse, planned=plan_one_shot, selects=plan_select) as found:
        once = plan_one_shot(query, session.catalog.plans, datetime(2026, 1, 1))
    assert (once.width, [order.place for order in once.order]) == (width, places)
    assert found == {"parsed": 1, "planned": 1} | ({"selects": text.count("SELECT")} if "SELECT" in text else {})
    assert plan_one_shot(query, session.catalog.plans, datetime(2026, 1, 1)).relation == once.relation


@pytest.mark.parametrize("change", ["UPDATE t SET id = id + 1 WHERE name = 'a';", "DELETE FROM t WHERE id = 1;"])
def test_an_expression_is_lexed_and_parsed_once(session: Session, change: str) -> None:
    session.execute(_TABLE)
    with calls(lexemes=lexer._lexeme, parsed=PostgresParser.parse) as found:
        session.execute(change)
    assert found == {"lexemes": _lexemes(change), "parsed": change.count("SET") + change.count("WHERE")}


def test_what_a_plan_points_at_is_found_in_the_text_that_is_stored(session: Session) -> None:
    session.execute(
        f"{LAKE}{COUNTER}-- a comment moves all that follows\nSELECT 1;{_VIEW}"
        "CREATE SINK s FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 'b') MODE APPEND"
        " WITH (COMMIT INTERVAL = '2s');"
    )
    written = _written(session.jobs()[0])
    assert written == ["counter <> 5", "counter", "100 / (counter - 77)"]
    assert session.jobs() == Session().jobs()


def _written(job: physical.Job) -> list[str]:
    """Return the source texts of a job's expressions."""
    body = job.write.input
    assert isinstance(body, physical.Map)
    assert body.where is not None
    origins = [output.origin for output in (body.where, *body.outputs)]
    return [job.texts[origin.item][origin.start : origin.end] for origin in origins if origin is not None]
