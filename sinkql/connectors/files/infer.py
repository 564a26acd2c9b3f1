"""CREATE SOURCE … FROM FILES without columns → the columns that a sample of its files has, as SQL.

The sample is the first megabyte of the first and the last few files by name. A type is taken where every value of the
sample has it and the decoder reads them all so; what is in doubt is text, or jsonb in JSON. Later rows that do not fit
are invalid rows, as of columns that were declared.
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
from sinkql.decode.columns import type_of_texts, type_of_values, why_text
from sinkql.decode.csv import CsvRows
from sinkql.errors import InvalidFileError
from sinkql.logical.type import Field, Type, parse_type, record_type

_FILES = 6
_BYTES = 1 << 20
_PLAIN = Written()
_NAME = re.compile(r"[^$\x00][^\x00]*")

Columns = Sequence[tuple[str, str]]
"""Names and types."""


def infer(
    place: Place,
    files: Sequence[SeenFile],
    decoding: Decoding,
    options: Mapping[str, Any],
    written: Written = _PLAIN,
    notes: list[str] | None = None,
) -> Columns:
    """Return the columns that files have; none where there is nothing to tell.

    `options` are those of the format; `notes` get what a user might not expect. Raises SQ3305 where files cannot be
    read, SQ3102 where they are not of the format, and what the place raises.
    """
    notes = [] if notes is None else notes
    if decoding.stored is not None:
        return _stored(place, _some(files), decoding.stored(options, ()), notes)
    samples = [(path, data) for path, data in _samples(place, files, written) if data.strip()]
    return _csv(samples, decoding, options, notes) if options["name"] == "CSV" else _json(samples, decoding, options)


def _samples(place: Place, files: Sequence[SeenFile], written: Written) -> Iterator[tuple[str, bytes]]:
    """Yield the beginnings of some files, whole lines of them, with what messages call them."""
    for file in _some(files):
        path = place.shown(file.name)
        with _opened(place, file) as opened:
            try:
                with written.plain(opened, file) as stream:
                    data = stream.read(_BYTES)
                    more = bool(stream.read(1))
            except (OSError, pa.ArrowException, UndecodableError) as error:
                raise _invalid(path, str(error)) from error
        data = data.removeprefix(b"\xef\xbb\xbf")
        yield path, data[: data.rfind(b"\n") + 1] if more else data


@contextmanager
def _opened(place: Place, file: SeenFile) -> Iterator[BinaryIO]:
    """Open a file; where it may not be read that is raised here, and by no decoder."""
    with place.open(file) as stream:
        stream.read(1)
        stream.seek(0)
        yield stream


def _some(files: Sequence[SeenFile]) -> Sequence[SeenFile]:
    return list(dict.fromkeys([*files[: _FILES // 2], *files[-(_FILES // 2) :]]))


def _stored(place: Place, files: Sequence[SeenFile], decoder: StoredDecoder, notes: list[str]) -> Columns:
    """Return the columns that files say they have: all of them alike."""
    found: Columns = []
    for file in files:
        path = place.shown(file.name)
        with _opened(place, file) as stream:
            try:
                columns = decoder.columns(stream)
            except UndecodableError as error:
                raise _invalid(path, str(error)) from error
        names = [name for name, _ in columns]
        if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
            raise _invalid(path, "it has a column whose name is empty, reserved or there more than once")
        own = dict(columns)
        alike = [(name, name in own and _common(parse_type(type_), parse_type(own[name]))) for name, type_ in found]
        different = [name for name, type_ in alike if not type_]
        if different:
            why = f'column "{different[0]}" is not there as in the files before it'
            raise _invalid(path, why)
        if alike:
            _leave_out([name for name in names if name not in dict(alike)], path, notes)
        found = [(name, str(type_)) for name, type_ in alike] or columns
    return found


def _common(one: Type, other: Type) -> Type | None:
    """Return the type of which the values of both are: of two records, that with the fields of both; None without."""
    if one.name != other.name or not one.nested:
        return one if one == other else None
    if one.element is not None and other.element is not None:
        element = _common(one.element, other.element)
        return None if element is None else Type(one.name, element=element)
    fields = {each.name: each for each in other.fields}
    found: list[Field] = []
    for mine in one.fields:
        its = fields.pop(mine.name, None)
        type_ = mine.type if its is None else _common(mine.type, its.type)
        if type_ is None:
            return None
        found.append(Field(mine.name, type_, nullable=its is None or mine.nullable or its.nullable))
    return record_type([*found, *(each._replace(nullable=True) for each in fields.values())])


def _leave_out(names: Sequence[str], path: str, notes: list[str]) -> None:
    """Note columns that not all files have."""
    notes += [f'column "{name}" is left out: "{path}" has it, and others have not' for name in names]


def _csv(
    samples: Sequence[tuple[str, bytes]], decoding: Decoding, options: Mapping[str, Any], notes: list[str]
) -> Columns:
    if options.get("by_position"):
        samples, options = _renamed(samples, options)
    names: list[str] = []
    texts: dict[str, list[str]] = {}
    for path, data in samples:
        try:
            head = CsvRows.of(options, ()).names(BytesIO(data))
        except UndecodableError as error:
            raise _invalid(path, str(error)) from error
        if len(set(head)) < len(head) or not all(_NAME.fullmatch(name) for name in head):
            odd = "its header has a name that is empty, reserved or there more than once"
            raise _invalid(path, odd, hint=_BY_POSITION)
        before, names = names, [name for name in names if name in head] if names else head
        _leave_out([name for name in before if name not in head], samples[0][0], notes)
        _leave_out([name for name in head if before and name not in before], path, notes)
        if not names:
            raise _invalid(path, f"its header has no column of the files before it; it has {', '.join(head)}")
        for name, column in _decoded(path, data, decoding, options, [(name, "text") for name in names]).items():
            texts.setdefault(name, []).extend(value for value in column if value is not None)
    found = [(name, type_of_texts(texts.get(name, []))) for name in names]
    for name, type_ in found:
        why = why_text(texts.get(name, [])) if type_ == "text" else None
        if why is not None:
            notes.append(f'column "{name}" is text: {why}')
    return _kept(found, "text", samples, decoding, options)


def _renamed(
    samples: Sequence[tuple[str, bytes]], options: Mapping[str, Any]
) -> tuple[Sequence[tuple[str, bytes]], Mapping[str, Any]]:
    """Return samples whose columns go by position as such that have the names of the first one, which all differ."""
    named = {name: value for name, value in options.items() if name != "by_position"}
    rows, found, names = CsvRows.of(named, ()), list[tuple[str, bytes]](), list[str]()
    for path, data in samples:
        try:
            head = rows.names(BytesIO(data))
            if names and len(head) != len(names):
                raise _invalid(path, f"its header has {len(head)} fields, and that of the files before it {len(names)}")
            found.append((path, rows.named(data, names)))
            names = names or rows.names(BytesIO(found[0][1]))
        except UndecodableError as error:
            raise _invalid(path, str(error)) from error
    return found, named


def _json(samples: Sequence[tuple[str, bytes]], decoding: Decoding, options: Mapping[str, Any]) -> Columns:
    values: dict[str, list[Any]] = {}
    for path, data in samples:
        if not options.get("array") and _one_array(data):
            raise _invalid(path, "it is a JSON array", hint="Write FORMAT JSON ARRAY.")
        if not options.get("array") and _several_lines(data):
            raise _invalid(path, "its JSON objects have several lines", hint="Write each object in a line of its own.")
        values |= {name: [] for name in _members(data) if name not in values}
        (rows,) = _decoded(path, data, decoding, {**options, "whole": True}, [("data", "jsonb")]).values()
        for row in rows:
            document = json.loads(row) if row is not None else None
            if not isinstance(document, dict) or not all(_NAME.fullmatch(name) for name in document):
                return ()
            for name, value in document.items():
                values.setdefault(name, []).append(value)
    found = [
        (name, type_of_values([each for each in column if each is not None]))
        for name, column in values.items()
        if column
    ]
    return _kept(found, "jsonb", samples, decoding, {**options, "whole": False})


def _one_array(data: bytes) -> bool:
    """Tell whether data begin an array that holds all rows of a file, not lines of which each is an array."""
    if not data.lstrip().startswith(b"["):
        return False
    first, _, rest = data.strip().partition(b"\n")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return not rest


def _several_lines(data: bytes) -> bool:
    """Tell whether data begin with an object that goes on in the next line."""
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
    """Yield the names of members in the order in which they stand, which jsonb does not keep."""
    for text in (data,) if data.lstrip().startswith(b"[") else data.splitlines():
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        for each in document if isinstance(document, list) else (document,):
            if isinstance(each, dict):
                yield from each


def _kept(
    found: Columns,
    doubtful: str,
    samples: Sequence[tuple[str, bytes]],
    decoding: Decoding,
    options: Mapping[str, Any],
) -> Columns:
    """Return the columns; of those whose values the decoder does not all read so, the type is that in doubt."""
    return [
        (name, type_)
        if all(_reads(data, decoding, options, name, type_, doubtful) for _, data in samples)
        else (name, doubtful)
        for name, type_ in found
    ]


def _reads(data: bytes, decoding: Decoding, options: Mapping[str, Any], name: str, type_: str, doubtful: str) -> bool:
    failures = [
        sum(
            len(part.failures)
            for part in _parts(decoding.open(options, [physical.Column(name, parse_type(each))]), data, options)
        )
        for each in (type_, doubtful)
    ]
    return failures[0] == failures[1]


def _decoded(
    path: str, data: bytes, decoding: Decoding, options: Mapping[str, Any], columns: Columns
) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name, _ in columns}
    decoder = decoding.open(options, [physical.Column(name, parse_type(type_)) for name, type_ in columns])
    try:
        for part in _parts(decoder, data, options):
            for name, values in found.items():
                values.extend(part.batch.column(part.batch.schema.get_field_index(name)).to_pylist())
    except UndecodableError as error:
        raise _invalid(path, str(error)) from error
    return found


def _parts(decoder: Decoder, data: bytes, options: Mapping[str, Any]) -> Iterator[Decoded]:
    """Yield what a sample decodes to; of an array that is cut off, what comes before."""
    found = False
    try:
        for part in decoder.decode(BytesIO(data)):
            found = True
            yield part
    except UndecodableError:
        if not (found and options.get("array")):
            raise


_DECLARED = (
    "Correct the file or the FORMAT, or declare the columns: CREATE SOURCE s (id bigint, name text) FROM FILES …."
)
_BY_POSITION = (
    "Write FORMAT CSV WITH HEADER (COLUMNS BY = POSITION), which calls the third column column3 if it has no name, and "
    "the second one of a name name_2."
)


def _invalid(path: str, why: str, *, hint: str = _DECLARED) -> InvalidFileError:
    return InvalidFileError("SQ3102", f'file "{path}" cannot be sampled: {why}', hint=hint)
