"""Run ALTER, COMMENT ON and VALIDATE CONNECTION.

ALTER stores the new statement of an item; RENAME TO, SWAP WITH and OWNER TO change its name or owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, ChangedError, Operation
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import commenting, owning, redefining, rekeying, rotating
from sinkql.catalog.replan import redefine
from sinkql.catalog.secret.value import given
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.lowering.job import lower
from sinkql.physical.evolution import InPlaceError
from sinkql.planner.edit.alter import Altering, plan_alter
from sinkql.planner.edit.rename import find_altered, find_commented, plan_rename
from sinkql.planner.item.connection import validation
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


def alter(statement: ast.Alter, catalog: Catalog) -> Result:
    """Change an item. The processes that run dependent sinks follow the change. Nothing changes after an error.

    Raise what `plan_alter` raises, SQ2016 if dependents would no longer plan, and SQ2985 if a sink cannot continue
    with another column or relation. Raise also the errors of the external systems that the altered connection and the
    dependent sinks reach.
    """
    while True:
        catalog.refresh()
        altering = plan_alter(statement, catalog.reader(), catalog.registry)
        tag = f"ALTER {statement.kind}"
        if altering.statement is None:
            return Result(tag, altering.notices, skipped=True)
        try:
            notices = _store_change(statement, altering, catalog)
        except ChangedError:
            continue
        return Result(tag, (*altering.notices, *notices), names=(altering.name,))


def _store_change(statement: ast.Alter, altering: Altering, catalog: Catalog) -> tuple[Notice, ...]:
    """Change the catalog and return the notices."""
    is_usable = catalog.plans.entry(altering.name) is not None
    if is_usable and isinstance(altering.statement, ast.CreateView) and has_own_job(altering.statement):
        return begin_job(altering.name, altering.statement, catalog)
    _change(statement, altering, catalog)
    return ()


def _change(statement: ast.Alter, altering: Altering, catalog: Catalog) -> None:
    if isinstance(altering.statement, ast.CreateSecret):
        catalog.change(rotating(altering.name, given(altering.statement.value)))
        return
    check = None
    if catalog.plans.entry(altering.name) is not None:
        after = catalog.plans.copy()
        redefine(after, altering.changes)
        if altering.follows:
            altering = replace(altering, facts=_facts_after(statement, altering, after, catalog))
            redefine(after, altering.changes)
        if isinstance(statement.action, ast.AddColumn):
            following = dependent_plans([altering.name], catalog, after, statement.action.span)
            check = stored_plan([altering.name], catalog.plans, after)
            catalog.change(redefining({**altering.changes, **following}, catalog.reader(), check=check))
            return
        if _rotates_keys(statement):
            catalog.change(_rotation(altering, catalog))
            return
        if not _sets_view_options(statement):
            _check_outside(statement, altering, after, catalog)
        check = stored_plan([altering.name], catalog.plans, after) if altering.follows else None
    catalog.change(redefining(altering.changes, catalog.reader(), check=check))


def _sets_view_options(statement: ast.Alter) -> bool:
    """Return whether a view gets other options, which affect no sink's table."""
    return statement.kind == "MATERIALIZED VIEW" and isinstance(statement.action, ast.SetOptions | ast.ResetOptions)


def _rotates_keys(statement: ast.Alter) -> bool:
    action = statement.action
    return isinstance(action, ast.ChangeConnection) and any(
        isinstance(change, ast.RotateKeys) for change in action.actions
    )


def _rotation(altering: Altering, catalog: Catalog) -> Operation[None]:
    """Return the change that makes the second key pair the first and generates a new second one."""
    assert isinstance(altering.statement, ast.CreateConnection)
    make_keys = catalog.registry.connections[altering.statement.kind].keys
    assert make_keys is not None
    keys = make_keys(catalog.secret(altering.name).reveal())
    facts = {**(altering.facts or {}), **keys.facts}
    changes = {altering.name: (altering.statement, facts)}
    return rekeying(altering.name, changes, keys_secret(keys), catalog.reader())


def _facts_after(statement: ast.Alter, altering: Altering, after: MemoryCatalog, catalog: Catalog) -> logical.Facts:
    """Return the facts of a sink that reads another relation `after`. Raise SQ2985 if it must start over."""
    old, new = lower(altering.name, catalog.plans), lower(altering.name, after)
    if new.write.mode != "upsert" and old.write.change == new.write.change == "append":
        return facts_with_history(altering.facts or {}, old, new)
    try:
        change = migration(old, new, catalog.database.folder)
    except InPlaceError as error:
        raise must_start_over_error(altering.name, after, error, statement.action.span) from None
    return facts_with_history(altering.facts or {}, old, new, change)


def _check_outside(statement: ast.Alter, altering: Altering, after: MemoryCatalog, catalog: Catalog) -> None:
    """Check the external systems that the altered item and its dependent sinks reach."""
    access = CatalogAccess(catalog, after)
    altered, item, action = altering.statement, after.item(altering.name), statement.action
    if isinstance(altered, ast.CreateConnection) and isinstance(action, ast.ChangeConnection):
        connection = logical.get_item(after, altering.name, logical.Connection)
        validated = replace(altered, validate=action.validate)
        validate_connection(validated, connection, catalog.plans, catalog.registry, access)
        if action.validate is False:
            return
    if isinstance(altered, ast.CreateCluster) and isinstance(item, logical.Cluster):
        validate_state(altered, item, access)
    for name in _sinks(altering.name, after):
        sink = logical.get_item(after, name, logical.Sink)
        find_target = catalog.registry.sinks[sink.kind].facts
        if find_target is None:
            continue
        # The sink itself wrote the rows that the table has.
        keeping = replace(sink, options={**sink.options, "existing_rows": "keep"})
        try:
            find_target(logical.get_statement(after, name, ast.CreateSink), keeping, access, job=lower(name, after))
        except SinkqlError as error:
            raise _sink_error(error, name, altering.name, action.span) from error


def _sinks(name: str, after: MemoryCatalog) -> Iterator[str]:
    """Yield the sinks that depend on an item, and the item if it is a sink."""
    for dependent in (name, *after.all_users(name)):
        entry = after.entry(dependent)
        if entry is not None and entry.kind == "SINK":
            yield dependent


def _sink_error(error: SinkqlError, sink: str, altered: str, span: Span) -> SinkqlError:
    message = error.message if sink == altered else f'sink "{short_name(sink)}": {error.message}'
    return SinkqlError(error.code, message, span, detail=error.detail, hint=error.hint)


def validate(statement: ast.ValidateConnection, catalog: Catalog) -> Result:
    """Check that the server of a connection answers. Raise SQ2984 if the kind has no check, and SQ4… errors."""
    connection, check = validation(statement, catalog.plans, catalog.registry)
    try:
        check(connection, CatalogAccess(catalog))
    except SinkqlError as error:
        error.span = error.span or statement.name.span
        raise
    return Result("VALIDATE CONNECTION", names=(connection.name,))


def rename(statement: ast.Alter, catalog: Catalog) -> Result:
    """Rename an item or swap two. Running sinks continue. Raise what `plan_rename` raises."""

    def run() -> Result:
        renaming = plan_rename(statement, catalog.reader())
        if renaming.changes:
            catalog.change(redefining(renaming.changes, catalog.reader()))
        skipped = bool(renaming.notices) and not renaming.changes
        return Result(f"ALTER {statement.kind}", renaming.notices, skipped=skipped)

    return retry_on_change(run, catalog)


def change_owner(statement: ast.Alter, action: ast.SetOwner, catalog: Catalog) -> Result:
    """Set the owner of an item. The catalog stores only the role's name."""

    def run() -> Result:
        entry, notices = find_altered(statement, catalog.reader())
        if entry is not None:
            catalog.change(owning(entry.name, action.role.value))
        return Result(f"ALTER {statement.kind}", notices, skipped=entry is None)

    return retry_on_change(run, catalog)


def comment(statement: ast.CommentOn, catalog: Catalog) -> Result:
    """Set the comment of an item or a column; NULL deletes it."""

    def run() -> Result:
        entry, column = find_commented(statement, catalog.reader())
        catalog.change(commenting(entry.name, column, statement.text.value if statement.text else None))
        return Result("COMMENT")

    return retry_on_change(run, catalog)


def retry_on_change(run: Callable[[], Result], catalog: Catalog) -> Result:
    """Run a statement against the fresh catalog, and retry if another process changes the catalog during it."""
    while True:
        catalog.refresh()
        try:
            return run()
        except ChangedError:
            continue
