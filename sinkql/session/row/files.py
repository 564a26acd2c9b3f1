"""A query that names files → the query over relations of their names, and the rows of these."""

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
    """The rows of a path that a query names; errors get the path's place."""

    scan: Scan
    span: Span

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading on as they are taken."""
        try:
            yield from self.scan.rows()
        except SinkqlError as error:
            raise _placed(error, self.span) from error.__cause__

    def schema(self) -> pa.Schema:
        """Return what the rows are."""
        import pyarrow as pa

        return pa.schema([(column.name, arrow_type(column.type)) for column in self.scan.columns])


@dataclass(frozen=True, slots=True)
class FileQuery:
    """A query over relations that are no items, as files: a catalog that has them too, and their rows by full name."""

    query: ast.Query
    plans: logical.CatalogReader
    files: Mapping[str, FileRows | SystemRows]


def over_files(query: ast.Query, plans: MemoryCatalog, registry: Registry, access: OutsideAccess) -> FileQuery | None:
    """Return what a query over files means, None for one that names none.

    Raises SQ2645 where nothing is at a path or its ending does not say what it is, and what reading the files raises.
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
            statement = _stand_in(file, scan)
        except SinkqlError as error:
            raise _placed(error, span) from error.__cause__
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
        mark = next((mark for mark in kind.compressed if name.endswith(mark)), "")
        if name.removesuffix(mark).endswith(kind.suffixes):
            return kind
    functions = ", ".join(f"{each}('…')" for each in registry.scans)
    raise SinkqlError(
        "SQ2645", f'the ending of "{file.path}" does not say what is in it', hint=f"Write FROM one of {functions}."
    )


def _stand_in(file: NamedFile, scan: Scan) -> ast.Create:
    """Return a statement that makes a relation of these columns: while a query is planned nothing else matters."""
    columns = ", ".join(f"{quoted(each.name)} {each.type}" for each in scan.columns)
    (statement,) = parse(f"CREATE TABLE {quoted(file.relation)} ({columns});")
    assert isinstance(statement, ast.CreateTable)
    return statement


def _placed(error: SinkqlError, span: Span) -> SinkqlError:
    if error.span is None:
        error.span = span
    return error


def columns_of(item: logical.Item | None) -> tuple[logical.Column, ...]:
    """Return the columns of what stands for a file."""
    assert isinstance(item, logical.Source)
    return item.shape.columns
