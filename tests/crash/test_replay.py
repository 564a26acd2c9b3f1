"""Kills and failures at each point of REPLAY ERRORS: each record that now decodes is a row once and no dead letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from crash.conftest import KILLED, Children
from crash.pipeline import Pipeline
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Context
from sinkql.runtime.batch.replay import DeadLetterReader
from support.readers import duckdb_folder

ROWS = 60
_KEYS = 12
_HOPELESS = 10
"""A record that never decodes."""
_COMMON = ("replay-listed#1", "commit-request#3", "commit-reply#3", "committed#1", "replayed#1", "commit-request#4",
           "commit-reply#4", "letters-taken-out#1")  # fmt: skip
"""The first two commits are claims; the next one commits the rows, the last one removes the dead letters."""


def _bad(number: int) -> bool:
    return number % 7 == 3


def _line(number: int) -> str:
    if number == _HOPELESS:
        return "hopeless"
    return json.dumps({"n": f"bad {number}" if _bad(number) else number, "k": number % _KEYS})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write files with valid and undecodable records."""
    (tmp_path / "in").mkdir()
    for part in range(2):
        lines = [_line(number) for number in range(part * ROWS // 2, (part + 1) * ROWS // 2)]
        (tmp_path / "in" / f"{part}.json").write_text("".join(f"{each}\n" for each in lines))
    return tmp_path


def _errors(folder: Path) -> Table:
    lake = f"file://{folder}/lake"
    return load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=lake).load_table(
        "n.t__errors"
    )


def _correct(folder: Path) -> None:
    """Correct the dead letters as another engine would, in a file not written by SinkQL."""
    table = _errors(folder)
    rows = table.scan().to_arrow()
    mended = [each.replace(b'"bad ', b"").replace(b'", "k"', b', "k"') for each in rows.column("raw").to_pylist()]
    raw = rows.schema.get_field_index("raw")
    table.overwrite(rows.set_column(raw, rows.field(raw), pa.array(mended, rows.field(raw).type)))


def _letters(folder: Path) -> list[bytes]:
    return [row[0] for row in duckdb_folder(str(folder / "lake" / "n" / "t__errors"), "raw")]


def _check_late(folder: Path) -> None:
    rows = [(number, number % _KEYS) for number in range(ROWS) if number != _HOPELESS]
    assert duckdb_folder(str(folder / "lake" / "n" / "t"), "n, k") == rows
    assert _letters(folder) == [b"hopeless"]


def _check_by_key(folder: Path) -> None:
    rows = {number % _KEYS: number for number in range(ROWS) if number != _HOPELESS}
    assert duckdb_folder(str(folder / "lake" / "n" / "t"), "k, n") == sorted(rows.items())
    assert _letters(folder) == [b"hopeless"]


def _corrected(folder: Path) -> Pipeline:
    _correct(folder)
    return Pipeline(folder, "late", then=("replay",))


def _lenient(folder: Path) -> Pipeline:
    return Pipeline(folder, "letters", lenient=True, then=("replay",))


Prepared = tuple[str, Callable[[Path], Pipeline], Callable[[Path], None]]
LATE: Prepared = ("late", _corrected, _check_late)
BY_KEY: Prepared = ("letters", _lenient, _check_by_key)


@pytest.mark.parametrize("what", [LATE, BY_KEY], ids=["late", "key"])
def test_records_that_decode_by_now_are_rows(children: Children, folder: Path, what: Prepared) -> None:
    kind, prepare, check = what
    assert children.run(Pipeline(folder, kind)).status == 0
    assert len(_letters(folder)) == sum(map(_bad, range(ROWS)))
    pipeline = prepare(folder)
    for _ in range(2):  # the second run finds nothing to replay
        assert children.run(pipeline).status == 0
        check(folder)


CASES = [
    pytest.param(what, point, id=f"{name}-{point}")
    for name, what, points in (("late", LATE, _COMMON), ("key", BY_KEY, ("rebuild-read#1", *_COMMON)))
    for point in points
]


@pytest.mark.share(6)
@pytest.mark.long
@pytest.mark.parametrize(("what", "point"), CASES)
def test_no_record_is_lost_or_doubled(children: Children, folder: Path, what: Prepared, point: str) -> None:
    kind, prepare, check = what
    assert children.run(Pipeline(folder, kind)).status == 0
    pipeline = prepare(folder)
    assert children.run(pipeline, f"{point}=kill").status == KILLED
    assert children.run(replace(pipeline, then=())).status == 0  # the next run may not replay
    if kind == "late":  # each record is in one of the tables by now
        assert len(duckdb_folder(str(folder / "lake" / "n" / "t"), "n")) + len(_letters(folder)) == ROWS
    assert children.run(pipeline).status == 0
    check(folder)


def test_records_that_are_kept_are_read_where_they_were_put_by(folder: Path) -> None:
    """A cluster's executors cannot see the driver's folder."""
    pipeline = Pipeline(folder, "late")
    (read,) = pipeline.job().reads()
    reader = discover().reader(read, Context("s", "id", folder, lambda _: ""))
    assert DeadLetterReader(reader).local_only()
