"""Read a folder of JSON, CSV, Parquet, ORC or Avro files: each file once, and new files as they appear.

* `plan`: Plan CREATE SOURCE … FROM FILES, and sample the files for columns.
* `infer`: Infer the columns of a source that declares none from a sample.
* `encoding`: Map the names of encodings to Python's.
* `options`: Convert the planned options to typed ones.
* `reader`: Read a source: offsets, splits and rows.
* `discovery`: Find new and changed files from listing to listing.
* `local_listing`: List a local folder.
* `object_listing`: List objects of S3, and read their bytes.
* `processed_files`: Keep the durable log of the files that were read.
* `file_format`: Describe how files are decoded, and cut them into splits.
* `file_parts`: Measure the parts of a file that one batch reads.
* `content`: Read the bytes of files in parts with digests, and decompress them.
* `split_rows`: Decode the splits to rows.
* `json_array`: Decode files that are one JSON array; `sinkql.decode` decodes lines of JSON, and CSV.
* `typed_formats`: Decode Parquet, ORC and Avro.
* `scan`: Read the files that a query names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sinkql import physical
from sinkql.connector_api.planning import Connector, FormatKind, Scan, ScanKind, SourceKind, UnsupportedKind
from sinkql.connector_api.source_options import OnErrorOptions
from sinkql.connector_api.stream import Context, Decoder, Decoding, Reader, StoredDecoder
from sinkql.connectors.files.content import ENDINGS
from sinkql.connectors.files.options import format_options
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
from sinkql.decode.csv_options import CsvFileOptions, csv_format
from sinkql.object_store.store import ObjectStore


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.files.reader import FilesReader  # pyarrow, only when a job runs

    return FilesReader.of(read, context)


def _open_json(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> Decoder:
    from sinkql.connectors.files.json_array import JsonArray
    from sinkql.decode.json_lines import JsonDecoder

    json = format_options(options)
    return (JsonArray if json.array else JsonDecoder)(columns, whole=json.whole)


def _has_json_lines(options: Mapping[str, Any]) -> bool:
    return not format_options(options).array


def _open_csv(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> Decoder:
    from sinkql.decode.csv import CsvRows

    return CsvRows.of(options, columns)


def _csv_quote(options: Mapping[str, Any]) -> bytes:
    """Return the quote if every quote of a file opens or closes a field; comments and escapes may hold others."""
    csv = csv_format(options)
    return csv.quote.encode() if csv.comment is None and csv.escape == csv.quote else b""


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
`FROM FILES CONNECTION aws (PATH = 's3://bucket/prefix')` reads the objects below a prefix, or a single object, through
an AWS connection. An object is read as it was listed, by its etag. If it is overwritten later, the sink stops; if it is
removed, the sink continues. The connection needs boto3: `pip install 'sinkql[aws]'`.

`FORMAT JSON` reads one object per line. Members that are not columns are ignored, and a missing member is NULL.
`FORMAT JSON ARRAY` reads one array of objects per file. `FORMAT CSV WITH HEADER` finds columns by name and ignores
other fields; `WITH HEADER ("Order Id", "Name")` names the header field of each column. `FORMAT CSV WITH n COLUMNS`,
or declared columns without a header, go by position. Options of CSV follow in brackets, as in
`FORMAT CSV WITH HEADER (DELIMITED BY ';', NULL AS 'NA')`. With `COLUMNS BY = POSITION`, the names in the header do not
matter, and may be empty or duplicate. Files whose names end in `.gz`, `.bz2`, `.zst` or `.lz4`, and archives of a
single file that end in `.zip`, are decompressed; for other names, set `COMPRESSION`. A file of several compressed
members is read whole. A compressed file that is cut off, damaged or empty is an error, and no row of it is written.
`FORMAT PARQUET`, `FORMAT ORC` and `FORMAT AVRO` find columns by name and ignore other columns. In the file, a column
has the declared type or one whose values all fit, such as `integer` for a `bigint`. Structs are read as records, maps
as maps and lists as lists; all three, and Avro's unions of several types, are read as `jsonb` too. A block of an Avro
file may have up to 256 MiB.
If no columns are declared, they are inferred from a sample of the files (in S3, of the first 10,000) when the source is
created; `SHOW CREATE SOURCE` shows them. CSV without a header has no names to infer. With `INFER = false`, or if there
is no file yet, a JSON object is one column `data` of type `jsonb`.
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
            has_named_columns=named,
            about=_ABOUT,
        ),
    ),
    formats=(
        FormatKind("JSON", plan_json, Decoding(_open_json, _has_json_lines)),
        FormatKind("CSV", plan_csv, Decoding(_open_csv, quote=_csv_quote), CsvFileOptions),
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
