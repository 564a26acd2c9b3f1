"""Resolve the files that a query names to relations, and read their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.catalog.system.item import SystemRows
from sinkql.connector_api.planning import OutsideAccess, Scan, ScanKind
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError, Span
from sinkql.keywords import quoted
from sinkql.object_store.store import ObjectStore
from sinkql.parser import parse
from sinkql.planner.item.statement import item_name
from sinkql.planner.scope import Scope
from sinkql.planner.syntax.file_query import NamedFile, may_name_files, named_files, with_names

if TYPE_CHECKING:
    import pyarrow as pa

    from sinkql.catalog.memory import MemoryCatalog


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of a path in a query. Errors get the span of the path."""

    scan: Scan
    span: Span

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows lazily."""
        try:
            yield from self.scan.rows()
        except SinkqlError as error:
            raise _with_span(error, self.span) from error.__cause__

    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        import pyarrow as pa

        return pa.schema([(column.name, arrow_type(column.type)) for column in self.scan.columns])


@dataclass(frozen=True, slots=True)
class FileQuery:
    """A query over files or system relations: a catalog that includes them, and their rows by full name."""

    query: ast.Query
    plans: logical.CatalogReader
    files: Mapping[str, FileRows | SystemRows]


def resolve_files(
    query: ast.Query, plans: MemoryCatalog, registry: Registry, access: OutsideAccess
) -> FileQuery | None:
    """Return a query with its files resolved, None if it names no files.

    Raise SQ2645 if a path does not exist or its suffix is unknown, and the errors of reading the files.
    """
    if not may_name_files(query, registry.scans):
        return None
    named = named_files(query, registry.scans)
    if not named:
        return None
    formats = {name: kind.decoding for name, kind in registry.formats.items()}
    plans, files = plans.copy(), dict[str, FileRows]()
    for file in named:
        span = Span(query.span.start + file.start, query.span.start + file.end)
        try:
            kind = _kind(file, registry)
            scan = kind.open(file.path, formats, _store(file, kind, Scope(plans, registry), access))
            statement = _table_statement(file, scan)
        except SinkqlError as error:
            raise _with_span(error, span) from error.__cause__
        full_name = item_name(statement, plans)
        if full_name not in files:
            plans.add(statement, {"table_id": "file"})
        files[full_name] = FileRows(scan, span)
    return FileQuery(with_names(query, named), plans, files)


def _store(file: NamedFile, kind: ScanKind, scope: Scope, access: OutsideAccess) -> ObjectStore | None:
    if file.connection is None:
        return None
    return access.store(scope.connection(file.connection, kind.connection).name)


def _kind(file: NamedFile, registry: Registry) -> ScanKind:
    if file.function is not None:
        return registry.scans[file.function]
    name = PurePath(file.path).name.lower()
    for kind in registry.scans.values():
        suffix = next((suffix for suffix in kind.compressed if name.endswith(suffix)), "")
        if name.removesuffix(suffix).endswith(kind.suffixes):
            return kind
    functions = ", ".join(f"{function}('…')" for function in registry.scans)
    raise SinkqlError(
        "SQ2645", f'the suffix of "{file.path}" names no file format', hint=f"Use FROM with one of {functions}."
    )


def _table_statement(file: NamedFile, scan: Scan) -> ast.Create:
    """Return a CREATE TABLE with the columns of a file, which is enough to plan a query."""
    columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in scan.columns)
    (statement,) = parse(f"CREATE TABLE {quoted(file.relation)} ({columns});")
    assert isinstance(statement, ast.CreateTable)
    return statement


def _with_span(error: SinkqlError, span: Span) -> SinkqlError:
    if error.span is None:
        error.span = span
    return error


def columns_of(name: str, catalog: logical.CatalogReader) -> tuple[logical.Column, ...]:
    """Return the columns of the relation of a file."""
    return logical.get_item(catalog, name, logical.Source).shape.columns
