"""Every habit of another SQL is found in its example, and what its hint says instead runs, and means the same."""

from __future__ import annotations

import re
from decimal import Decimal

import duckdb
import pytest

from expressions import vectors
from golden import broken
from sinkql.errors import SinkqlError
from sinkql.parser.mistake.habit import Call, Form, habits
from sinkql.planner.function import call as functions
from sinkql.session import Session

_REWRITES = re.compile(r"(Write|Use|Begin|Group|Put) ")
_SHELL = re.compile(r"sinkql \w+")
_MADE = re.compile(r"CREATE (?:OR REPLACE )?(MATERIALIZED VIEW|\w+) (?:IF NOT EXISTS )?(\w+)")
# calls that DuckDB has under the name, where the meaning is that of the other system or the text of a value differs
_ANOTHER_MEANING = {"json_value(a, '$.k')"}
_VALUES = {
    "text": ("NULL", "''", "'abbc,d'", "'b'", "'{\"k\": 1}'", "'Ä€'"),
    "integer": ("NULL", "0", "2", "-3"),
    "boolean": ("NULL", "true", "false"),
    "timestamp": ("NULL", "timestamp '2024-02-29 12:34:56.5'", "timestamp '1999-12-31 23:59:59'"),
    "double precision": ("NULL", "8.0", "0.5"),
    "numeric(12,4)": ("NULL", "1.2345", "-2.7182"),
    "jsonb": ("NULL", '\'{"k": "v", "n": 2}\''),
}


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
    query = form in habits().query and not text.startswith("CREATE")
    return f"CREATE VIEW v AS {text};" if query else text


def _says(hint: str, wrong: str, right: str) -> bool:
    """Tell whether `right` is what the hint says: it has the keywords that the hint has, or less than `wrong`."""
    if re.search(r"\bLeave\b", hint) and set(re.findall(r"\w+", right)) < set(re.findall(r"\w+", wrong)):
        return True
    hint = re.sub(r"\b(NAME|OPTION)\b", "…", hint)
    alternatives = [re.findall(r"\b[A-Z][A-Z_]+\b", each) for each in re.split(r", |; | or | to | for ", hint)]
    return not any(alternatives) or any(each and {*each} <= set(re.findall(r"\w+", right)) for each in alternatives)


@pytest.mark.parametrize("call", [each for each in habits().function if each.write], ids=lambda each: each.call)
def test_call_elsewhere_is_refused_and_its_rewrite_plans(call: Call) -> None:
    columns = _columns(call)
    table = vectors.table(columns)
    with pytest.raises(SinkqlError) as caught:
        vectors.query(f"SELECT {call.call} AS x FROM t", table)
    assert f"Write {call.write} for {call.call}." == caught.value.hint
    assert vectors.query(f"SELECT {call.write} AS x FROM t", table)


def test_rewrite_of_a_call_means_the_same_where_duckdb_has_both() -> None:
    duck = duckdb.connect()
    # DuckDB has it under another name, as the reference of both
    duck.execute("CREATE MACRO date_bin(w, t, o) AS time_bucket(w::interval, t, o)")
    duck.execute("CREATE MACRO to_char(t, f) AS strftime(t, '%Y-%m-%d')")
    compared = []
    for call in habits().function:
        if call.write is None or call.call in _ANOTHER_MEANING:
            continue
        duck.execute("CREATE OR REPLACE TABLE t AS " + _rows(_columns(call)))
        written = call.write.replace("jsonb", "json")
        try:
            rows = duck.execute(f"SELECT {call.call}, {written} FROM t").fetchall()
        except (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException):
            continue
        assert all(_plain(theirs) == _plain(ours) for theirs, ours in rows), (call, rows)
        compared.append(call.name)
    assert len(compared) >= 30, compared


def _plain(value: object) -> object:
    return round(float(value), 9) if isinstance(value, float | Decimal) else value


def _columns(call: Call) -> dict[str, str]:
    return dict(each.strip().split(" ", 1) for each in re.findall(r"\w+ [^,(]+(?:\([^)]*\))?", call.columns))


def _rows(columns: dict[str, str]) -> str:
    """Return a query for all combinations of some values of the columns' types."""
    lists = []
    for name, type_ in columns.items():
        values = ", ".join(f"({value})" for value in _VALUES[type_])
        lists.append(f"(SELECT v::{type_.replace('jsonb', 'json')} AS {name} FROM (VALUES {values}) AS x(v))")
    return f"SELECT {', '.join(columns)} FROM {' CROSS JOIN '.join(lists)}"


def test_advice_that_has_a_call_in_it_names_what_is_there() -> None:
    known = {*functions.NAMES, *functions.AGGREGATES, "extract"}
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
