"""CREATE → an item in the catalog: planned, purified, planned with its facts, stored."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import adding, redefining, sharing_views
from sinkql.catalog.replan import means_the_same
from sinkql.catalog.row import Stored
from sinkql.catalog.secret.value import Given, SecretValue, given
from sinkql.connector_api.options import option_span
from sinkql.connector_api.planning import Keys
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.source_options import LOG_FACT, state_of_cluster
from sinkql.errors import Notice, SinkqlError, UnfitNameError
from sinkql.lowering.materialized_view import VIEW_ID
from sinkql.planner import Planned, plan
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.item.sink import expand
from sinkql.planner.item.source import sampled
from sinkql.planner.item.statement import built_in, definition_diff, existing_item, item_name, kind_of, name_span
from sinkql.planner.item.view import own_job
from sinkql.planner.scope import Scope
from sinkql.printer import to_sql
from sinkql.script.redaction import without_literal
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.destination import comments_on_input
from sinkql.session.item.view_job import ViewJobChange, replace_view, sharing_by_index, view_job_change
from sinkql.session.result import Result
from sinkql.table.file import create as make_table
from sinkql.table.file import remove as remove_table
from sinkql.table.file import table_path


def create(statement: ast.Create, catalog: Catalog) -> Result:
    """Create an item in the catalog, which was just read; SQ2014 if there is a different one of its name.

    It is planned once, and again only if the outside tells something, or if another process changed the catalog.
    """
    keys = _new_keys(statement, catalog.registry)
    facts, asked = {**_own_facts(statement, catalog), **(keys.facts if keys is not None else {})}, False
    while True:
        name = item_name(statement, catalog.plans)
        entry = catalog.reader().entry(name)
        stored = catalog.stored(name) if entry is not None else None
        if stored is not None and not _replaces(statement, stored, catalog):
            different = _difference(statement, stored, catalog) if stored.kind == kind_of(statement) else ""
            rows = "table_id" in stored.facts
            notice = existing_item(statement, name, stored.kind, different, catalog.reader(), rows=rows)
            return _skipped(statement, name, notice)
        if stored is None and statement.if_not_exists and built_in(statement, catalog.plans.entry(name)):
            return _skipped(statement, name, existing_item(statement, name, kind_of(statement), "", catalog.reader()))
        try:
            if stored is not None:
                return _replace(statement, stored, catalog)
            if not asked:
                facts = {**facts, **comments_on_input(statement, catalog)}
                facts = {**facts, **sampled(statement, Scope(catalog.plans, catalog.registry), CatalogAccess(catalog))}
            planned = plan(statement, facts, catalog.plans, catalog.registry)
            catalog.plans.check_destination(statement, planned)
            if not asked:
                found, asked = purify(statement, planned, catalog), True
                if found:
                    facts = {**facts, **found}
                    planned = plan(statement, facts, catalog.plans, catalog.registry)
            secret = given(statement.value) if isinstance(statement, ast.CreateSecret) else None
            if keys is not None:
                secret = kept_keys(keys)
            add = adding(qualify(statement, catalog.plans), facts, secret, planned)
            sharing = _sharing(statement, planned.item, catalog)
            if sharing.changes:
                add = sharing_views(add, sharing.changes, sharing.ids, catalog.reader())
            catalog.change(add)
            made = _made(statement, planned)
            return replace(made, notices=(*made.notices, *sharing.notices))
        except ChangedError:
            catalog.refresh()
        except BaseException:
            _undo(facts, catalog)
            raise


def _sharing(statement: ast.Create, item: logical.Item, catalog: Catalog) -> ViewJobChange:
    """Return what becomes of views with a new sink, or a new index."""
    match statement, item:
        case _, logical.Sink():
            return view_job_change(item, catalog)
        case ast.CreateIndex(), logical.Index():
            return sharing_by_index(item, catalog, statement.relation.span)
        case _:
            return ViewJobChange()


def create_many(statement: ast.CreateSinks, catalog: Catalog) -> Result:
    """Create a sink for each table; the session does it as a whole. Sinks that are there as they should be stay."""
    found = [_create_one(each, catalog) for each in expand(statement, catalog.plans)]
    notices = tuple(notice for each in found for notice in each.notices)
    return Result("CREATE SINKS", notices, names=tuple(name for each in found for name in each.names))


def _create_one(statement: ast.CreateSink, catalog: Catalog) -> Result:
    try:
        return create(statement, catalog)
    except UnfitNameError as error:
        table = statement.relation.parts[-1].value
        error.hint = f'Create the sink of "{table}" by itself, with another TABLE, and the others with FOR TABLES (…).'
        raise


def _own_facts(statement: ast.Create, catalog: Catalog) -> dict[str, Any]:
    """Return the ids under which rows, logs and jobs are known whatever the name of their item, and where logs lie."""
    registry = catalog.registry
    match statement:
        case ast.CreateSource(kind=kind) | ast.CreateTableFrom(source=None, kind=kind) if (
            kind in registry.sources and registry.sources[kind].stream is not None
        ):
            return {"source_id": str(uuid.uuid4()), **_log_facts(statement, Scope(catalog.plans, registry))}
        case ast.CreateSink():
            return {"sink_id": str(uuid.uuid4())}
        case ast.CreateTable():
            return {"table_id": str(uuid.uuid4())}
        case ast.CreateView() if own_job(statement):
            return {VIEW_ID: str(uuid.uuid4())}
        case _:
            return {}


def _log_facts(statement: ast.Create, scope: Scope) -> dict[str, Any]:
    """Return where a source has its log whose statement does not say it."""
    if any(option.name == "LOG" for option in getattr(statement, "with_options", ())):
        return {}
    try:
        state = state_of_cluster(statement, scope)
    except SinkqlError:  # no such cluster: of a source that is not there yet, its plan says so
        return {}
    return {} if state is None else {LOG_FACT: state.path}


def _new_keys(statement: ast.Create, registry: Registry) -> Keys | None:
    """Return the keys of its own that a new connection gets."""
    if not isinstance(statement, ast.CreateConnection):
        return None
    kind = registry.connections.get(statement.kind)
    return kind.keys(None) if kind is not None and kind.keys is not None else None


def kept_keys(keys: Keys) -> Given:
    """Return what is kept of keys as a secret's value."""
    return Given("literal", SecretValue(keys.kept))


def _undo(facts: Mapping[str, Any], catalog: Catalog) -> None:
    """Delete what purifying created outside of the catalog."""
    if "table_id" in facts:
        remove_table(table_path(catalog.database.folder, facts["table_id"], ""))


def _replace(statement: ast.Create, stored: Stored, catalog: Catalog) -> Result:
    """Replace the statement of a view of the same name and kind, whose id and users stay."""
    others, works = catalog.plans.copy(), catalog.plans.entry(stored.name) is not None
    if works:
        others.remove(stored.name)
    planned = plan(statement, stored.facts, others, catalog.registry)  # its errors point into the user's text
    full, made = qualify(statement, catalog.plans), _made(statement, planned)
    if not works:
        catalog.change(redefining({stored.name: (full, stored.facts)}, catalog.reader()))
        return made
    told = replace_view(stored.name, full, catalog, name_span(statement))
    return replace(made, notices=(*made.notices, *told))


def _made(statement: ast.Create, planned: Planned) -> Result:
    return Result(f"CREATE {kind_of(statement)}", planned.notices, names=(planned.item.name,))


def purify(statement: ast.Create, planned: Planned, catalog: Catalog) -> dict[str, Any]:
    """Find out what planning must know of the outside, check that it can be reached, and create a table's file."""
    access = CatalogAccess(catalog)
    match statement, planned.item:
        case ast.CreateConnection(), logical.Connection() if catalog.registry.connections[statement.kind].keys:
            return {}  # nobody knows its keys yet
        case ast.CreateConnection(), logical.Connection() as connection:
            validate_connection(statement, connection, catalog.plans, catalog.registry, access)
            return {}
        case ast.CreateSource(), logical.Source():
            find = catalog.registry.sources[statement.kind].facts
            return dict(find(statement, Scope(catalog.plans, catalog.registry), access)) if find else {}
        case ast.CreateSink(), logical.Sink() as sink:
            find_target = catalog.registry.sinks[statement.kind].facts
            return dict(find_target(statement, sink, access)) if find_target else {}
        case ast.CreateCluster(), logical.Cluster() as cluster:
            validate_state(statement, cluster, access)
            return {}
        case ast.CreateTable(), logical.Source() as table:
            make_table(table_path(catalog.database.folder, table.options["table_id"], table.name))
            return {}
        case _:
            return {}


def validate_state(statement: ast.CreateCluster, cluster: logical.Cluster, access: CatalogAccess) -> None:
    """Check that state can be kept where STATE says."""
    if cluster.state is None:
        return
    from sinkql.state_store.store import check_state_path

    try:
        check_state_path(cluster.state.path, cluster.state.connection, access.store)
    except SinkqlError as error:
        if error.span is None:
            error.span = option_span(statement.options, error.option or "", statement.name.span)
        raise


def validate_connection(
    statement: ast.CreateConnection,
    connection: logical.Connection,
    plans: logical.CatalogReader,
    registry: Registry,
    access: CatalogAccess,
) -> None:
    """Check that the other side answers, if the statement asks for it or its kind is checked by default."""
    kind = registry.connections[statement.kind]
    check = kind.validate
    default = kind.validates_unasked and plans.setting("enable_default_connection_validation") == "true"
    wanted = default if statement.validate is None else statement.validate
    if check is None or not wanted:
        return
    try:
        check(connection, access)
    except SinkqlError as error:
        if error.span is None:
            error.span = option_span(statement.options, error.option or "", statement.kind_span)
        raise


# --- what is there already -------------------------------------------------------------------------------------------


def _skipped(statement: ast.Create, full_name: str, notice: Notice) -> Result:
    return Result(f"CREATE {kind_of(statement)}", (notice,), names=(full_name,), skipped=True)


def _difference(statement: ast.Create, stored: Stored, catalog: Catalog) -> str:
    """Return what differs, stored lines with a minus and new ones with a plus; empty if nothing does."""
    new = without_literal(qualify(statement, catalog.plans))
    if to_sql(new) == stored.create_sql:
        return "its value changes" if _other_value(statement, stored, catalog) else ""
    redacted = to_sql(new, redacted=catalog.registry.vocabulary)
    hidden = (redacted, stored.redacted_sql) != (to_sql(new), stored.create_sql)
    if not hidden and means_the_same(new, stored.name, catalog.plans):
        return ""
    return definition_diff(stored.redacted_sql, redacted)


def _other_value(statement: ast.Create, stored: Stored, catalog: Catalog) -> bool:
    if not isinstance(statement, ast.CreateSecret):
        return False
    value: SecretValue | None = given(statement.value).value
    return value is not None and catalog.secret(stored.name) != value


def _replaces(statement: ast.Create, stored: Stored, catalog: Catalog) -> bool:
    """Tell whether OR REPLACE puts the statement in the place of another."""
    if not isinstance(statement, ast.CreateView) or not statement.or_replace or stored.kind != kind_of(statement):
        return False
    return bool(_difference(replace(statement, or_replace=False), stored, catalog))
