"""A record that does not decode, in files of each format: under each ON ERROR policy, and decoded again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Limit, ReadCounts, Reader, RowError, shown_record
from sinkql.errors import SinkqlError
from sinkql.program import compile_text
from support.running import contexts

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory');
CREATE SOURCE s (k integer, d date) FROM FILES (PATH = '{folder}/in') FORMAT {format} WITH (ON ERROR = {policy});
CREATE SINK w FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""
_GOOD = [(1, date(2024, 1, 1)), (3, date(2024, 1, 3))]


def _arrow(d: int) -> pa.Table:
    """Return three rows; the second one has a day after the year 9999."""
    days = pa.array([19723, d, 19725], pa.int32()).cast(pa.date32())
    return pa.table({"k": pa.array([1, 2, 3], pa.int32()), "d": days})


def _parquet(path: Path) -> None:
    pq.write_table(_arrow(3_000_000), path)


def _orc(path: Path) -> None:
    pyarrow.orc.write_table(_arrow(3_000_000), str(path))


def _avro(path: Path) -> None:
    day = {"type": "int", "logicalType": "date"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "k", "type": "int"}, {"name": "d", "type": day}]}
    stream = BytesIO()
    fastavro.writer(stream, schema, [{"k": k, "d": d} for k, d in ((1, 19723), (2, 3_000_000), (3, 19725))])
    path.write_bytes(stream.getvalue())


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


@dataclass(frozen=True, slots=True)
class Case:
    """A file of a format, the position of its bad record, and the record's bytes and correction if they are stored."""

    format: str
    write: Callable[[Path], object]
    place: int
    raw: bytes | None = None
    correct: bytes | None = None


_JSON_BAD = '{"k": 2, "d": "2024-02-30"}'
_CASES: Mapping[str, Case] = {
    "JSON": Case(
        "JSON",
        _text(f'{{"k": 1, "d": "2024-01-01"}}\n{_JSON_BAD}\n{{"k": 3, "d": "2024-01-03"}}\n'),
        2,
        _JSON_BAD.encode(),
        b'{"k": 2, "d": "2024-02-28"}',
    ),
    "JSON ARRAY": Case(
        "JSON ARRAY",
        _text(f'[{{"k": 1, "d": "2024-01-01"}},\n{_JSON_BAD},\n{{"k": 3, "d": "2024-01-03"}}]'),
        2,
        _JSON_BAD.encode(),
        b'{"k": 2,\n "d": "2024-02-28"}',
    ),
    "CSV": Case("CSV WITH 2 COLUMNS", _text("1,2024-01-01\n2,never\n3,2024-01-03\n"), 2, b"2,never", b"2,2024-02-28"),
    "CSV with a header": Case(
        "CSV WITH HEADER", _text("d,k\n2024-01-01,1\nnever,2\n2024-01-03,3\n"), 3, b"never,2", b"2024-02-28,2"
    ),
    "PARQUET": Case("PARQUET", _parquet, 2),
    "ORC": Case("ORC", _orc, 2),
    "AVRO": Case("AVRO", _avro, 2),
}


def _reader(folder: Path, format_: str, policy: str) -> Reader:
    script = _SCRIPT.format(folder=folder, format=format_, policy=policy)
    job = compile_text(script, facts={}).jobs[0]
    (read,) = job.reads()
    return discover().reader(read, contexts(folder, job))


def _read(reader: Reader, read_counts: ReadCounts) -> list[tuple[object, ...]]:
    start = reader.initial(at_end=False)
    end = reader.latest(start, Limit(1000))
    rows = []
    for split in reader.splits(start, end):
        for batch in reader.read(split, read_counts):
            read_counts.decoded += batch.num_rows
            rows += [tuple(row.values()) for row in batch.to_pylist()]
    read_counts.settle("s")
    return rows


@pytest.mark.parametrize("name", _CASES)
def test_a_bad_record_under_each_policy(name: str, tmp_path: Path) -> None:
    case = _CASES[name]
    (tmp_path / "in").mkdir()
    case.write(tmp_path / "in" / "a")
    os.utime(tmp_path / "in" / "a", (1_700_000_000, 1_700_000_000))
    with pytest.raises(SinkqlError) as stopped:
        _read(_reader(tmp_path, case.format, "FAIL"), ReadCounts())
    assert (stopped.value.code, f"at a:{case.place}: " in stopped.value.message) == ("SQ3101", True)
    skipped = ReadCounts()
    assert _read(_reader(tmp_path, case.format, "SKIP"), skipped) == _GOOD
    assert (skipped.rows, skipped.failed) == (3, 1)
    letters: list[RowError] = []
    reader = _reader(tmp_path, case.format, "DEAD LETTER")
    assert _read(reader, ReadCounts(letters=letters.append)) == _GOOD
    (dead_letter,) = letters
    assert (dead_letter.position, dead_letter.code, bool(dead_letter.message)) == (f"a:{case.place}", "SQ3101", True)
    if case.raw is None or case.correct is None:
        assert dead_letter.raw
        with pytest.raises(SinkqlError) as refused:
            list(reader.retry_dead_letters([dead_letter]))
        assert refused.value.code == "SQ3394"
        return
    assert dead_letter.raw.strip() == case.raw
    corrected = RowError("a:2", "SQ3101", "", case.correct, about=dead_letter.about)
    still, found = reader.retry_dead_letters([dead_letter, corrected])
    assert (list(still.failures), found.failures) == ([0], {})
    assert found.batch.to_pylist() == [{"k": 2, "d": date(2024, 2, 28)}]


def test_a_record_that_is_cut_in_an_error_ends_with_an_ellipsis() -> None:
    assert shown_record(b"x" * 200) == "x" * 200
    assert shown_record(b"x" * 201) == "x" * 200 + " …"
