"""A corrupted, truncated or swapped metadata file raises SQ3530 with its name, or reads as the same metadata."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadata

from sinkql.connectors.iceberg.table.format_v3 import read_metadata
from sinkql.errors import SinkqlError
from support.lake import Lake, Sink


def _read(path: Path) -> TableMetadata | str:
    try:
        return read_metadata(PyArrowFileIO().new_input(str(path)))
    except SinkqlError as error:
        return error.code if path.name in error.message else error.message


def _written(folder: Path, name: str) -> Path:
    lake = Lake(folder)
    sink = Sink(lake, name, id=name)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    return Path(lake.table(name).metadata_location.removeprefix("file://"))


@pytest.mark.parametrize("share", [40, pytest.param(1, marks=pytest.mark.soak)])
def test_no_changed_byte_goes_unnoticed(tmp_path: Path, share: int) -> None:
    path = _written(tmp_path, "t")
    data, expected, chance = path.read_bytes(), _read(path), random.Random(1)
    for place in range(chance.randrange(share), len(data), share):
        for changed in (
            data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :],
            data[:place],
        ):
            path.write_bytes(changed)
            assert _read(path) in ("SQ3530", expected), place
    digit = data.index(b'"last-sequence-number":') + len(b'"last-sequence-number":')
    path.write_bytes(data[:digit] + b"7" + data[digit + 1 :])
    assert _read(path) == "SQ3530"


def test_metadata_of_another_table_is_told(tmp_path: Path) -> None:
    path, other = (_written(tmp_path, name) for name in ("t", "other"))
    path.write_bytes(other.read_bytes())
    assert _read(path) == "SQ3530"


def test_metadata_may_have_a_name_that_a_person_gave_it(tmp_path: Path) -> None:
    path = _written(tmp_path, "t")
    expected = _read(path)
    assert _read(path.rename(path.with_name("v3.metadata.json"))) == expected


def test_metadata_of_other_programs_has_no_seal(tmp_path: Path) -> None:
    path = _written(tmp_path, "t")
    expected = _read(path)
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))
    assert _read(path) == expected
