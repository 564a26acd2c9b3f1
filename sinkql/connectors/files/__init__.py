"""FILES sources: a folder of JSON, CSV, Parquet, ORC or Avro, each file once, by name, and new ones as they come.

* `plan`: the statement → typed columns and the reader's options.
* `infer`: files → the columns of a source that declares none.
* `local_listing`, `local_listing`, `discovery`: a folder → its files, what is new in it look by look, and what changed.
* `object_listing`: the same of objects of S3.
* `content`, `content`: a file → parts with digests, and its bytes only as they were when it was listed.
* `processed_files`: the durable log of the files that were read, in segments that are merged and swept.
* `reader`: offsets → splits → rows.
* `scan`: files that a query names → rows.
* `content`, `encoding`: a file that is compressed, or in another encoding → its text in UTF-8.
* `json_array`: a file that is one array → its members; lines of JSON, and CSV, are read by `sinkql.decode`.
* `typed_formats`: files with columns in types of their own → an Arrow array of each declared column.
* `typed_formats`: the blocks of Avro files, which Arrow does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sinkql import physical
from sinkql.connector_api.planning import Connector, FormatKind, Scan, ScanKind, SourceKind, UnsupportedKind
from sinkql.connector_api.source_options import OnErrorOptions
from sinkql.connector_api.stream import Context, Decoder, Decoding, Reader, StoredDecoder
from sinkql.connectors.files.content import ENDINGS
from sinkql.connectors.files.plan import (
    FilesOptions,
    look,
    named,
    plan,
    plan_avro,
    plan_csv,
    plan_json,
    plan_stored,
    sample,
)
from sinkql.decode.csv_options import CsvFileOptions
from sinkql.object_store.store import ObjectStore


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.files.reader import FilesReader  # pyarrow, only where a job runs

    return FilesReader.of(read, context)


def _open_json(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> Decoder:
    from sinkql.connectors.files.json_array import JsonArray
    from sinkql.decode.json_lines import JsonDecoder

    return (JsonArray if options.get("array") else JsonDecoder)(columns, whole=options["whole"])


def _lines_of_json(options: Mapping[str, Any]) -> bool:
    return not options.get("array")


def _open_csv(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> Decoder:
    from sinkql.decode.csv import CsvRows

    return CsvRows.of(options, columns)


def _quote_of_csv(options: Mapping[str, Any]) -> bytes:
    """Return the quote, where all quotes of a file count: not those of comments, or behind another escape."""
    quote: str = options.get("quote", '"')
    return quote.encode() if "comment" not in options and options.get("escape", '"') == quote else b""


def _open_parquet(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> StoredDecoder:
    from sinkql.connectors.files.typed_formats import parquet_rows

    return parquet_rows(columns)


def _open_orc(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> StoredDecoder:
    from sinkql.connectors.files.typed_formats import orc_rows

    return orc_rows(columns)


def _open_avro(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> StoredDecoder:
    from sinkql.connectors.files.typed_formats import avro_rows

    return avro_rows(columns)


def _scan(format_: str) -> Callable[[str, Mapping[str, Decoding], ObjectStore | None], Scan]:
    def open_scan(path: str, formats: Mapping[str, Decoding], store: ObjectStore | None) -> Scan:
        from sinkql.connectors.files.scan import scan

        return scan(path, format_, formats, store)

    return open_scan


_ABOUT = """\
`FROM FILES CONNECTION aws (PATH = 's3://bucket/prefix')` reads the objects below a prefix, or a single one, through an
AWS connection. An object is read as it was listed, by its etag; one that is
overwritten later stops the sink, and one that is removed does not. It needs boto3: `pip install 'sinkql[aws]'`.

`FORMAT JSON`: one object a line; members that are not columns are left out, a missing one is NULL.
`FORMAT JSON ARRAY`: a file is one array of such objects. `FORMAT CSV WITH HEADER`: columns go by name, and others in
the file are left out; `WITH HEADER ("Order Id", "Name")` names the header's field of each column. `FORMAT CSV WITH n
COLUMNS` or declared columns without a header: by place. Options of CSV follow in brackets, as in
`FORMAT CSV WITH HEADER (DELIMITED BY ';', NULL AS 'NA')`. With `COLUMNS BY = POSITION` the names in the header do not
matter, which may be empty or there twice. Files whose names end in `.gz`, `.bz2`, `.zst` or `.lz4`, and archives of a
single file that end in `.zip`, are read compressed; `COMPRESSION` says it where names do not. A file of several
compressed members is read whole; one that is cut off, damaged or empty is an error, and no row of it is written.
`FORMAT PARQUET`, `FORMAT ORC` and `FORMAT AVRO`: columns go by name, and others in the file are left out. A column has
the declared type in the file, or one whose values all fit into it, such as `integer` for a `bigint`; structs are
records, maps and lists their own, all three also `jsonb`, as Avro's unions of several types are. A block of an Avro
file may have up to 256 MiB.
Without columns, those of all formats but CSV without a header are found in a sample of the files (in S3, of the
first 10,000) when the source is created, and kept: `SHOW CREATE SOURCE` shows them. With `INFER = false`, or where
there is no file yet, a JSON object is one column `data` of type `jsonb`.
Types: `boolean`, `smallint`, `integer`, `bigint`, `uint2`, `uint4`, `uint8`, `real`, `double precision`,
`numeric(p, s)`, `date`, `time`, `timestamp`, `timestamptz`, `interval`, `text`, `bytea`, `uuid`, `jsonb`;
ranges, as `int4range` and `tstzrange`; arrays, lists, maps and records of these, as `integer[]`, `text list`,
`map[text => integer]` and `record(a integer, b text)`."""

connector = Connector(
    "files",
    sources=(
        SourceKind(
            "FILES",
            plan,
            _open_reader,
            FilesOptions,
            OnErrorOptions,
            facts=look,
            sample=sample,
            named=named,
            about=_ABOUT,
        ),
    ),
    formats=(
        FormatKind("JSON", plan_json, Decoding(_open_json, _lines_of_json)),
        FormatKind("CSV", plan_csv, Decoding(_open_csv, quote=_quote_of_csv), CsvFileOptions),
        FormatKind("PARQUET", plan_stored, Decoding(_open_parquet, stored=_open_parquet)),
        FormatKind("ORC", plan_stored, Decoding(_open_orc, stored=_open_orc)),
        FormatKind("AVRO", plan_avro, Decoding(_open_avro, stored=_open_avro)),
    ),
    scans=(
        ScanKind("read_json", (".json", ".jsonl", ".ndjson"), _scan("JSON"), "AWS", tuple(ENDINGS)),
        ScanKind("read_csv", (".csv",), _scan("CSV"), "AWS", tuple(ENDINGS)),
        ScanKind("read_parquet", (".parquet",), _scan("PARQUET"), "AWS"),
        ScanKind("read_orc", (".orc",), _scan("ORC"), "AWS"),
        ScanKind("read_avro", (".avro",), _scan("AVRO"), "AWS"),
    ),
    later=(UnsupportedKind("FORMAT", "REGEX"),),
    tasks=(
        "sinkql.connectors.files.reader",
        "sinkql.connectors.files.json_array",
        "sinkql.decode.json_lines",
        "sinkql.decode.csv",
        "sinkql.connectors.files.typed_formats",
    ),
)
