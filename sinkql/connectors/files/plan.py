"""Plan CREATE SOURCE … FROM FILES: the typed columns, and the options that the reader takes from the job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.connector_api.planning import FormatPlan, OutsideAccess, PlanningContext, SourcePlan
from sinkql.connector_api.source_options import OnErrorOptions
from sinkql.connectors.files.content import Compression, Place, SeenFile
from sinkql.connectors.files.encoding import encoding_of
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.object_listing import Bucket
from sinkql.connectors.files.options import format_options, planned_files
from sinkql.decode.columns import check_names, check_primary_key, declared
from sinkql.decode.csv_options import csv_file_form
from sinkql.errors import InvalidFileError, SinkqlError, Span, UnaskedError
from sinkql.local_path import in_project
from sinkql.printer.clause import name as print_name

STORED = ("PARQUET", "ORC", "AVRO")
"""Formats whose files declare their columns."""
_LISTED = 10_000
_DATA = logical.Column("data", logical.Type("jsonb"))


@dataclass(frozen=True, slots=True)
class FilesOptions:
    """The options of FROM FILES."""

    path: str = option_field(
        "a folder or file below the project's folder; with `CONNECTION`, `s3://bucket/prefix`", local_path=True
    )
    glob: str = option_field("a pattern of file names, without slashes", default="*")
    recursive: bool = option_field("also read subfolders", default=False)
    follow: bool = option_field("wait for new files; `false` is not supported yet", default=True)
    compression: Compression = option_field(
        "the compression; AUTO uses the endings .gz, .bz2, .zst, .lz4 and .zip", default="AUTO"
    )
    encoding: str = option_field("the text encoding, for example LATIN1, WIN1252, SJIS or UTF16", default="UTF8")
    infer: bool = option_field("infer columns from a sample of the files if none are declared", default=True)
    max_files_per_commit: int | None = option_field("the most files of one commit; 10000 by default", default=None)


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a FILES source: append-only rows of the declared columns."""
    options = bind(statement.options, FilesOptions, owner="sources from files", span=statement.kind_span)
    _check_place(statement, options.path, planning)
    error_options = bind(statement.with_options, OnErrorOptions, owner="sources from files", span=statement.kind_span)
    if "/" in options.glob:
        raise SinkqlError(
            "SQ2327",
            "GLOB is a pattern of file names and cannot contain a slash",
            option_span(statement.options, "GLOB", statement.kind_span),
            hint=f"Write RECURSIVE = true, GLOB = '{options.glob.rpartition('/')[2] or '*'}' to read subfolders too.",
        )
    if not options.follow:
        raise _later_error(
            "FOLLOW = false is",
            option_span(statement.options, "FOLLOW", statement.kind_span),
            "Remove it; sinkql exec --once and sinkql up --once read the present files, and stop.",
        )
    if options.max_files_per_commit == 0:
        raise SinkqlError(
            "SQ2326",
            "MAX FILES PER COMMIT must be at least 1",
            option_span(statement.options, "MAX FILES PER COMMIT", statement.kind_span),
            hint="Write MAX FILES PER COMMIT 1 or more.",
        )
    if statement.include:
        raise _later_error("INCLUDE for files is", statement.include[0].span, "Remove INCLUDE.")
    if statement.envelope not in (None, "NONE"):
        raise _later_error(f"ENVELOPE {statement.envelope} for files is", statement.kind_span, "Remove ENVELOPE.")
    if statement.format is None:
        raise SinkqlError(
            "SQ2410",
            "sources from files require a FORMAT",
            statement.kind_span,
            hint="Add FORMAT JSON, FORMAT CSV WITH HEADER or FORMAT PARQUET.",
        )
    format_ = planning.format(statement.format)
    if format_.name in STORED and options.compression not in ("AUTO", "NONE"):
        raise SinkqlError(
            "SQ2336",
            f"COMPRESSION does not apply to {format_.name} files, which have internal compression",
            option_span(statement.options, "COMPRESSION", statement.kind_span),
            hint="Remove COMPRESSION.",
        )
    encoding = _encoding(statement, options.encoding, format_.name)
    planned = format_.plan(statement, statement.format)
    columns = (
        planned.columns if planned.columns is not None else declared(statement.columns, owner="sources from files")
    )
    names = [column.name for column in columns]
    keys = (frozenset(ident.value for ident in statement.primary_key),) if statement.primary_key else ()
    check_primary_key(statement, names)
    tuning: dict[str, Any] = {
        "on_error": error_options.on_error.lower(),
        "max_files_per_commit": options.max_files_per_commit,
    }
    return SourcePlan(
        {
            "path": options.path,
            "glob": options.glob,
            "recursive": options.recursive,
            "follow": options.follow,
            "format": {"name": format_.name, **planned.options},
            "tuning": tuning,
            **({} if options.compression == "AUTO" else {"compression": options.compression}),
            **({} if encoding is None else {"encoding": encoding}),
        },
        logical.Shape(columns, keys, logical.Change.APPEND),
    )


def _encoding(statement: ast.CreateSource, name: str, format_: str) -> str | None:
    """Return the encoding of files that are not in UTF-8; raise SQ2336 and SQ2419."""
    span = option_span(statement.options, "ENCODING", statement.kind_span)
    try:
        encoding = encoding_of(name)
    except LookupError:
        raise SinkqlError(
            "SQ2419",
            f'"{name}" is not a text encoding',
            span,
            hint="Write ENCODING = 'LATIN1', 'WIN1252', 'SJIS', 'GB18030', 'UTF16', or another name of Postgres or "
            "Python.",
        ) from None
    if encoding is not None and format_ in STORED:
        raise SinkqlError(
            "SQ2336",
            f"ENCODING does not apply to {format_} files, whose texts are in UTF-8",
            span,
            hint="Remove ENCODING.",
        )
    return encoding


def _check_place(statement: ast.CreateSource, path: str, planning: PlanningContext) -> None:
    """Raise SQ2322 for a path of S3 without a connection, and for another path with a connection."""
    in_bucket = re.match(r"s3://[^/]+(/|$)", path) is not None
    span = option_span(statement.options, "PATH", statement.kind_span)
    if statement.connection is not None:
        planning.connection(statement.connection, "AWS")
        if not in_bucket:
            raise SinkqlError(
                "SQ2322",
                f'files on an AWS connection are in a bucket, but PATH "{path}" names none',
                span,
                hint="Write PATH = 's3://bucket/prefix', or remove CONNECTION for local files.",
            )
    elif re.match(r"s3[an]?:", path):
        raise SinkqlError(
            "SQ2322",
            f'PATH "{path}" is in S3, which requires a connection',
            span,
            hint="Write FROM FILES CONNECTION name (PATH = 's3://bucket/prefix'), with a connection from "
            "CREATE CONNECTION name TO AWS (…).",
        )


def look(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess) -> logical.Facts:
    """List the bucket of a source, so that an error of the bucket or the connection appears immediately."""
    if statement.connection is None:
        return {}
    with _error_spans(statement):
        next(_bucket(statement, statement.connection, planning, access).list(), None)
    return {}


def _bucket(
    statement: ast.CreateSource, connection: ast.Name, planning: PlanningContext, access: OutsideAccess
) -> Bucket:
    options = bind(statement.options, FilesOptions, owner="", span=statement.kind_span)
    store = access.store(planning.connection(connection, "AWS").name)
    return Bucket.of(options.path, options.glob, options.recursive, store)


@contextmanager
def _error_spans(statement: ast.CreateSource) -> Iterator[None]:
    """Set the span of an error of the store: the connection, or the option that causes it."""
    try:
        yield
    except SinkqlError as error:
        if error.span is None and statement.connection is not None and not isinstance(error, InvalidFileError):
            wrong = option_span(statement.options, "PATH", statement.kind_span)
            error.span = wrong if error.option == "PATH" else statement.connection.span
        elif error.span is None:
            error.span = statement.kind_span
        raise


def sample(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return the columns of a sample of the files if the statement declares none and the format can show them.

    Raises the errors of `plan` that do not concern columns, and errors of reading the files; SQ2413 for files in S3
    without access.
    """
    format_ = statement.format
    if (
        statement.columns
        or format_ is None
        or format_.names
        or not (format_.name in ("JSON", *STORED) or (format_.name, format_.header) == ("CSV", True))
    ):
        return {}
    column = ast.ColumnDef(ast.Ident("column"), ast.TypeName("text"))
    planned = plan(replace(statement, columns=(column,), primary_key=()), {}, planning)
    if not bind(statement.options, FilesOptions, owner="", span=statement.kind_span).infer:
        return {}
    if statement.connection is not None and access is None:
        raise UnaskedError(
            "SQ2413",
            "no columns are declared, and files in S3 are sampled only when the source is created",
            format_.span,
            hint=f"Write CREATE SOURCE {print_name(statement.name)} (id bigint, name text) FROM FILES ….",
        )
    with _error_spans(statement):
        folder, files = _files(statement, planned, planning, access)
        if not files:
            return {}
        from sinkql.connectors.files.infer import infer  # pyarrow

        decoding, options = planning.format(format_).decoding, planned_files(planned.options)
        notes: list[str] = []
        columns = infer(folder, files, decoding, options.format, options.written, notes)
    facts: logical.Facts = {"columns": [list(column) for column in columns]}
    return {**facts, "notes": notes} if notes and columns else facts


def _files(
    statement: ast.CreateSource, planned: SourcePlan, planning: PlanningContext, access: OutsideAccess | None
) -> tuple[Place, Sequence[SeenFile]]:
    """Return the first files of a source by name; for a bucket, the objects of the first pages."""
    if access is None or statement.connection is None:
        options = planned_files(planned.options)
        path = in_project(options.path, Path.cwd()) if access is None else access.path(options.path)
        folder = Folder(path, options.glob, options.recursive)
        return folder, folder.files() if path.exists() else []
    bucket = _bucket(statement, statement.connection, planning, access)
    return bucket, bucket.first(_LISTED)


def plan_json(statement: ast.CreateSource, format_: ast.Format) -> FormatPlan:
    """Plan FORMAT JSON: members by name, or each object in one column; with ARRAY, the file is one array."""
    options = {"whole": not statement.columns} | ({"array": True} if format_.array else {})
    return FormatPlan(options, None if statement.columns else (_DATA,))


def plan_stored(statement: ast.CreateSource, format_: ast.Format) -> FormatPlan:
    """Plan FORMAT PARQUET, FORMAT ORC and FORMAT AVRO: columns by name."""
    if not statement.columns:
        raise SinkqlError(
            "SQ2413",
            "no columns are declared, and no files show them",
            format_.span,
            hint=f"Write CREATE SOURCE {print_name(statement.name)} (id bigint, name text) FROM FILES ….",
        )
    return FormatPlan({})


def plan_avro(statement: ast.CreateSource, format_: ast.Format) -> FormatPlan:
    """Plan FORMAT AVRO of files, which contain their schema."""
    if format_.schema is not None:
        raise _later_error(
            "FORMAT AVRO USING for files is", format_.span, "Write FORMAT AVRO: the files contain their schema."
        )
    return plan_stored(statement, format_)


def named(options: Mapping[str, Any]) -> bool:
    """Return whether the files of a source name the values of their rows."""
    format_ = format_options(planned_files(options).format)
    match format_.name:
        case "JSON":
            return not format_.whole
        case "CSV":
            return format_.header and not format_.names and not format_.by_position
        case name:
            return name in STORED


def plan_csv(statement: ast.CreateSource, format_: ast.Format) -> FormatPlan:
    """Plan FORMAT CSV: columns by name with a header, by position without one."""
    options = {"header": format_.header, **csv_file_form(format_, owner="CSV files")}
    if statement.columns:
        if format_.names and len(format_.names) != len(statement.columns):
            raise SinkqlError(
                "SQ2416",
                f"expected a name in HEADER for each of {len(statement.columns)} columns, found {len(format_.names)}",
                format_.names[-1].span,
                hint="Name the header field of each column, in the order of the columns.",
            )
        names = [ident.value for ident in format_.names]
        return FormatPlan({**options, "names": names} if names else options)
    names = [ident.value for ident in format_.names] or [f"column{i + 1}" for i in range(format_.column_count or 0)]
    if not names:
        raise SinkqlError(
            "SQ2413",
            "a CSV source requires a list of columns",
            format_.span,
            hint=f"Write CREATE SOURCE {print_name(statement.name)} (id bigint, name text) FROM FILES ….",
        )
    check_names(format_.names)
    return FormatPlan(options, tuple(logical.Column(name, logical.Type("text")) for name in names))


def _later_error(what: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2902", f"{what} not supported yet", span, hint=hint)
