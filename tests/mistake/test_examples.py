"""Each hint of a query that names SQL has an example: a query that fails with the hint, and its corrected form.

If the wrong query no longer fails, the test fails: remove the hint. A hint without an example fails too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.string import TextLoader

from golden import casefile
from golden.test_golden import FILES
from mistake.source_hint import SourceHint, hints
from mistake.value import shown
from sinkql import codec
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.row import query as query_rows
from support.postgres import Postgres

_QUERIES = ("planner/query", "planner/expression", "planner/function", "planner/syntax/", "evaluate/cast")
_STATEMENTS = ("planner/item", "planner/edit", "planner/name", "planner/scope", "planner/subsource", "parser/transform")
_TABLES = """
CREATE TABLE t (id int PRIMARY KEY, a int, b int, s text, n numeric(12, 2), d double precision, w real, at timestamp,
  tz timestamptz, day date, j jsonb, x int[], r int4range, yes boolean);
CREATE TABLE u (id int, a int, c int);
CREATE TABLE spans (id int, until timestamptz);
INSERT INTO t VALUES
  (1, 1, 2, 'b', 1.5, 0.5, 0.25, timestamp '2024-02-29 12:00:00', timestamptz '2024-02-29 11:00:00Z',
   date '2024-02-29', '{"key": "v"}', '{1,2}', '[1,5)', true),
  (2, 2, 2, 'a', -2, 2, 2, timestamp '2024-03-01 00:00:00', timestamptz '2024-03-01 00:00:00Z',
   date '2024-03-01', '{"key": "w"}', '{}', '[2,3)', false),
  (3, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO u VALUES (1, 2, 2), (3, 1, 3), (7, 7, 7);
"""
_MAPS = "CREATE TABLE maps (id int, m map[text => int], l int list); CREATE TABLE notes (id int);"


@dataclass(frozen=True, slots=True)
class _Example:
    """A query that fails with a hint, and the query that the hint suggests; `other` is why their rows differ."""

    wrong: str
    right: str
    other: str | None = None


def _examples() -> list[_Example]:
    found = tomllib.loads(Path(__file__).with_name("examples.toml").read_text("utf-8"))
    return [codec.convert(each, _Example) for each in found["query"]]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    found = Session(tmp_path_factory.mktemp("examples") / "catalog.db")
    found.execute(_TABLES + _MAPS)
    return found


class _SparkError(Exception):
    """A query needs Spark."""


def _no_spark(*_args: Any) -> Any:
    raise _SparkError


def _error(run: Callable[[], object]) -> SinkqlError | None:
    try:
        run()
    except SinkqlError as error:
        return error
    return None


def _planned(session: Session, query: str) -> SinkqlError | None:
    """Return the error that refuses a query or a statement; None if it is accepted."""
    if query.startswith("INSERT"):
        return _error(lambda: session.execute(f"{query};"))
    error = _error(lambda: session.execute(f"CREATE VIEW v AS {query};"))
    if error is None:
        session.execute("DROP VIEW v;")
    return error


def _rows(session: Session, query: str) -> Sequence[Sequence[Any]] | None:
    """Return the rows of a query; None if computing them needs Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_rows, "by_spark", _no_spark)
        try:
            return session.execute(f"{query};")[-1].rows
        except _SparkError:
            return None


def _refusal(session: Session, example: _Example) -> SinkqlError | None:
    """Return the error of an example, from planning the query or from computing a row."""
    error = _planned(session, example.wrong)
    return error if error is not None else _error(lambda: _rows(session, example.wrong))


@pytest.fixture(scope="module")
def refusals(session: Session) -> dict[str, SinkqlError | None]:
    return {each.wrong: _refusal(session, each) for each in _examples()}


def test_each_example_is_refused_with_a_hint_and_runs_as_that_says(
    session: Session, refusals: dict[str, SinkqlError | None]
) -> None:
    accepted = [wrong for wrong, error in refusals.items() if error is None]
    assert not accepted, f"these hints are out of date: {accepted}"
    unhelped = [wrong for wrong, error in refusals.items() if error is not None and not error.hint]
    assert not unhelped
    refused = {each.right: error for each in _examples() if (error := _planned(session, each.right)) is not None}
    assert not refused


def test_each_hint_of_queries_has_an_example(refusals: dict[str, SinkqlError | None]) -> None:
    given = [error.hint or "" for error in refusals.values() if error is not None]
    missing = [each for each in hints(*_QUERIES) if not any(each.is_shown(hint) for hint in given)]
    missing = [each for each in missing if not _in_goldens(each, of="statement")]
    assert not missing, "\n".join(f"{each.file}: {each.text}" for each in missing)


def test_each_hint_of_statements_is_in_a_golden() -> None:
    missing = [each for each in hints(*_STATEMENTS) if not _in_goldens(each)]
    assert not missing, "\n".join(f"{each.file}: {each.text}" for each in missing)


def _in_goldens(hint: SourceHint, of: str = "") -> bool:
    return of in hint.file and any(hint.is_shown(each) for each in _golden_hints())


def _golden_hints() -> list[str]:
    if not _GOLDEN:
        for path in FILES:
            for case in casefile.read(path.read_text("utf-8"))[0]:
                _GOLDEN.extend(re.findall(r"^(?:hint|detail): (.*)", case.output, re.MULTILINE))
    return _GOLDEN


_GOLDEN: list[str] = []


def test_hints_lead_to_what_was_meant(session: Session, postgres: Postgres) -> None:
    """If Postgres accepts the wrong query, both queries return the same rows. SinkQL agrees with Postgres."""
    judged, wrong = {"both": 0, "one": 0}, []
    with _server(postgres) as server:
        for example in _examples():
            meant, right = _expected(server, example.wrong), _expected(server, example.right)
            rows = _rows(session, example.right) if "mz_now" not in example.right else None
            ours = None if rows is None else _table(rows)
            if right is None:
                continue
            judged["both" if meant is not None else "one"] += 1
            if meant is not None and meant != right and example.other is None:
                wrong.append((example, meant, right))
            if ours is not None and ours != right:
                wrong.append((example, ours, right))
    assert not wrong, "\n".join(map(str, wrong))
    assert judged["both"] >= 25, judged
    assert sum(judged.values()) >= 60, judged


@contextmanager
def _server(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection with the tables in a temporary schema."""
    with postgres.connect() as server:
        server.adapters.register_loader("jsonb", TextLoader)
        server.adapters.register_loader("int4range", TextLoader)
        server.adapters.register_loader("interval", TextLoader)
        server.execute("CREATE SCHEMA examples; SET search_path = examples; SET TimeZone = 'UTC'")
        server.execute(_TABLES)
        try:
            yield server
        finally:
            server.execute("DROP SCHEMA examples CASCADE")


def _expected(server: psycopg.Connection[Any], query: str) -> list[tuple[str, ...]] | None:
    try:
        return _table(server.execute(query).fetchall())
    except psycopg.Error:
        return None


def _table(rows: Sequence[Sequence[Any]]) -> list[tuple[str, ...]]:
    return sorted(tuple(shown(value) for value in row) for row in rows)
