"""Create items: plan the statement, purify it, plan it again with its facts, and store it in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import adding, redefining, sharing_views
from sinkql.catalog.secret.value import SecretInput, SecretValue, secret_input
from sinkql.connector_api.options import option_span
from sinkql.connector_api.planning import Keys
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.source_options import LOG_FACT, state_of_cluster
from sinkql.errors import SinkqlError
from sinkql.lowering.materialized_view import VIEW_ID
from sinkql.machine.randomness import new_uuid
from sinkql.planner import Planned
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.item.source import sampled
from sinkql.planner.item.statement import kind_of, name_span
from sinkql.planner.item.view import has_own_job
from sinkql.planner.scope import Scope
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.destination import comments_on_input
from sinkql.session.item.view_job import ViewJobChange, index_view_job_change, replace_view, view_job_change
from sinkql.session.result import Result
from sinkql.state_store.store import check_state_path
from sinkql.statement.operation import CreateItem, ReplaceItem
from sinkql.statement.plan import plan_create, plan_item, plan_replacement
from sinkql.table.file import create as make_table
from sinkql.table.file import remove as remove_table
from sinkql.table.file import table_path


def create(operation: CreateItem, catalog: Catalog) -> Result:
    """Create an item in the catalog, which must be fresh.

    Raise ChangedError if another process creates an item of that name first.

    The statement is planned once. It is planned again only if purification adds facts or another process changed the
    catalog.
    """
    statement = operation.statement
    keys = _new_keys(statement, catalog.registry)
    facts, is_purified = {**_new_facts(statement, catalog), **(keys.facts if keys is not None else {})}, False
    try:
        while True:
            if not is_purified:
                facts = {**facts, **comments_on_input(statement, catalog)}
                facts = {**facts, **sampled(statement, Scope(catalog.plans, catalog.registry), CatalogAccess(catalog))}
            planned = plan_item(statement, facts, catalog)
            if not is_purified:
                learned, is_purified = purify(statement, planned, catalog), True
                if learned:
                    facts = {**facts, **learned}
                    planned = plan_item(statement, facts, catalog)
            try:
                return _store(statement, facts, keys, planned, catalog)
            except ChangedError:
                catalog.refresh()
                if not isinstance(plan_create(statement, catalog), CreateItem):
                    raise
    except BaseException:
        _delete_table_file(facts, catalog)
        raise


def _store(
    statement: ast.Create, facts: logical.Facts, keys: Keys | None, planned: Planned, catalog: Catalog
) -> Result:
    secret = secret_input(statement.value) if isinstance(statement, ast.CreateSecret) else None
    if keys is not None:
        secret = keys_secret(keys)
    add = adding(qualify(statement, catalog.plans), facts, secret, planned)
    sharing = _view_job_change(planned.item, catalog)
    if sharing.changes:
        add = sharing_views(add, sharing.changes, sharing.ids, catalog.reader())
    catalog.change(add)
    result = _result(statement, planned)
    return replace(result, notices=(*result.notices, *sharing.notices))


def _view_job_change(item: logical.Item, catalog: Catalog) -> ViewJobChange:
    """Return the views that become jobs because of a new sink or index."""
    match item:
        case logical.Sink():
            return view_job_change(item, catalog)
        case logical.Index():
            return index_view_job_change(item, catalog)
        case _:
            return ViewJobChange()


def _new_facts(statement: ast.Create, catalog: Catalog) -> dict[str, Any]:
    """Return a new id for the item's rows, log or job, which survives renames, and the location of its log."""
    registry = catalog.registry
    match statement:
        case ast.CreateSource(kind=kind) | ast.CreateTableFrom(source=None, kind=kind) if (
            kind in registry.sources and registry.sources[kind].stream is not None
        ):
            return {"source_id": new_uuid(), **_log_facts(statement, Scope(catalog.plans, registry))}
        case ast.CreateSink():
            return {"sink_id": new_uuid()}
        case ast.CreateTable():
            return {"table_id": new_uuid()}
        case ast.CreateView() if has_own_job(statement):
            return {VIEW_ID: new_uuid()}
        case _:
            return {}


def _log_facts(statement: ast.Create, scope: Scope) -> dict[str, Any]:
    """Return the log location of a source without option LOG: the STATE of its cluster."""
    if any(option.name == "LOG" for option in getattr(statement, "with_options", ())):
        return {}
    try:
        state = state_of_cluster(statement, scope)
    except SinkqlError:  # the cluster does not exist; planning the source raises that
        return {}
    return {} if state is None else {LOG_FACT: state.path}


def _new_keys(statement: ast.Create, registry: Registry) -> Keys | None:
    """Return the key pair that is generated for a new connection."""
    if not isinstance(statement, ast.CreateConnection):
        return None
    kind = registry.connections.get(statement.kind)
    return kind.keys(None) if kind is not None and kind.keys is not None else None


def keys_secret(keys: Keys) -> SecretInput:
    """Return the keys as the value of a secret."""
    return SecretInput("literal", SecretValue(keys.secret))


def _delete_table_file(facts: Mapping[str, Any], catalog: Catalog) -> None:
    """Delete the table file that purification created."""
    if "table_id" in facts:
        remove_table(table_path(catalog.database.folder, facts["table_id"], ""))


def replace_item(operation: ReplaceItem, catalog: Catalog) -> Result:
    """Replace the statement of a view. Its id and its dependents stay."""
    statement, stored = operation.statement, operation.stored
    planned, definition = plan_replacement(operation, catalog)
    result = _result(statement, planned)
    if catalog.plans.entry(stored.name) is None:
        catalog.change(redefining({stored.name: (definition, stored.facts)}, catalog.reader()))
        return result
    notices = replace_view(stored.name, definition, catalog, name_span(statement))
    return replace(result, notices=(*result.notices, *notices))


def _result(statement: ast.Create, planned: Planned) -> Result:
    return Result(f"CREATE {kind_of(statement)}", planned.notices, names=(planned.item.name,))


def purify(statement: ast.Create, planned: Planned, catalog: Catalog) -> dict[str, Any]:
    """Return the facts that planning needs from outside.

    Also check that the external system can be reached, and create the file of a table.
    """
    access = CatalogAccess(catalog)
    match statement, planned.item:
        case ast.CreateConnection(), logical.Connection() if catalog.registry.connections[statement.kind].keys:
            return {}  # the server cannot know the new keys yet
        case ast.CreateConnection(), logical.Connection() as connection:
            validate_connection(statement, connection, catalog.plans, catalog.registry, access)
            return {}
        case ast.CreateSource(), logical.Source():
            find_facts = catalog.registry.sources[statement.kind].facts
            return dict(find_facts(statement, Scope(catalog.plans, catalog.registry), access)) if find_facts else {}
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
    """Check that state can be written to the STATE path of a cluster."""
    if cluster.state is None:
        return
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
    """Check that the server answers, if the statement asks for it or the kind is checked by default."""
    kind = registry.connections[statement.kind]
    check = kind.validate
    default = kind.validates_unasked and plans.setting("enable_default_connection_validation") == "true"
    is_checked = default if statement.validate is None else statement.validate
    if check is None or not is_checked:
        return
    try:
        check(connection, access)
    except SinkqlError as error:
        if error.span is None:
            error.span = option_span(statement.options, error.option or "", statement.kind_span)
        raise
