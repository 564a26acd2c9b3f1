"""CSV files → the rows that Postgres's COPY gives, in blocks of any size, and no record lost or invented."""

from __future__ import annotations

import random
from io import BytesIO

import pytest

from files.copying import FORMS, copied, nasty
from sinkql.decode import csv_records
from sinkql.decode.csv_records import Form
from sinkql.decode.csv_rows import CsvRows
from sinkql.extension.stream import Decoded
from sinkql.physical import Column

_WIDTH = 3
_COLUMNS = tuple(Column(f"c{place}", "text") for place in range(_WIDTH))


def _decoded(data: bytes, form: Form) -> list[Decoded]:
    return list(CsvRows(_COLUMNS, form, header=False).decode(BytesIO(data)))


def _held_against_copy(data: bytes, form: Form) -> int:
    """Compare, and return how many records there are."""
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
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_files_of_nasty_fields_are_read_as_copy_reads_them(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.Random(f"{form}")
    records = 0
    while records < 100_000 / len(FORMS):
        rows = seed.choice([1, 3, 40, 400, 2000])
        monkeypatch.setattr(csv_records, "BLOCK", seed.choice([1, 17, 100, 5000, 1 << 20]) if rows < 100 else 1 << 20)
        records += _held_against_copy(nasty(seed, form, rows=rows, width=_WIDTH), form)
