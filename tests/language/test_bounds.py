"""Every number and length that a user writes has bounds; exceeding them is a coded error at its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session

_DIGITS = "9" * 400
_SINK = (
    "CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'x', TABLE = 'y') MODE APPEND WITH ({});"
)
_CASES = (
    ("CREATE TABLE w (a varchar(0));", "SQ2429", "varchar(0)"),
    (f"CREATE TABLE w (a varchar({10**20}));", "SQ2429", f"varchar({10**20})"),
    ("CREATE TABLE w (a char(10485761));", "SQ2429", "char(10485761)"),
    (f"CREATE TABLE w (a numeric({_DIGITS}));", "SQ2429", f"numeric({_DIGITS})"),
    (f"CREATE VIEW v AS SELECT name::varchar({10**20}) AS x FROM t;", "SQ2223", f"varchar({10**20})"),
    (f"CREATE VIEW v AS SELECT a::numeric({_DIGITS}) AS x FROM t;", "SQ2223", f"numeric({_DIGITS})"),
    (f"CREATE VIEW v AS SELECT at + INTERVAL '{_DIGITS} days' AS x FROM t;", "SQ2212", f"INTERVAL '{_DIGITS} days'"),
    ("CREATE VIEW v AS SELECT at + INTERVAL '9999999999 days' AS x FROM t;", "SQ2212", "INTERVAL '9999999999 days'"),
    ("CREATE VIEW v AS SELECT 1e-999999999 + a AS x FROM t;", "SQ2212", "1e-999999999"),
    (f"SELECT * FROM u LIMIT {10**22};", "SQ2225", str(10**22)),
    (f"SELECT * FROM u OFFSET {10**22};", "SQ2225", str(10**22)),
    (_SINK.format(f"COMMIT INTERVAL = '{_DIGITS} s'"), "SQ2103", f"'{_DIGITS} s'"),
    (_SINK.format("COMMIT INTERVAL = '36501 days'"), "SQ2103", "'36501 days'"),
    (_SINK.format(f"COMMIT INTERVAL = '10s', RETAIN SNAPSHOTS = {10**23}"), "SQ2103", str(10**23)),
    (_SINK.format(f"COMMIT INTERVAL = '10s', RETAIN SNAPSHOTS = {2**31}"), "SQ2326", f"RETAIN SNAPSHOTS = {2**31}"),
    (_SINK.format(f"COMMIT INTERVAL = '10s', MAX ROWS PER COMMIT = {2**63}"), "SQ2103", str(2**63)),
    (f"CREATE SOURCE n FROM LOAD GENERATOR COUNTER (MAX CARDINALITY = {_DIGITS});", "SQ2103", _DIGITS),
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(tmp_path_factory.mktemp("bounds") / "catalog.db") as found:
        found.execute(
            "CREATE SOURCE t (a int, name text, at timestamp) FROM FILES (PATH = 'in') FORMAT JSON;"
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory');"
            "CREATE TABLE u (id bigint);"
        )
        yield found


@pytest.mark.parametrize(("text", "code", "place"), _CASES)
def test_a_number_beyond_its_bounds_is_an_error_at_its_place(
    session: Session, text: str, code: str, place: str
) -> None:
    with pytest.raises(SinkqlError) as caught:
        session.execute(text)
    span = caught.value.span
    assert span is not None
    assert (code, place) == (caught.value.code, text[span.start : span.end])


def test_many_words_in_a_bracket_are_an_error(session: Session) -> None:
    with pytest.raises(SinkqlError) as caught:
        session.execute(f"CREATE CLUSTER c ({'word ' * 20_000});")
    assert caught.value.code == "SQ2101"


@pytest.mark.parametrize(
    ("written", "value"),
    [("'\\x68656c6c6f'", "hello"), ("'\\x68' || '656c6c6f'", "hello"), ("'a\\x68'", "a\\x68"), ("'\\x'", "")],
)
def test_a_secret_that_begins_as_bytes_do_is_hexadecimal(written: str, value: str, tmp_path: Path) -> None:
    from sinkql import ast
    from sinkql.parser import parse
    from sinkql.planner.item.secret import literal_text

    (statement,) = parse(f"CREATE SECRET h AS {written};")
    assert isinstance(statement, ast.CreateSecret)
    assert value == literal_text(statement.value)


@pytest.mark.parametrize(("written", "code"), [("'\\x6'", "SQ2611"), ("'\\xzz'", "SQ2611"), ("'\\xff'", "SQ2613")])
def test_a_secret_of_wrong_bytes_is_refused(session: Session, written: str, code: str) -> None:
    with pytest.raises(SinkqlError) as caught:
        session.execute(f"CREATE SECRET h AS {written};")
    assert caught.value.code == code
    assert caught.value.span is not None
