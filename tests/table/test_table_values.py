"""A value in a table is as Postgres stores it, however it was inserted, or the statement is an error.

`assigned.jsonl` has the stored value or error of Postgres for values assigned to columns of all types.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sinkql.errors import SinkqlError
from sinkql.logical.nested import write_nested
from sinkql.logical.type import parse_type
from sinkql.session import Session
from sinkql.session.row import dml, query
from table.test_table_model import replayed

_WAYS = {
    "VALUES": ("INSERT INTO t VALUES ({id}, {})",),
    "SELECT": ("INSERT INTO t SELECT {id}, {}",),
    "UPDATE": ("INSERT INTO t VALUES ({id}, NULL)", "UPDATE t SET x = {} WHERE id = {id}"),
    "CASE": ("INSERT INTO t VALUES ({id}, NULL)", "UPDATE t SET x = CASE WHEN id > 0 THEN {} END WHERE id = {id}"),
}


class _SparkError(Exception):
    """A statement would go to Spark; other tests compare Spark with Python."""


@cache
def vectors() -> tuple[dict[str, str], ...]:
    lines = Path(__file__).with_name("assigned.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(map(json.loads, lines))


def of_type(type_: str) -> Iterator[dict[str, str]]:
    return (each for each in vectors() if each["type"] == type_)


def shown(value: Any, type_: str) -> str | None:
    """Return a stored value as Postgres prints it."""
    match type_.partition("(")[0], value:
        case _, None:
            return None
        case "boolean", _:
            return "true" if value else "false"
        case "timestamp" | "timestamptz", _:
            text = str(value.replace(tzinfo=None))
            return (text.rstrip("0") if value.microsecond else text) + ("+00" if type_ == "timestamptz" else "")
        case "time", _:
            return str(value).rstrip("0") if value.microsecond else str(value)
        case "integer[]" | "text[]", _:
            return write_nested(value, parse_type(type_), lambda each, _: str(each))
        case "bytea", _:
            return f"\\x{bytes(value).hex()}"
        case "char", _:
            return str(value).rstrip(" ")
        case _:
            return str(value)


def same(value: Any, expected: str | None, type_: str) -> bool:
    name = type_.partition("(")[0]
    if value is None or expected is None:
        return value is None and expected is None
    if name == "real":
        single = struct.unpack("f", struct.pack("f", float(expected)))[0]
        return bool(value == single or (value != value and single != single))
    if name == "double precision":
        return bool(value == float(expected) or (value != value and expected == "NaN"))
    if name == "numeric":
        return bool(value == Decimal(expected))
    if name == "jsonb":
        return bool(json.loads(value, parse_float=Decimal) == json.loads(expected, parse_float=Decimal))
    return shown(value, type_) == expected


# numeric in SinkQL has fewer digits than in Postgres: `1 / 3.0` has ten after the point
_FEWER_DIGITS = {("numeric(38,38)", "1/3.0"), ("double precision", "1/3.0")}


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def spark(*args: object, **named: object) -> None:
        raise _SparkError

    monkeypatch.setattr(dml, "by_spark", spark)
    monkeypatch.setattr(query, "by_spark", spark)


def put(session: Session, statements: Sequence[str]) -> str:
    """Run statements; return whether the value was held or refused, or needs Spark."""
    try:
        for statement in statements:
            session.execute(statement)
    except SinkqlError:
        return "refused"
    except _SparkError:
        return "spark"
    return "held"


def check(session: Session, type_: str, tried: dict[int, dict[str, str]]) -> list[str]:
    """Return the differences between the table's rows and Postgres, and check that its log has the same rows."""
    rows = session.execute("SELECT id, x FROM t")[0].rows
    assert Counter(tuple(map(str, row)) for row in rows) == Counter(tuple(map(str, row)) for row in replayed(session))
    return [
        f"{vector['value']}: {vector.get('held', 'error')} in Postgres, {value!r} here"
        for number, value in rows
        if (vector := tried.get(number)) is not None
        and (type_, vector["value"]) not in _FEWER_DIGITS
        and ("error" in vector or not same(value, vector["held"], type_))
    ]


@pytest.mark.share(6)
@pytest.mark.long
@pytest.mark.parametrize("type_", dict.fromkeys(each["type"] for each in vectors()))
def test_a_value_is_held_as_in_postgres_or_is_an_error(session: Session, type_: str) -> None:
    counts: Counter[str] = Counter()
    tried: dict[int, dict[str, str]] = {}
    session.execute(f"CREATE TABLE t (id int, x {type_})")
    for place, (name, way) in enumerate(_WAYS.items()):
        # all values as VALUES, a third of them in each other form
        for number, vector in enumerate(of_type(type_)):
            if name != "VALUES" and number % 3 != place - 1:
                continue
            row = place * 1000 + number
            statements = [each.replace("{id}", str(row)).replace("{}", vector["value"]) for each in way]
            became = put(session, statements)
            counts[became] += 1
            if became == "held":
                tried[row] = vector
    wrong = check(session, type_, tried)
    assert not wrong, "\n".join(wrong)
    assert counts["held"] > 3
    assert counts["spark"] < counts.total() / 3


@pytest.mark.share(6)
@pytest.mark.long
@pytest.mark.parametrize("type_", dict.fromkeys(each["type"] for each in vectors()))
def test_a_default_is_held_as_in_postgres_or_is_an_error(session: Session, type_: str) -> None:
    wrong = []
    for vector in list(of_type(type_))[::6]:
        created = f"CREATE TABLE t (id int, x {type_} DEFAULT {vector['value']})"
        again = [] if "nan" in vector["value"].lower() else ["UPDATE t SET x = DEFAULT"]
        if put(session, [created, "INSERT INTO t (id) VALUES (1)", *again]) == "held":
            wrong += check(session, type_, {1: vector})
        session.execute("DROP TABLE IF EXISTS t")
    assert not wrong, "\n".join(wrong)
