"""Infer the columns of a FILES source that declares none from a sample of its files.

The sample is the first megabyte of the first and the last few files by name. A column gets a type if every value of the
sample has it and the decoder reads them all; otherwise it is text, or jsonb for JSON. Later rows that do not fit are
invalid rows, as in a source with declared columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Decoded, Decoder, Decoding, StoredDecoder, UndecodableError
from sinkql.connectors.files.content import Place, SeenFile, Written
from sinkql.connectors.files.options import format_options
from sinkql.decode.columns import type_of_texts, type_of_values, why_text
from sinkql.decode.csv import CsvRows
from sinkql.errors import InvalidFileError
from sinkql.logical.type import Field, Type, parse_type, record_type

_FILES = 6
_BYTES = 1 << 20
_PLAIN = Written()
_NAME = re.compile(r"[^$\x00][^\x00]*")

Columns = Sequence[tuple[str, str]]
"""Names and types as SQL."""


def infer(
    place: Place,
    files: Sequence[SeenFile],
    decoding: Decoding,
    options: Mapping[str, Any],
    written: Written = _PLAIN,
    notes: list[str] | None = None,
) -> Columns:
    """Return the columns of files; none if the sample does not determine them.

    `options` are the options of the format; `notes` collects facts that a user might not expect. Raises SQ3305 if a
    file cannot be read, SQ3102 if it is not of the format, and the place's errors.
    """
    notes = [] if notes is None else notes
    if decoding.stored is not None:
        return _stored_columns(place, _sampled_files(files), decoding.stored(options, ()), notes)
    samples = [(path, data) for path, data in _samples(place, files, written) if data.strip()]
    return (
        _csv_columns(samples, decoding, options, notes)
        if format_options(options).name == "CSV"
        else _json_columns(samples, decoding, options)
    )


def _samples(place: Place, files: Sequence[SeenFile], written: Written) -> Iterator[tuple[str, bytes]]:
    """Yield the beginnings of some files, in whole lines, with the names of the files in messages."""
    for file in _sampled_files(files):
        path = place.shown(file.name)
        with _open_readable(place, file) as opened:
            try:
                with written.plain(opened, file) as stream:
                    data = stream.read(_BYTES)
                    more = bool(stream.read(1))
            except (OSError, pa.ArrowException, UndecodableError) as error:
                raise _sample_error(path, str(error)) from error
        data = data.removeprefix(b"\xef\xbb\xbf")
        yield path, data[: data.rfind(b"\n") + 1] if more else data


@contextmanager
def _open_readable(place: Place, file: SeenFile) -> Iterator[BinaryIO]:
    """Open a file, and raise a read error here, before a decoder sees it."""
    with place.open(file) as stream:
        stream.read(1)
        stream.seek(0)
        yield stream


def _sampled_files(files: Sequence[SeenFile]) -> Sequence[SeenFile]:
    return list(dict.fromkeys([*files[: _FILES // 2], *files[-(_FILES // 2) :]]))


def _stored_columns(place: Place, files: Sequence[SeenFile], decoder: StoredDecoder, notes: list[str]) -> Columns:
    """Return the columns that files declare; all files must agree."""
    result: Columns = []
    for file in files:
        path = place.shown(file.name)
        with _open_readable(place, file) as stream:
            try:
                columns = decoder.columns(stream)
            except UndecodableError as error:
                raise _sample_error(path, str(error)) from error
        names = [name for name, _ in columns]
        if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
            raise _sample_error(path, "it has a column whose name is empty, reserved or duplicate")
        file_types = dict(columns)
        alike = [
            (name, name in file_types and _common_type(parse_type(type_), parse_type(file_types[name])))
            for name, type_ in result
        ]
        different = [name for name, type_ in alike if not type_]
        if different:
            why = f'column "{different[0]}" is missing or has another type than in the files before it'
            raise _sample_error(path, why)
        if alike:
            _note_missing([name for name in names if name not in dict(alike)], path, notes)
        result = [(name, str(type_)) for name, type_ in alike] or columns
    return result


def _common_type(one: Type, other: Type) -> Type | None:
    """Return the type that holds the values of both; for records, with the fields of both. None if no type does."""
    if one.name != other.name or not one.nested:
        return one if one == other else None
    if one.element is not None and other.element is not None:
        element = _common_type(one.element, other.element)
        return None if element is None else Type(one.name, element=element)
    fields = {field.name: field for field in other.fields}
    common: list[Field] = []
    for field in one.fields:
        twin = fields.pop(field.name, None)
        type_ = field.type if twin is None else _common_type(field.type, twin.type)
        if type_ is None:
            return None
        common.append(Field(field.name, type_, nullable=twin is None or field.nullable or twin.nullable))
    return record_type([*common, *(field._replace(nullable=True) for field in fields.values())])


def _note_missing(names: Sequence[str], path: str, notes: list[str]) -> None:
    """Note columns that only some files have."""
    notes += [f'column "{name}" is left out: "{path}" has it, but not every file' for name in names]


def _csv_columns(
    samples: Sequence[tuple[str, bytes]], decoding: Decoding, options: Mapping[str, Any], notes: list[str]
) -> Columns:
    if format_options(options).by_position:
        samples, options = _renamed(samples, options)
    names: list[str] = []
    texts: dict[str, list[str]] = {}
    for path, data in samples:
        try:
            head = CsvRows.of(options, ()).names(BytesIO(data))
        except UndecodableError as error:
            raise _sample_error(path, str(error)) from error
        if len(set(head)) < len(head) or not all(_NAME.fullmatch(name) for name in head):
            odd = "its header has a name that is empty, reserved or duplicate"
            raise _sample_error(path, odd, hint=_BY_POSITION)
        before, names = names, [name for name in names if name in head] if names else head
        _note_missing([name for name in before if name not in head], samples[0][0], notes)
        _note_missing([name for name in head if before and name not in before], path, notes)
        if not names:
            raise _sample_error(path, f"its header shares no column with the files before it; it has {', '.join(head)}")
        for name, column in _decoded(path, data, decoding, options, [(name, "text") for name in names]).items():
            texts.setdefault(name, []).extend(value for value in column if value is not None)
    columns = [(name, type_of_texts(texts.get(name, []))) for name in names]
    for name, type_ in columns:
        why = why_text(texts.get(name, [])) if type_ == "text" else None
        if why is not None:
            notes.append(f'column "{name}" is text: {why}')
    return _checked_columns(columns, "text", samples, decoding, options)


def _renamed(
    samples: Sequence[tuple[str, bytes]], options: Mapping[str, Any]
) -> tuple[Sequence[tuple[str, bytes]], Mapping[str, Any]]:
    """Return samples by position as samples by name: all have the distinct names of the first sample."""
    named = {name: value for name, value in options.items() if name != "by_position"}
    rows, renamed, names = CsvRows.of(named, ()), list[tuple[str, bytes]](), list[str]()
    for path, data in samples:
        try:
            head = rows.names(BytesIO(data))
            if names and len(head) != len(names):
                raise _sample_error(path, f"its header has {len(head)} fields, that of earlier files {len(names)}")
            renamed.append((path, rows.named(data, names)))
            names = names or rows.names(BytesIO(renamed[0][1]))
        except UndecodableError as error:
            raise _sample_error(path, str(error)) from error
    return renamed, named


def _json_columns(samples: Sequence[tuple[str, bytes]], decoding: Decoding, options: Mapping[str, Any]) -> Columns:
    values: dict[str, list[Any]] = {}
    array = format_options(options).array
    for path, data in samples:
        if not array and _is_one_array(data):
            raise _sample_error(path, "it is a JSON array", hint="Write FORMAT JSON ARRAY.")
        if not array and _is_multiline(data):
            raise _sample_error(path, "its JSON objects have several lines", hint="Write one object per line.")
        values |= {name: [] for name in _members(data) if name not in values}
        (rows,) = _decoded(path, data, decoding, {**options, "whole": True}, [("data", "jsonb")]).values()
        for row in rows:
            document = json.loads(row) if row is not None else None
            if not isinstance(document, dict) or not all(_NAME.fullmatch(name) for name in document):
                return ()
            for name, value in document.items():
                values.setdefault(name, []).append(value)
    columns = [
        (name, type_of_values([value for value in column if value is not None]))
        for name, column in values.items()
        if column
    ]
    return _checked_columns(columns, "jsonb", samples, decoding, {**options, "whole": False})


def _is_one_array(data: bytes) -> bool:
    """Return whether data begin with an array that spans all rows of a file, not with one array a line."""
    if not data.lstrip().startswith(b"["):
        return False
    first, _, rest = data.strip().partition(b"\n")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return not rest


def _is_multiline(data: bytes) -> bool:
    """Return whether data begin with an object that continues in the next line."""
    lines = data.lstrip().splitlines()
    if len(lines) < 2 or not lines[0].startswith(b"{"):
        return False
    try:
        json.loads(lines[0])
    except (ValueError, RecursionError):
        text = data.decode(errors="replace").lstrip()
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return False
        return "\n" in text[:end]
    return False


def _members(data: bytes) -> Iterator[str]:
    """Yield the names of members in their order, which jsonb does not preserve."""
    for text in (data,) if data.lstrip().startswith(b"[") else data.splitlines():
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        for element in document if isinstance(document, list) else (document,):
            if isinstance(element, dict):
                yield from element


def _checked_columns(
    columns: Columns,
    doubtful: str,
    samples: Sequence[tuple[str, bytes]],
    decoding: Decoding,
    options: Mapping[str, Any],
) -> Columns:
    """Return the columns with the `doubtful` type for those whose values the decoder cannot all read."""
    return [
        (name, type_)
        if all(_is_readable(data, decoding, options, name, type_, doubtful) for _, data in samples)
        else (name, doubtful)
        for name, type_ in columns
    ]


def _is_readable(
    data: bytes, decoding: Decoding, options: Mapping[str, Any], name: str, type_: str, doubtful: str
) -> bool:
    failures = [
        sum(
            len(part.failures)
            for part in _parts(decoding.open(options, [physical.Column(name, parse_type(column_type))]), data, options)
        )
        for column_type in (type_, doubtful)
    ]
    return failures[0] == failures[1]


def _decoded(
    path: str, data: bytes, decoding: Decoding, options: Mapping[str, Any], columns: Columns
) -> dict[str, list[Any]]:
    values_by_name: dict[str, list[Any]] = {name: [] for name, _ in columns}
    decoder = decoding.open(options, [physical.Column(name, parse_type(type_)) for name, type_ in columns])
    try:
        for part in _parts(decoder, data, options):
            for name, values in values_by_name.items():
                values.extend(part.batch.column(part.batch.schema.get_field_index(name)).to_pylist())
    except UndecodableError as error:
        raise _sample_error(path, str(error)) from error
    return values_by_name


def _parts(decoder: Decoder, data: bytes, options: Mapping[str, Any]) -> Iterator[Decoded]:
    """Yield the decoded parts of a sample; of an array that is cut off, the parts before the cut."""
    any_part = False
    try:
        for part in decoder.decode(BytesIO(data)):
            any_part = True
            yield part
    except UndecodableError:
        if not (any_part and format_options(options).array):
            raise


_DECLARED = (
    "Correct the file or the FORMAT, or declare the columns: CREATE SOURCE s (id bigint, name text) FROM FILES …."
)
_BY_POSITION = (
    "Write FORMAT CSV WITH HEADER (COLUMNS BY = POSITION), which names the third column column3 if it has no name, "
    "and the second column of a name name_2."
)


def _sample_error(path: str, why: str, *, hint: str = _DECLARED) -> InvalidFileError:
    return InvalidFileError("SQ3102", f'file "{path}" cannot be sampled: {why}', hint=hint)
