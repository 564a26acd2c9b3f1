"""A format that another connector registers: its keyword, its options, and its decoder for files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from sinkql import ast, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.options import bind
from sinkql.connector_api.planning import Connector, FormatKind, FormatPlan
from sinkql.connector_api.registry import Registry, discover, register
from sinkql.connector_api.stream import Context, Decoded, Decoder, Decoding, ReadCounts, RowFailure, UndecodableError
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower_relation
from sinkql.parser import parse

_STATEMENT = "CREATE SOURCE s (n bigint, word text) FROM FILES (PATH = '{}') FORMAT TALLY (SEPARATOR = '|');"


@dataclass(frozen=True, slots=True)
class _TallyOptions:
    separator: str


@dataclass(frozen=True, slots=True)
class _TallyDecoder:
    separator: str

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        lines = stream.read().decode().splitlines()
        if lines[0] != "read_counts":
            raise UndecodableError("it has no head")
        rows = [(number, line.split(self.separator)) for number, line in enumerate(lines[1:], 1)]
        good = [(int(fields[0]), fields[1]) for _, fields in rows if len(fields) == 2]
        arrays = [pa.array([n for n, _ in good], pa.int64()), pa.array([word for _, word in good], pa.string())]
        bad = [
            RowFailure(number, "expected 2 fields", b"".join(map(str.encode, fields)))
            for number, fields in rows
            if len(fields) != 2
        ]
        yield Decoded(pa.record_batch(arrays, names=["n", "word"]), len(rows), bad)


def _plan(statement: ast.CreateSource, format_: ast.Format) -> FormatPlan:
    options = bind(format_.options, _TallyOptions, owner="FORMAT TALLY", span=format_.span)
    return FormatPlan({"separator": options.separator})


def _open(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> Decoder:
    return _TallyDecoder(options["separator"])


def _registry() -> Registry:
    found = discover()
    other = register([Connector("read_counts", formats=(FormatKind("TALLY", _plan, Decoding(_open), _TallyOptions),))])
    found.formats.update(other.formats)
    return found


def _read(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    path = tmp_path / "in.read_counts"
    path.write_text(text)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    registry = _registry()
    catalog = MemoryCatalog(registry)
    (statement,) = parse(_STATEMENT.format(path), registry.keywords)
    assert isinstance(statement, ast.CreateSource)
    source = catalog.add(statement, {}).item
    assert isinstance(source, logical.Source)
    read = lower_relation(source, catalog)
    assert isinstance(read, physical.Read)
    reader = registry.reader(read, Context("s", "s", tmp_path / "state", str))
    start = reader.initial(at_end=False)
    splits = reader.splits(start, reader.target(start))
    return [row for split in splits for batch in reader.read(split, ReadCounts()) for row in batch.to_pylist()]


def test_a_registered_format_is_read_with_its_options(tmp_path: Path) -> None:
    assert _read(tmp_path, "read_counts\n1|one\n2|two\n") == [{"n": 1, "word": "one"}, {"n": 2, "word": "two"}]


@pytest.mark.parametrize(("text", "code"), [("read_counts\n1|one\nthree\n", "SQ3101"), ("none\n", "SQ3102")])
def test_what_a_registered_format_does_not_decode_is_an_error(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(SinkqlError) as raised:
        _read(tmp_path, text)
    assert raised.value.code == code


def test_the_options_of_a_registered_format_are_known() -> None:
    registry = _registry()
    (statement,) = parse(_STATEMENT.replace("SEPARATOR", "SEPARATR").format("x"), registry.keywords)
    assert isinstance(statement, ast.CreateSource)
    with pytest.raises(SinkqlError) as raised:
        MemoryCatalog(registry).add(statement, {})
    assert raised.value.hint == "Did you mean SEPARATOR?"
