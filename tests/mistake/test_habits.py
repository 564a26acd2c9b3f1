"""Each dialect hint is found in its example; the rewrite that it suggests runs and means the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import psycopg
import pytest
from psycopg.types.string import TextLoader

from golden import broken
from mistake.value import shown
from sinkql.errors import SinkqlError
from sinkql.parser.hint.other_dialects import Call, Form, habits
from sinkql.planner.function import call as functions
from sinkql.planner.function import set_returning
from sinkql.session import Session
from sinkql.session.row import query as query_rows
from support.postgres import Postgres

_REWRITES = re.compile(r"(Write|Use|Begin|Group|Put|Run|Compare|Guard|Multiply) ")
_SHELL = re.compile(r"sinkql \w+")
_STATEMENTS = ("CREATE", "INSERT", "UPDATE")
_CALLS = [each for each in habits().function if each.write]
# tables with a few rows, for the names and columns that the examples use
_ROWS = """
CREATE TABLE orders (id bigint, customer text, amount numeric(10, 2), status text, created_at timestamp);
CREATE TABLE clicks (url text, user_id bigint, clicked_at timestamp);
CREATE TABLE big (id bigint, amount numeric(10, 2));
INSERT INTO orders VALUES
  (1, '12', 10, 'paid', timestamp '2024-02-29 12:34:56'), (2, 'aa', 20, 'open', timestamp '2024-03-01 00:00:00'),
  (3, NULL, NULL, 'paid', NULL), (1, 'b', 30, NULL, timestamp '2024-03-02 00:00:00');
INSERT INTO clicks VALUES ('/a', 1, timestamp '2024-02-29 12:00:00'), ('/b', 7, NULL);
INSERT INTO big VALUES (3, 1);
"""
# rewrites that Postgres does not support
_NOT_IN_POSTGRES = ("QUALIFY", "materialize.public")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    found = broken.prepared(tmp_path_factory.mktemp("habits"))
    found.execute("CREATE TABLE people (id bigint, name text); CREATE SCHEMA shop;")
    return found


@pytest.mark.parametrize("form", [*habits().statement, *habits().query], ids=lambda each: each.wrong[:50])
def test_form_elsewhere_is_refused_and_its_rewrite_runs(session: Session, form: Form) -> None:
    error = broken.run(session, _statement(form, form.wrong))
    assert error is not None
    assert error.code == form.code
    assert re.fullmatch(re.escape(form.message).replace(r"\{0\}", ".*"), error.message), error.message
    if form.right is None:
        assert not _REWRITES.match(error.hint or "") or _SHELL.search(error.hint or ""), error.hint
        return
    assert _says(error.hint or "", form.wrong, form.right), (error.hint, form.right)
    after = broken.run(session, _statement(form, form.right))
    session.execute("SET search_path = DEFAULT;")
    assert after is None, after


def _statement(form: Form, text: str) -> str:
    query = form in habits().query and not text.startswith(_STATEMENTS)
    return f"CREATE VIEW v AS {text};" if query else text


def _says(hint: str, wrong: str, right: str) -> bool:
    """Return whether `right` follows the hint: it has the hint's keywords, or leaves out words of `wrong`."""
    if re.search(r"\bLeave\b", hint) and set(re.findall(r"\w+", right)) < set(re.findall(r"\w+", wrong)):
        return True
    hint = re.sub(r"\b(NAME|OPTION)\b", "…", hint)
    alternatives = [re.findall(r"\b[A-Z][A-Z_]+\b", each) for each in re.split(r", |; | or | to | for ", hint)]
    return not any(alternatives) or any(each and {*each} <= set(re.findall(r"\w+", right)) for each in alternatives)


def test_rewrites_of_queries_give_what_was_meant(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> None:
    """DuckDB runs the original form if it supports it; Postgres and SinkQL run the rewrite. All rows are equal."""
    session = Session(tmp_path_factory.mktemp("rows") / "catalog.db")
    session.execute(_ROWS)
    duck = duckdb.connect()
    duck.execute(_ROWS)
    judged, wrong = {"duckdb": 0, "postgres": 0}, []
    with _server(postgres) as server:
        server.execute(_ROWS)
        for form in habits().query:
            if form.right is None or form.right.startswith(_STATEMENTS):
                continue
            ours = _of(session, form.right)
            found = [
                _expected(duck, form, judged),
                _expected(server, form, judged),
                None if ours is None else _table(ours),
            ]
            if len({tuple(each) for each in found if each is not None}) > 1:
                wrong.append((form.wrong, form.right, found))
    assert not wrong
    assert judged["duckdb"] >= 7, judged
    assert sum(judged.values()) >= 35, judged


def _expected(server: Any, form: Form, judged: dict[str, int]) -> list[tuple[str, ...]] | None:
    """Return the rows of a form in DuckDB, or of its rewrite in Postgres; None if the server does not support it."""
    duck = isinstance(server, duckdb.DuckDBPyConnection)
    text = form.wrong if duck else form.right
    if text is None or (not duck and any(each in text for each in _NOT_IN_POSTGRES)):
        return None
    try:
        rows = server.execute(text).fetchall()
    except (duckdb.Error, psycopg.errors.SyntaxError, psycopg.errors.UndefinedColumn):
        return None
    judged["duckdb" if duck else "postgres"] += 1
    return _table(rows)


def _of(session: Session, query: str) -> Sequence[Sequence[Any]] | None:
    """Return the rows of a query; None if computing them needs Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_rows, "by_spark", _no_spark)
        try:
            return session.execute(f"{query};")[-1].rows
        except _SparkError:
            return None


class _SparkError(Exception):
    """A query needs Spark."""


def _no_spark(*_args: Any) -> Any:
    raise _SparkError


def _table(rows: Sequence[Sequence[Any]]) -> list[tuple[str, ...]]:
    return sorted(tuple(shown(value) for value in row) for row in rows)


@contextmanager
def _server(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection with a temporary schema."""
    with postgres.connect() as server:
        server.adapters.register_loader("jsonb", TextLoader)
        server.execute("CREATE SCHEMA habits; SET search_path = habits; SET TimeZone = 'UTC'")
        try:
            yield server
        finally:
            server.execute("DROP SCHEMA habits CASCADE")


def test_calls_elsewhere_are_refused_and_their_rewrites_give_what_is_stated(session: Session) -> None:
    by_spark: list[str] = []
    for call in _CALLS:
        assert call.gives, f"{call.call}: the expected values are missing"
        with pytest.raises(SinkqlError) as caught:
            session.execute(f"{_query(call, call.call)};")
        assert f"Write {call.write} for {call.call}." == caught.value.hint
        found = _of(session, _query(call, call.write or ""))
        by_spark += [] if found is not None else [call.call]
        assert found is None or list(call.gives) == [shown(row[0]) for row in found], call
    assert len(by_spark) <= 40, by_spark  # Postgres checks their values below; the grid of all functions checks Spark's


def test_rewrites_of_calls_mean_the_same_in_postgres(postgres: Postgres) -> None:
    with _server(postgres) as server:
        for call in _CALLS:
            rows = server.execute(_query(call, call.write or "")).fetchall()
            assert list(call.gives) == [shown(row[0]) for row in rows], call


def test_what_calls_give_is_what_duckdb_gives_for_those_that_it_has() -> None:
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    compared = []
    for call in _CALLS:
        if (
            "json" in f"{call.columns}{call.write}" or "bytea" in call.columns
        ):  # JSON is text in DuckDB, and bytes are written differently
            continue
        try:
            rows = duck.execute(_query(call, call.call)).fetchall()
        except duckdb.Error:
            continue
        theirs = [shown(row[0]) for row in rows]
        assert list(call.gives) == theirs or sorted(theirs[0]) == sorted(call.gives[0]), (call, rows)
        compared.append(call.name)
    assert len(compared) >= 40, compared


def _query(call: Call, expression: str) -> str:
    """Return the query of an expression over the rows of a call's example."""
    columns = [each.split(" ", 1) for each in re.split(r", (?=\w+ )", call.columns)]
    names = ", ".join(name for name, _ in columns)
    cast = ", ".join(f"{name}::{type_} AS {name}" for name, type_ in columns)
    return f"SELECT {expression} AS x FROM (SELECT {cast} FROM (VALUES {call.rows}) AS v ({names})) AS t"


def test_advice_that_has_a_call_in_it_names_what_is_there() -> None:
    known = {*functions.NAMES, *functions.AGGREGATES, *set_returning.HANDLERS, "extract", "e"}
    for call in habits().function:
        if call.advice is not None:
            assert set(re.findall(r"\b(\w+)\(", call.advice)) <= known | {"numeric"}, call


def test_no_known_function_is_called_foreign() -> None:
    known = {*functions.NAMES, *functions.AGGREGATES}
    assert not known & {each.name for each in habits().function}


@pytest.mark.parametrize("type_", sorted(set(habits().type.values())))
def test_type_that_is_written_instead_of_another_is_one(session: Session, type_: str) -> None:
    text = f"CREATE TABLE t (x {type_});"
    assert broken.run(session, text) is None
