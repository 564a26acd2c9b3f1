"""Run ALTER, COMMENT ON and VALIDATE CONNECTION.

ALTER stores the new statement of an item; RENAME TO, SWAP WITH and OWNER TO change its name or owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, Operation
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import commenting, owning, redefining, rekeying, rotating
from sinkql.catalog.replan import redefine
from sinkql.catalog.secret.value import given
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.lowering.job import lower
from sinkql.physical.evolution import InPlaceError
from sinkql.planner.item.view import has_own_job
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.create import keys_secret, validate_connection, validate_state
from sinkql.session.item.plan_history import (
    dependent_plans,
    facts_with_history,
    migration,
    must_start_over_error,
    stored_plan,
)
from sinkql.session.item.view_job import begin_job
from sinkql.session.result import Result
from sinkql.statement.operation import AlterItem, CheckConnection, RenameItems, SetComment, SetOwner


def alter(operation: AlterItem, catalog: Catalog) -> Result:
    """Change an item. The processes that run dependent sinks follow the change. Nothing changes after an error.

    Raise SQ2016 if dependents would no longer plan, and SQ2985 if a sink cannot continue with another column or
    relation. Raise also the errors of the external systems that the altered connection and the dependent sinks reach.
    """
    notices: tuple[Notice, ...] = ()
    is_usable = catalog.plans.entry(operation.name) is not None
    if is_usable and isinstance(operation.definition, ast.CreateView) and has_own_job(operation.definition):
        notices = begin_job(operation.name, operation.definition, catalog)
    else:
        _change(operation, catalog)
    return Result(f"ALTER {operation.statement.kind}", (*operation.notices, *notices), names=(operation.name,))


def _change(operation: AlterItem, catalog: Catalog) -> None:
    statement = operation.statement
    if isinstance(operation.definition, ast.CreateSecret):
        catalog.change(rotating(operation.name, given(operation.definition.value)))
        return
    check = None
    if catalog.plans.entry(operation.name) is not None:
        after = catalog.plans.copy()
        redefine(after, operation.changes)
        if operation.follows:
            operation = replace(operation, facts=_facts_after(operation, after, catalog))
            redefine(after, operation.changes)
        if isinstance(statement.action, ast.AddColumn):
            following = dependent_plans([operation.name], catalog, after, statement.action.span)
            check = stored_plan([operation.name], catalog.plans, after)
            catalog.change(redefining({**operation.changes, **following}, catalog.reader(), check=check))
            return
        if _rotates_keys(statement):
            catalog.change(_rotation(operation, catalog))
            return
        if not _sets_view_options(statement):
            _check_outside(operation, after, catalog)
        check = stored_plan([operation.name], catalog.plans, after) if operation.follows else None
    catalog.change(redefining(operation.changes, catalog.reader(), check=check))


def _sets_view_options(statement: ast.Alter) -> bool:
    """Return whether a view gets other options, which affect no sink's table."""
    return statement.kind == "MATERIALIZED VIEW" and isinstance(statement.action, ast.SetOptions | ast.ResetOptions)


def _rotates_keys(statement: ast.Alter) -> bool:
    action = statement.action
    return isinstance(action, ast.ChangeConnection) and any(
        isinstance(change, ast.RotateKeys) for change in action.actions
    )


def _rotation(altered: AlterItem, catalog: Catalog) -> Operation[None]:
    """Return the change that makes the second key pair the first and generates a new second one."""
    assert isinstance(altered.definition, ast.CreateConnection)
    make_keys = catalog.registry.connections[altered.definition.kind].keys
    assert make_keys is not None
    keys = make_keys(catalog.secret(altered.name).reveal())
    facts = {**altered.facts, **keys.facts}
    return rekeying(altered.name, {altered.name: (altered.definition, facts)}, keys_secret(keys), catalog.reader())


def _facts_after(altered: AlterItem, after: MemoryCatalog, catalog: Catalog) -> logical.Facts:
    """Return the facts of a sink that reads another relation `after`. Raise SQ2985 if it must start over."""
    old, new = lower(altered.name, catalog.plans), lower(altered.name, after)
    if new.write.mode != "upsert" and old.write.change == new.write.change == "append":
        return facts_with_history(altered.facts, old, new)
    try:
        change = migration(old, new, catalog.database.folder)
    except InPlaceError as error:
        raise must_start_over_error(altered.name, after, error, altered.statement.action.span) from None
    return facts_with_history(altered.facts, old, new, change)


def _check_outside(operation: AlterItem, after: MemoryCatalog, catalog: Catalog) -> None:
    """Check the external systems that the altered item and its dependent sinks reach."""
    access = CatalogAccess(catalog, after)
    altered, item, action = operation.definition, after.item(operation.name), operation.statement.action
    if isinstance(altered, ast.CreateConnection) and isinstance(action, ast.ChangeConnection):
        connection = logical.get_item(after, operation.name, logical.Connection)
        validated = replace(altered, validate=action.validate)
        validate_connection(validated, connection, catalog.plans, catalog.registry, access)
        if action.validate is False:
            return
    if isinstance(altered, ast.CreateCluster) and isinstance(item, logical.Cluster):
        validate_state(altered, item, access)
    for name in _sinks(operation.name, after):
        sink = logical.get_item(after, name, logical.Sink)
        find_target = catalog.registry.sinks[sink.kind].facts
        if find_target is None:
            continue
        # The sink itself wrote the rows that the table has.
        keeping = replace(sink, options={**sink.options, "existing_rows": "keep"})
        try:
            find_target(logical.get_statement(after, name, ast.CreateSink), keeping, access, job=lower(name, after))
        except SinkqlError as error:
            raise _sink_error(error, name, operation.name, action.span) from error


def _sinks(name: str, after: MemoryCatalog) -> Iterator[str]:
    """Yield the sinks that depend on an item, and the item if it is a sink."""
    for dependent in (name, *after.all_users(name)):
        entry = after.entry(dependent)
        if entry is not None and entry.kind == "SINK":
            yield dependent


def _sink_error(error: SinkqlError, sink: str, altered: str, span: Span) -> SinkqlError:
    message = error.message if sink == altered else f'sink "{short_name(sink)}": {error.message}'
    return SinkqlError(error.code, message, span, detail=error.detail, hint=error.hint)


def validate(operation: CheckConnection, catalog: Catalog) -> Result:
    """Check that the server of a connection answers. Raise SQ4… errors."""
    try:
        operation.check(operation.connection, CatalogAccess(catalog))
    except SinkqlError as error:
        error.span = error.span or operation.statement.name.span
        raise
    return Result("VALIDATE CONNECTION", names=(operation.connection.name,))


def rename(operation: RenameItems, catalog: Catalog) -> Result:
    """Rename an item or swap two. Running sinks continue."""
    catalog.change(redefining(operation.changes, catalog.reader()))
    return Result(operation.tag)


def change_owner(operation: SetOwner, catalog: Catalog) -> Result:
    """Set the owner of an item. The catalog stores only the role's name."""
    catalog.change(owning(operation.name, operation.owner))
    return Result(operation.tag)


def comment(operation: SetComment, catalog: Catalog) -> Result:
    """Set the comment of an item or a column; NULL deletes it."""
    catalog.change(commenting(operation.name, operation.column, operation.text))
    return Result("COMMENT")
