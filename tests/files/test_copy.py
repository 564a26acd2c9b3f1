"""CSV files → the rows of Postgres's COPY, with blocks of any size; no record is lost or invented."""

from __future__ import annotations

import random
from io import BytesIO

import pytest

from files.copying import FORMS, copied, nasty
from sinkql.connector_api.stream import Decoded
from sinkql.decode import csv_records
from sinkql.decode.csv import CsvRows
from sinkql.decode.csv_options import Form
from sinkql.decode.messages import CsvMessages
from sinkql.logical.type import TEXT
from sinkql.physical import Column

_WIDTH = 3
_COLUMNS = tuple(Column(f"c{place}", TEXT) for place in range(_WIDTH))


def _decoded(data: bytes, form: Form) -> list[Decoded]:
    return list(CsvRows(_COLUMNS, form, header=False).decode(BytesIO(data)))


def _held_against_copy(data: bytes, form: Form) -> int:
    """Compare the rows and failures with COPY's, and return the number of records."""
    records = list(copied(data, form))
    rows = [fields for _, _, fields in records if fields is not None and len(fields) == _WIDTH]
    refused = [(line, raw) for line, raw, fields in records if fields is None or len(fields) != _WIDTH]
    parts = _decoded(data, form)
    assert rows == [list(row.values()) for part in parts for row in part.batch.to_pylist()]
    failed = [(failure.line, failure.raw) for part in parts for failure in part.failures]
    assert refused == failed
    assert sum(part.records for part in parts) == len(records)
    return len(records)


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_files_of_nasty_fields_are_read_as_copy_reads_them(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.Random(f"{form}")
    records = 0
    while records < 100_000 / len(FORMS):
        rows = seed.choice([1, 3, 40, 400, 2000])
        monkeypatch.setattr(csv_records, "BLOCK", seed.choice([1, 17, 100, 5000, 1 << 20]) if rows < 100 else 1 << 20)
        records += _held_against_copy(nasty(seed, form, rows=rows, width=_WIDTH), form)


def test_a_mark_of_the_byte_order_is_text_but_at_the_beginning_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a block begins with it."""
    record = "\ufeffd,e,f\n".encode()
    monkeypatch.setattr(csv_records, "BLOCK", 40 * len(record))
    assert _held_against_copy(record * 200, Form()) == 200


_PIECES = (",", ",", ",", '"', '""', "\n", "\r\n", "a", "é", "12", " ", "\\", "\0")


def _message(seed: random.Random) -> bytes:
    """Return a message, in most cases a valid record."""
    if seed.random() < 0.8:
        fields = [seed.choice(("a", "", '""', '"b,""c"', '"d\ne"', "é", "f g")) for _ in range(_WIDTH)]
        return ",".join(fields).encode() + seed.choice((b"", b"", b"\n", b"\r\n"))
    text = "".join(seed.choice(_PIECES) for _ in range(seed.randrange(9)))
    return text.encode() + seed.choice((b"", b"", b"\xff"))


def test_messages_are_read_as_copy_reads_each_alone() -> None:
    """Messages before and after it make no difference."""
    seed, seen, form = random.Random(3), 0, Form()
    for count in (1, 5, 40, 100, 300, 300):
        messages = [_message(seed) for _ in range(count)]
        found = CsvMessages({"header": False}, _COLUMNS).decode(messages)
        assert found.batch.num_rows == count
        for place, (message, row) in enumerate(zip(messages, found.batch.to_pylist(), strict=True)):
            line = message.removesuffix(b"\n").removesuffix(b"\r") if message.endswith(b"\n") else message
            if b"\r" in line:
                continue  # it ends a record in COPY, but not a message
            records = [fields for _, _, fields in copied(line, form)]
            whole = len(records) == 1 and records[0] is not None and len(records[0]) == _WIDTH
            assert (place not in found.failures) == whole, message
            assert not whole or records == [list(row.values())]
            seen += whole
    assert seen > 500


def test_a_quote_in_an_unquoted_field_does_not_join_two_lines() -> None:
    """COPY silently reads one row from them and drops both quotes."""
    for data, failing in (
        (b'1,5" pipe,x\n2,6" pipe,y\n3,b,c\n', [b'1,5" pipe,x\n2,6" pipe,y']),
        (b'1,5" pipe,"x"\n2,6 pipe,"y\n"\n3,b,c\n', [b'1,5" pipe,"x"\n2,6 pipe,"y', b'"\n3,b,c\n']),
        (b'1,5"p"e,"x"\n3,b,c\n', []),
        (b'1,"5" pi"pe\nb",c\n3,b,c\n', [b'1,"5" pi"pe\nb",c']),
        (b'1,"a\nb",c\n3,b,c\n', []),
    ):
        parts = _decoded(data, Form())
        assert [failure.raw for part in parts for failure in part.failures] == failing, data
    messages = CsvMessages({"header": False}, _COLUMNS).decode([b'1,5" pipe\n2,6" pipe,x', b'1,"5\n6",x'])
    assert messages.failures == {
        0: "a quote within field 2, which does not begin with it, continues after the end of the line: "
        "quote the whole field"
    }
