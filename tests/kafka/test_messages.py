"""Messages of JSON, CSV, text and bytes: each becomes one row or fails alone."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from sinkql import ast, logical, physical
from sinkql.connector_api.planning import PlanningContext, SourceMessages
from sinkql.connector_api.stream import Context, MessageDecoder
from sinkql.connectors.kafka.formats import FORMATS
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, BYTEA, JSONB, TEXT, parse_type

_NOWHERE = Context("s", "id-s", Path(), lambda _: "")
_ROW = (physical.Column("id", BIGINT, False), physical.Column("name", TEXT))


def _open(name: str, options: dict[str, Any], columns: Sequence[physical.Column]) -> MessageDecoder:
    (kind,) = (each for each in FORMATS if each.name == name)
    found: MessageDecoder = pickle.loads(pickle.dumps(kind.decoding.open(options, columns, _NOWHERE)))
    return found


def _rows(decoder: MessageDecoder, messages: Sequence[bytes]) -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """Return the rows that decode, and the reasons of the messages that fail."""
    found = decoder.decode(messages)
    assert found.places is None
    assert found.batch.num_rows == len(messages)
    rows = [tuple(row.values()) for row in found.batch.to_pylist()]
    return [row for place, row in enumerate(rows) if place not in found.failures], dict(found.failures)


def test_line_ends_within_json_divide_no_message() -> None:
    decoder = _open("JSON", {"whole": False}, _ROW)
    messages = [b'{"id":1,\n"name":"a"}', b'{"id":2}\n{"id":3}', b'\n{"id":4}\n', b"", b'{"id":5', b',"name":"b"}']
    rows, failures = _rows(decoder, messages)
    assert rows == [(1, "a"), (4, None)]
    assert sorted(failures) == [1, 3, 4, 5]


@pytest.mark.parametrize("many", [1, 100])
def test_a_message_that_fails_leaves_its_neighbours_as_they_are(many: int) -> None:
    decoder = _open("JSON", {"whole": False}, _ROW)
    right = [b'{"id":%d,"name":"n%d"}' % (each, each) for each in range(many)]
    rows, failures = _rows(decoder, [*right, b'{"id":null}', b'{"id":"x"}', *right])
    assert rows == [(each, f"n{each}") for each in range(many)] * 2
    assert failures == {
        many: 'null value in column "id", which is NOT NULL',
        many + 1: 'column "id": expected bigint, got str',
    }


def test_json_without_columns_is_one_column() -> None:
    decoder = _open("JSON", {"whole": True}, (physical.Column("data", JSONB),))
    rows, failures = _rows(decoder, [b'{"b": 1, "a": [1.0]}', b"3", b"{", b"\xff"])
    assert rows == [('{"a": [1.0], "b": 1}',), ("3",)]
    assert sorted(failures) == [2, 3]


@pytest.mark.parametrize("many", [1, 100])
def test_csv_has_a_record_a_message(many: int) -> None:
    decoder = _open("CSV", {"header": False}, _ROW)
    messages = [b"1,a"] * many + [b'2,"b', b'c"', b'3,"d\ne"\n', b"4,f\n5,g", b"6,\r\n", b"", b"7"]
    rows, failures = _rows(decoder, messages)
    assert rows == [(1, "a")] * many + [(3, "d\ne"), (6, None)]
    assert sorted(failures) == [many + each for each in (0, 1, 3, 5, 6)]


def test_records_of_csv_that_together_would_be_one_are_none() -> None:
    decoder = _open("CSV", {"header": False}, _ROW)
    rows, failures = _rows(decoder, [b"1,a"] * 40 + [b'2,"b', b'c"'] + [b"3,d"] * 40)
    assert rows == [(1, "a")] * 40 + [(3, "d")] * 40
    assert sorted(failures) == [40, 41]


def test_text_becomes_a_value_of_the_type_of_its_column() -> None:
    decoder = _open("TEXT", {}, (physical.Column("price", parse_type("numeric(9,2)")),))
    rows, failures = _rows(decoder, [b"1.5", b"x", b"\xff1", b"-2"])
    assert rows == [(Decimal("1.50"),), (Decimal("-2.00"),)]
    assert failures[2] == "invalid UTF-8: 0xff at byte 1"
    assert sorted(failures) == [1, 2]


def test_bytes_stay_as_they_are() -> None:
    decoder = _open("BYTES", {}, (physical.Column("data", BYTEA),))
    assert _rows(decoder, [b"\xff\0", b""]) == ([(b"\xff\0",), (b"",)], {})


@pytest.mark.parametrize(
    ("format_", "types", "code"),
    [
        (ast.Format("BYTES"), ["text"], "SQ2470"),
        (ast.Format("TEXT"), ["text", "text"], "SQ2470"),
        (ast.Format("CSV", column_count=3), ["text", "text"], "SQ2470"),
        (ast.Format("CSV", header=True), ["text"], "SQ2471"),
    ],
)
def test_columns_that_a_format_does_not_give_are_refused(format_: ast.Format, types: list[str], code: str) -> None:
    (kind,) = (each for each in FORMATS if each.name == format_.name)
    columns = tuple(logical.Column(f"c{place}", logical.Type(type_)) for place, type_ in enumerate(types))
    statement = ast.CreateSource(ast.Name((ast.Ident("s"),)), "KAFKA")
    with pytest.raises(SinkqlError) as caught:
        kind.plan(SourceMessages("value", "t", statement, format_, columns), cast(PlanningContext, None))
    assert caught.value.code == code
