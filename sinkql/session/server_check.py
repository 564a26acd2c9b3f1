"""Check the servers of the connections, sources and clusters of a catalog or script."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sinkql import ast, logical
from sinkql.capture.object_log_store import LOGS
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import ConnectionKind, OutsideAccess
from sinkql.connector_api.source_options import REACHED_BY
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.object_store.objects import Objects
from sinkql.object_store.s3 import SCHEME
from sinkql.parser import parse
from sinkql.planner.name import short_name
from sinkql.runtime.spark.master import ADDRESSED, own_address
from sinkql.script.redaction import mask
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.session import Session
from sinkql.state_store.store import check_state_path


def checks_of_catalog(catalog: Catalog, *, permanent: bool = True) -> Iterator[HealthCheck]:
    """Yield the checks of the servers of all connections of a catalog.

    `permanent` is false for a temporary catalog. Resources that other catalogs have on the servers are then not
    reported.
    """
    reader = catalog.reader()
    sources, tables, unconnected, logs = [], [], [], []
    for kind in ("SOURCE", "TABLE"):
        for name in reader.names(kind):
            entry = reader.entry(name)
            if entry is not None and _is_unconnected(entry.statement):
                unconnected.append(name)
            elif entry is not None and isinstance(entry.statement, ast.CreateSource):
                sources.append((entry.statement, reader.facts(name)))
            elif entry is not None and isinstance(entry.statement, ast.CreateTableFrom):
                tables.append(entry.statement)
            if entry is not None:
                logs.append(entry.statement)
    ids = frozenset(str(facts["source_id"]) for _, facts in sources if "source_id" in facts)
    yield from _checks(catalog, sources, tables, ids if permanent else None)
    for name in unconnected:
        yield from _check_source(name, catalog)
    for statement in logs:
        yield from _check_log_store(statement, catalog)


def checks_of_script(text: str, path: str, project: Path) -> Iterator[HealthCheck]:
    """Yield the checks of the servers of a script's connections, without running the rest of the script.

    Relative paths start in `project`. Raise the errors of the script.
    """
    sources: list[tuple[ast.CreateSource, logical.Facts]] = []
    tables: list[ast.CreateTableFrom] = []
    unconnected: list[ast.Name] = []
    with (
        tempfile.TemporaryDirectory(prefix="sinkql-doctor-") as folder,
        Session(Path(folder) / "catalog.db", project=project) as session,
    ):
        words = session.catalog.registry.keywords
        try:
            for statement in parse(text, words):
                match statement:
                    case ast.CreateConnection():
                        session.run_statement(replace(statement, validate=False))
                    case ast.CreateSecret() | ast.CreateSchema() | ast.CreateDatabase() | ast.SetVariable():
                        session.run_statement(statement)
                    case ast.CreateSource() | ast.CreateTableFrom() if _is_unconnected(statement):
                        session.run_statement(statement)
                        unconnected.append(statement.name)
                    case ast.CreateSource():
                        sources.append((statement, {}))
                    case ast.CreateTableFrom():
                        tables.append(statement)
                    case _:
                        pass
            yield from _checks(session.catalog, sources, tables, None)
            for name in unconnected:
                yield from _check_source(session.catalog.plans.resolve(name), session.catalog)
            for statement in parse(text, words):
                yield from _check_log_store(statement, session.catalog)
        except SinkqlError as error:
            masked = mask(text, words)
            raise masked.cover(error.within(path=path, text=masked.text)) from error.__cause__


def _checks(
    catalog: Catalog,
    sources: Iterable[tuple[ast.CreateSource, logical.Facts]],
    tables: Sequence[ast.CreateTableFrom],
    source_ids: frozenset[str] | None,
) -> Iterator[HealthCheck]:
    plans, access = catalog.plans, CatalogAccess(catalog)
    positions = _positions(catalog)
    source_checks: dict[str, list[SourceUnderCheck]] = {}
    for statement, facts in sources:
        if statement.connection is not None:
            source_check = _source_under_check(statement, facts, tables, plans)
            source_check = replace(source_check, positions=positions.get(plans.resolve(statement.name), {}))
            source_checks.setdefault(plans.resolve(statement.connection), []).append(source_check)
    for name in plans.names("CONNECTION"):
        try:
            connection = logical.get_item(plans, name, logical.Connection)
        except SinkqlError:
            continue  # the check of the catalog reports it
        kind = catalog.registry.connections[connection.kind]
        short = short_name(name, plans)
        check_context = CheckContext(tuple(source_checks.get(name, ())), source_ids, tuple(_sinks(name, plans)))
        for check in _check_connection(kind, connection, check_context, access):
            yield replace(check, name=f"{short}: {check.name}" if check.name else short)


def _sinks(connection: str, plans: logical.CatalogReader) -> Iterator[logical.Sink]:
    """Yield the sinks that write through a connection."""
    for name in plans.names("SINK"):
        try:
            item = plans.item(name)
        except SinkqlError:
            continue  # the check of the catalog reports it
        if isinstance(item, logical.Sink) and item.connection == connection:
            yield item


def _positions(catalog: Catalog) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the sinks' positions in each source, by the source's full name and the sink's short name."""
    positions: dict[str, dict[str, dict[str, Any]]] = {}
    offsets_by_sink = catalog.control.offsets()
    for name in catalog.plans.names("SINK") if offsets_by_sink else ():
        try:
            job = lower(name, catalog.plans)
        except SinkqlError:
            continue  # the check of the catalog reports it
        offsets = json.loads(offsets_by_sink.get(job.sink_id, "{}"))
        for read in job.reads():
            if read.source in offsets:
                positions.setdefault(read.name, {})[short_name(name, catalog.plans)] = offsets[read.source]
    return positions


def _is_unconnected(statement: ast.Statement) -> bool:
    """Return whether a statement creates a source without a connection, to which clients send rows."""
    match statement:
        case ast.CreateSource():
            return statement.pushed
        case ast.CreateTableFrom():
            return statement.source is None
        case _:
            return False


def _check_source(name: str, catalog: Catalog) -> Iterator[HealthCheck]:
    """Yield the checks of a source without a connection."""
    short = short_name(name, catalog.plans)
    try:
        source = logical.get_item(catalog.plans, name, logical.Source)
    except SinkqlError:
        return  # the check of the catalog reports it
    kind = catalog.registry.sources[source.kind]
    if kind.examine is None:
        return
    try:
        for check in kind.examine(source, CatalogAccess(catalog)):
            yield replace(check, name=f"{short}: {check.name}")
    except SinkqlError as error:
        yield HealthCheck(short, "wrong", error.message, error.hint)


def checks_of_clusters(catalog: Catalog) -> Iterator[HealthCheck]:
    """Check that the masters of clusters answer and that sinks can write their state to STATE."""
    for name in catalog.reader().names("CLUSTER"):
        try:
            cluster = catalog.plans.item(name)
        except SinkqlError:
            continue  # the check of the catalog reports it
        if not isinstance(cluster, logical.Cluster):
            continue
        if cluster.master.startswith(ADDRESSED):
            yield _check_master(short_name(name), cluster.master)
        if cluster.state is not None:
            yield _check_state(short_name(name), cluster.state, catalog)


def _check_master(name: str, master: str) -> HealthCheck:
    check_name = f"{name}: master"
    try:
        local_address = own_address(master)
        return HealthCheck(
            check_name,
            "ok",
            f"{master} reaches this machine at {local_address}" if local_address else f"{master} is behind a proxy",
        )
    except SinkqlError as error:
        return HealthCheck(check_name, "wrong", f"{error.message} ({error.detail})", error.hint)


def _check_state(name: str, state: logical.StatePath, catalog: Catalog) -> HealthCheck:
    check_name = f"{name}: state"
    try:
        check_state_path(state.path, state.connection, CatalogAccess(catalog).store)
        return HealthCheck(check_name, "ok", f"files can be created in {state.path}")
    except SinkqlError as error:
        return HealthCheck(check_name, "wrong", error.message, error.hint)


def _check_log_store(statement: ast.Statement, catalog: Catalog) -> Iterator[HealthCheck]:
    """Check that the object store of a source's log has conditional writes, which fence captures."""
    if not isinstance(statement, ast.CreateSource | ast.CreateTableFrom):
        return
    options = {option.name: option.value for option in statement.with_options}
    match options.get("LOG"), options.get(REACHED_BY):
        case ast.Text(path), ast.Word(connection):
            name = f"{statement.name.parts[-1].value}: log"
            bucket, _, prefix = path.removeprefix(SCHEME).partition("/")
            try:
                store = CatalogAccess(catalog).store(catalog.plans.resolve(connection))
                Objects.open_bucket(bucket, store, LOGS).check(f"{prefix.rstrip('/')}/" if prefix else "")
                yield HealthCheck(name, "ok", f"{path} has conditional writes")
            except SinkqlError as error:
                yield HealthCheck(name, "wrong", error.message, error.hint)


def _source_under_check(
    statement: ast.CreateSource,
    facts: logical.Facts,
    tables: Sequence[ast.CreateTableFrom],
    plans: logical.CatalogReader,
) -> SourceUnderCheck:
    name = plans.resolve(statement.name)
    references = (
        tuple(part.value for part in table.reference.parts)
        for table in tables
        if table.source is not None and table.reference is not None and plans.resolve(table.source) == name
    )
    return SourceUnderCheck(short_name(name, plans), statement, facts, tuple(references))


def _check_connection(
    kind: ConnectionKind, connection: logical.Connection, check_context: CheckContext, access: OutsideAccess
) -> Iterator[HealthCheck]:
    """Yield the checks of a connection. The name is empty for the check of the connection itself."""
    try:
        if kind.examine is not None:
            yield from kind.examine(connection, check_context, access)
        elif kind.validate is not None:
            kind.validate(connection, access)
            yield HealthCheck("", "ok", "it answers")
    except SinkqlError as error:
        yield HealthCheck("", "wrong", f"{error.message}{f' ({error.detail})' if error.detail else ''}", error.hint)
