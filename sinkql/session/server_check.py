"""The connections and sources of a catalog, or of a script → what is wrong on their servers, asked of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import ConnectionKind, OutsideAccess
from sinkql.connector_api.source_options import REACHED_BY
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.object_store.s3 import SCHEME
from sinkql.parser import parse
from sinkql.planner.name import short_name
from sinkql.runtime.spark.master import ADDRESSED, own_address
from sinkql.script.redaction import mask
from sinkql.session.item.connector_access import CatalogAccess


def checks_of_catalog(catalog: Catalog, *, own: bool = True) -> Iterator[HealthCheck]:
    """Yield what is found on the servers of all connections of a catalog.

    It is not one's `own` where it goes again: what other catalogs have on the servers is theirs.
    """
    reader = catalog.reader()
    sources, tables, alone, logs = [], [], [], []
    for kind in ("SOURCE", "TABLE"):
        for name in reader.names(kind):
            entry = reader.entry(name)
            if entry is not None and _pushed(entry.statement):
                alone.append(name)
            elif entry is not None and isinstance(entry.statement, ast.CreateSource):
                sources.append((entry.statement, reader.facts(name)))
            elif entry is not None and isinstance(entry.statement, ast.CreateTableFrom):
                tables.append(entry.statement)
            if entry is not None:
                logs.append(entry.statement)
    ids = frozenset(str(facts["source_id"]) for _, facts in sources if "source_id" in facts)
    yield from _checks(catalog, sources, tables, ids if own else None)
    for name in alone:
        yield from _of_source(name, catalog)
    for statement in logs:
        yield from _of_log(statement, catalog)


def checks_of_script(text: str, path: str, project: Path) -> Iterator[HealthCheck]:
    """Yield what is found on the servers of a script's connections; nothing else of it is run.

    Relative paths begin in `project`.
    Raises what is wrong with the script.
    """
    from sinkql.session.session import Session  # which knows this module

    sources: list[tuple[ast.CreateSource, logical.Facts]] = []
    tables: list[ast.CreateTableFrom] = []
    alone: list[ast.Name] = []
    with (
        tempfile.TemporaryDirectory(prefix="sinkql-doctor-") as folder,
        Session(Path(folder) / "catalog.db", project=project) as session,
    ):
        words = session.catalog.registry.vocabulary
        try:
            for statement in parse(text, words):
                match statement:
                    case ast.CreateConnection():
                        session.run_statement(replace(statement, validate=False))
                    case ast.CreateSecret() | ast.CreateSchema() | ast.CreateDatabase() | ast.SetVariable():
                        session.run_statement(statement)
                    case ast.CreateSource() | ast.CreateTableFrom() if _pushed(statement):
                        session.run_statement(statement)
                        alone.append(statement.name)
                    case ast.CreateSource():
                        sources.append((statement, {}))
                    case ast.CreateTableFrom():
                        tables.append(statement)
                    case _:
                        pass
            yield from _checks(session.catalog, sources, tables, None)
            for name in alone:
                yield from _of_source(session.catalog.plans.resolve(name), session.catalog)
            for statement in parse(text, words):
                yield from _of_log(statement, session.catalog)
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
    readings: dict[str, list[SourceUnderCheck]] = {}
    for statement, facts in sources:
        if statement.connection is not None:
            reading = _reading(statement, facts, tables, plans)
            reading = replace(reading, positions=positions.get(plans.resolve(statement.name), {}))
            readings.setdefault(plans.resolve(statement.connection), []).append(reading)
    for name in plans.names("CONNECTION"):
        try:
            connection = plans.item(name)
        except SinkqlError:
            continue  # the catalog's own check tells
        assert isinstance(connection, logical.Connection)
        kind = catalog.registry.connections[connection.kind]
        short = short_name(name, plans)
        examined = CheckContext(tuple(readings.get(name, ())), source_ids, tuple(_sinks(name, plans)))
        for check in _examined(kind, connection, examined, access):
            yield replace(check, name=f"{short}: {check.name}" if check.name else short)


def _sinks(connection: str, plans: logical.CatalogReader) -> Iterator[logical.Sink]:
    """Yield the sinks that write through a connection."""
    for name in plans.names("SINK"):
        try:
            item = plans.item(name)
        except SinkqlError:
            continue  # the catalog's own check tells
        if isinstance(item, logical.Sink) and item.connection == connection:
            yield item


def _positions(catalog: Catalog) -> dict[str, dict[str, dict[str, Any]]]:
    """Return how far sinks are in each source, by the source's full name and the sink's short one."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    known = catalog.control.offsets()
    for name in catalog.plans.names("SINK") if known else ():
        try:
            job = lower(name, catalog.plans)
        except SinkqlError:
            continue  # the catalog's own check tells
        offsets = json.loads(known.get(job.sink_id, "{}"))
        for read in job.reads():
            if read.source in offsets:
                found.setdefault(read.name, {})[short_name(name, catalog.plans)] = offsets[read.source]
    return found


def _pushed(statement: ast.Statement) -> bool:
    """Tell whether a statement makes a source whose rows others send, which has no connection."""
    match statement:
        case ast.CreateSource():
            return statement.pushed
        case ast.CreateTableFrom():
            return statement.source is None
        case _:
            return False


def _of_source(name: str, catalog: Catalog) -> Iterator[HealthCheck]:
    """Yield what is found of a source that has no connection."""
    short = short_name(name, catalog.plans)
    try:
        source = catalog.plans.item(name)
    except SinkqlError:
        return  # the catalog's own check tells
    assert isinstance(source, logical.Source)
    kind = catalog.registry.sources[source.kind]
    if kind.examine is None:
        return
    try:
        for check in kind.examine(source, CatalogAccess(catalog)):
            yield replace(check, name=f"{short}: {check.name}")
    except SinkqlError as error:
        yield HealthCheck(short, "wrong", error.message, error.hint)


def checks_of_clusters(catalog: Catalog) -> Iterator[HealthCheck]:
    """Tell whether masters of clusters answer, and sinks can keep their state where STATE says."""
    for name in catalog.reader().names("CLUSTER"):
        try:
            cluster = catalog.plans.item(name)
        except SinkqlError:
            continue  # the catalog's own check tells
        if not isinstance(cluster, logical.Cluster):
            continue
        if cluster.master.startswith(ADDRESSED):
            yield _of_master(short_name(name), cluster.master)
        if cluster.state is not None:
            yield _of_state(short_name(name), cluster.state, catalog)


def _of_master(name: str, master: str) -> HealthCheck:
    called = f"{name}: master"
    try:
        here = own_address(master)
        return HealthCheck(
            called, "ok", f"{master} reaches this machine at {here}" if here else f"{master} is behind a proxy"
        )
    except SinkqlError as error:
        return HealthCheck(called, "wrong", f"{error.message} ({error.detail})", error.hint)


def _of_state(name: str, state: logical.StatePath, catalog: Catalog) -> HealthCheck:
    from sinkql.state_store.store import check_state_path

    called = f"{name}: state"
    try:
        check_state_path(state.path, state.connection, CatalogAccess(catalog).store)
        return HealthCheck(called, "ok", f"files can be made in {state.path}")
    except SinkqlError as error:
        return HealthCheck(called, "wrong", error.message, error.hint)


def _of_log(statement: ast.Statement, catalog: Catalog) -> Iterator[HealthCheck]:
    """Tell whether the store of a source's log, where it has one, keeps captures apart."""
    if not isinstance(statement, ast.CreateSource | ast.CreateTableFrom):
        return
    written = {each.name: each.value for each in statement.with_options}
    match written.get("LOG"), written.get(REACHED_BY):
        case ast.Text(path), ast.Word(connection):
            from sinkql.capture.object_log_store import LOGS
            from sinkql.object_store.objects import Objects  # boto3, only where one is asked

            name = f"{statement.name.parts[-1].value}: log"
            bucket, _, prefix = path.removeprefix(SCHEME).partition("/")
            try:
                store = CatalogAccess(catalog).store(catalog.plans.resolve(connection))
                Objects.of(bucket, store, LOGS).check(f"{prefix.rstrip('/')}/" if prefix else "")
                yield HealthCheck(name, "ok", f"{path} has conditional writes")
            except SinkqlError as error:
                yield HealthCheck(name, "wrong", error.message, error.hint)


def _reading(
    statement: ast.CreateSource,
    facts: logical.Facts,
    tables: Sequence[ast.CreateTableFrom],
    plans: logical.CatalogReader,
) -> SourceUnderCheck:
    name = plans.resolve(statement.name)
    own = (
        tuple(part.value for part in each.reference.parts)
        for each in tables
        if each.source is not None and each.reference is not None and plans.resolve(each.source) == name
    )
    return SourceUnderCheck(short_name(name, plans), statement, facts, tuple(own))


def _examined(
    kind: ConnectionKind, connection: logical.Connection, examined: CheckContext, access: OutsideAccess
) -> Iterator[HealthCheck]:
    """Yield what is found through a connection; its name is empty where it is that of the connection itself."""
    try:
        if kind.examine is not None:
            yield from kind.examine(connection, examined, access)
        elif kind.validate is not None:
            kind.validate(connection, access)
            yield HealthCheck("", "ok", "it answers")
    except SinkqlError as error:
        yield HealthCheck("", "wrong", f"{error.message}{f' ({error.detail})' if error.detail else ''}", error.hint)
