"""Create items: plan the statement, purify it, plan it again with its facts, and store it in the catalog."""

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
from sinkql.planner.item.statement import definition_diff, existing_item, is_built_in, item_name, kind_of, name_span
from sinkql.planner.item.view import has_own_job
from sinkql.planner.scope import Scope
from sinkql.printer import to_sql
from sinkql.script.redaction import without_literal
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.destination import comments_on_input
from sinkql.session.item.view_job import ViewJobChange, index_view_job_change, replace_view, view_job_change
from sinkql.session.result import Result
from sinkql.state_store.store import check_state_path
from sinkql.table.file import create as make_table
from sinkql.table.file import remove as remove_table
from sinkql.table.file import table_path


def create(statement: ast.Create, catalog: Catalog) -> Result:
    """Create an item in the catalog, which must be fresh. Raise SQ2014 if a different item has the name.

    The statement is planned once. It is planned again only if purification adds facts or another process changed the
    catalog.
    """
    keys = _new_keys(statement, catalog.registry)
    facts, is_purified = {**_new_facts(statement, catalog), **(keys.facts if keys is not None else {})}, False
    while True:
        name = item_name(statement, catalog.plans)
        entry = catalog.reader().entry(name)
        stored = catalog.stored(name) if entry is not None else None
        if stored is not None and not _can_replace(statement, stored, catalog):
            different = _difference(statement, stored, catalog) if stored.kind == kind_of(statement) else ""
            rows = "table_id" in stored.facts
            notice = existing_item(statement, name, stored.kind, different, catalog.reader(), rows=rows)
            return _skip(statement, name, notice)
        if stored is None and statement.if_not_exists and is_built_in(statement, catalog.plans.entry(name)):
            return _skip(statement, name, existing_item(statement, name, kind_of(statement), "", catalog.reader()))
        try:
            if stored is not None:
                return _replace(statement, stored, catalog)
            if not is_purified:
                facts = {**facts, **comments_on_input(statement, catalog)}
                facts = {**facts, **sampled(statement, Scope(catalog.plans, catalog.registry), CatalogAccess(catalog))}
            planned = plan(statement, facts, catalog.plans, catalog.registry)
            catalog.plans.check_destination(statement, planned)
            if not is_purified:
                learned, is_purified = purify(statement, planned, catalog), True
                if learned:
                    facts = {**facts, **learned}
                    planned = plan(statement, facts, catalog.plans, catalog.registry)
            secret = given(statement.value) if isinstance(statement, ast.CreateSecret) else None
            if keys is not None:
                secret = keys_secret(keys)
            add = adding(qualify(statement, catalog.plans), facts, secret, planned)
            sharing = _view_job_change(statement, planned.item, catalog)
            if sharing.changes:
                add = sharing_views(add, sharing.changes, sharing.ids, catalog.reader())
            catalog.change(add)
            result = _result(statement, planned)
            return replace(result, notices=(*result.notices, *sharing.notices))
        except ChangedError:
            catalog.refresh()
        except BaseException:
            _delete_table_file(facts, catalog)
            raise


def _view_job_change(statement: ast.Create, item: logical.Item, catalog: Catalog) -> ViewJobChange:
    """Return the views that become jobs because of a new sink or index."""
    match statement, item:
        case _, logical.Sink():
            return view_job_change(item, catalog)
        case ast.CreateIndex(), logical.Index():
            return index_view_job_change(item, catalog, statement.relation.span)
        case _:
            return ViewJobChange()


def create_many(statement: ast.CreateSinks, catalog: Catalog) -> Result:
    """Create a sink for each table. Sinks that exist with the same definition stay.

    The session runs the statement in a transaction.
    """
    results = [_create_one(result, catalog) for result in expand(statement, catalog.plans)]
    notices = tuple(notice for result in results for notice in result.notices)
    return Result("CREATE SINKS", notices, names=tuple(name for result in results for name in result.names))


def _create_one(statement: ast.CreateSink, catalog: Catalog) -> Result:
    try:
        return create(statement, catalog)
    except UnfitNameError as error:
        table = statement.relation.parts[-1].value
        error.hint = (
            f'Create the sink of "{table}" separately with another TABLE. List the remaining tables in FOR TABLES (…).'
        )
        raise


def _new_facts(statement: ast.Create, catalog: Catalog) -> dict[str, Any]:
    """Return a new id for the item's rows, log or job, which survives renames, and the location of its log."""
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
        case ast.CreateView() if has_own_job(statement):
            return {VIEW_ID: str(uuid.uuid4())}
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


def keys_secret(keys: Keys) -> Given:
    """Return the keys as the value of a secret."""
    return Given("literal", SecretValue(keys.kept))


def _delete_table_file(facts: Mapping[str, Any], catalog: Catalog) -> None:
    """Delete the table file that purification created."""
    if "table_id" in facts:
        remove_table(table_path(catalog.database.folder, facts["table_id"], ""))


def _replace(statement: ast.Create, stored: Stored, catalog: Catalog) -> Result:
    """Replace the statement of a view. Its id and its dependents stay."""
    others, is_usable = catalog.plans.copy(), catalog.plans.entry(stored.name) is not None
    if is_usable:
        others.remove(stored.name)
    planned = plan(statement, stored.facts, others, catalog.registry)  # its errors point into the user's text
    qualified, result = qualify(statement, catalog.plans), _result(statement, planned)
    if not is_usable:
        catalog.change(redefining({stored.name: (qualified, stored.facts)}, catalog.reader()))
        return result
    notices = replace_view(stored.name, qualified, catalog, name_span(statement))
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


# --- existing items -------------------------------------------------------------------------------------------------


def _skip(statement: ast.Create, full_name: str, notice: Notice) -> Result:
    return Result(f"CREATE {kind_of(statement)}", (notice,), names=(full_name,), skipped=True)


def _difference(statement: ast.Create, stored: Stored, catalog: Catalog) -> str:
    """Return a diff of the definitions: stored lines with a minus, new lines with a plus. Empty if they agree."""
    new = without_literal(qualify(statement, catalog.plans))
    if to_sql(new) == stored.create_sql:
        return "its value changes" if _has_other_value(statement, stored, catalog) else ""
    redacted = to_sql(new, redacted=catalog.registry.vocabulary)
    has_hidden_change = (redacted, stored.redacted_sql) != (to_sql(new), stored.create_sql)
    if not has_hidden_change and means_the_same(new, stored.name, catalog.plans):
        return ""
    return definition_diff(stored.redacted_sql, redacted)


def _has_other_value(statement: ast.Create, stored: Stored, catalog: Catalog) -> bool:
    if not isinstance(statement, ast.CreateSecret):
        return False
    value: SecretValue | None = given(statement.value).value
    return value is not None and catalog.secret(stored.name) != value


def _can_replace(statement: ast.Create, stored: Stored, catalog: Catalog) -> bool:
    """Return whether OR REPLACE applies to the stored item, which differs from the statement."""
    if not isinstance(statement, ast.CreateView) or not statement.or_replace or stored.kind != kind_of(statement):
        return False
    return bool(_difference(replace(statement, or_replace=False), stored, catalog))
