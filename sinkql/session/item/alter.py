"""ALTER → an item's new statement in the catalog; VALIDATE CONNECTION → whether the other side answers.

ALTER … RENAME TO, SWAP WITH and OWNER TO, and COMMENT ON → names, owners and comments in the catalog.
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
from sinkql.planner.item.view import own_job
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.create import kept_keys, validate_connection, validate_state
from sinkql.session.item.plan_history import dependent_plans, facts_of_follower, migration, must_start_over, stored_plan
from sinkql.session.item.view_job import begin_job
from sinkql.session.result import Result


def alter(statement: ast.Alter, catalog: Catalog) -> Result:
    """Change an item; whoever runs a sink that depends on it follows. Nothing changes if anything is wrong.

    Raises what `plan_alter` raises, SQ2016 where dependents would not plan, SQ2985 for sinks that cannot go on
    with another column or relation, and what the outside answers of the altered
    connection and of all sinks that depend on the item.
    """
    while True:
        catalog.refresh()
        altering = plan_alter(statement, catalog.reader(), catalog.registry)
        tag = f"ALTER {statement.kind}"
        if altering.statement is None:
            return Result(tag, altering.notices, skipped=True)
        try:
            notices = _store(statement, altering, catalog)
        except ChangedError:
            continue
        return Result(tag, (*altering.notices, *notices), names=(altering.name,))


def _store(statement: ast.Alter, altering: Altering, catalog: Catalog) -> tuple[Notice, ...]:
    """Change the catalog; return what is to be told of it."""
    works = catalog.plans.entry(altering.name) is not None
    if works and isinstance(altering.statement, ast.CreateView) and own_job(altering.statement):
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
            found = stored_plan([altering.name], catalog.plans, after)
            catalog.change(redefining({**altering.changes, **following}, catalog.reader(), check=found))
            return
        if _rotates(statement):
            catalog.change(_rotation(altering, catalog))
            return
        if not _paces_view(statement):
            _ask_outside(statement, altering, after, catalog)
        check = stored_plan([altering.name], catalog.plans, after) if altering.follows else None
    catalog.change(redefining(altering.changes, catalog.reader(), check=check))


def _paces_view(statement: ast.Alter) -> bool:
    """Tell whether a view gets other options, which no sink's table knows of."""
    return statement.kind == "MATERIALIZED VIEW" and isinstance(statement.action, ast.SetOptions | ast.ResetOptions)


def _rotates(statement: ast.Alter) -> bool:
    action = statement.action
    return isinstance(action, ast.ChangeConnection) and any(isinstance(each, ast.RotateKeys) for each in action.actions)


def _rotation(altering: Altering, catalog: Catalog) -> Operation[None]:
    """Give a connection another second pair of keys; the one that was second is the first."""
    assert isinstance(altering.statement, ast.CreateConnection)
    make = catalog.registry.connections[altering.statement.kind].keys
    assert make is not None
    keys = make(catalog.secret(altering.name).reveal())
    facts = {**(altering.facts or {}), **keys.facts}
    changes = {altering.name: (altering.statement, facts)}
    return rekeying(altering.name, changes, kept_keys(keys), catalog.reader())


def _facts_after(statement: ast.Alter, altering: Altering, after: MemoryCatalog, catalog: Catalog) -> logical.Facts:
    """Return the facts of a sink that reads another relation `after`; raises SQ2985 where it must start over."""
    old, new = lower(altering.name, catalog.plans), lower(altering.name, after)
    if new.write.mode != "upsert" and old.write.change == new.write.change == "append":
        return facts_of_follower(altering.facts or {}, old, new)
    try:
        change = migration(old, new, catalog.database.folder)
    except InPlaceError as error:
        raise must_start_over(altering.name, after, error, statement.action.span) from None
    return facts_of_follower(altering.facts or {}, old, new, change)


def _ask_outside(statement: ast.Alter, altering: Altering, after: MemoryCatalog, catalog: Catalog) -> None:
    """Check what the altered item, and the sinks that depend on it, reach."""
    access = CatalogAccess(catalog, after)
    altered, item, action = altering.statement, after.item(altering.name), statement.action
    if isinstance(altered, ast.CreateConnection) and isinstance(action, ast.ChangeConnection):
        assert isinstance(item, logical.Connection)
        wanted = replace(altered, validate=action.validate)
        validate_connection(wanted, item, catalog.plans, catalog.registry, access)
        if action.validate is False:
            return
    if isinstance(altered, ast.CreateCluster) and isinstance(item, logical.Cluster):
        validate_state(altered, item, access)
    for name in _sinks(altering.name, after):
        entry, sink = after.entry(name), after.item(name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateSink)
        assert isinstance(sink, logical.Sink)
        find_target = catalog.registry.sinks[sink.kind].facts
        if find_target is None:
            continue
        # The rows that are in the table already are the sink's own.
        own = replace(sink, options={**sink.options, "existing_rows": "keep"})
        try:
            find_target(entry.statement, own, access, job=lower(name, after))
        except SinkqlError as error:
            raise _of_sink(error, name, altering.name, action.span) from error


def _sinks(name: str, after: MemoryCatalog) -> Iterator[str]:
    """Yield the sinks that depend on an item, which may be one itself."""
    for each in (name, *after.all_users(name)):
        entry = after.entry(each)
        if entry is not None and entry.kind == "SINK":
            yield each


def _of_sink(error: SinkqlError, sink: str, altered: str, span: Span) -> SinkqlError:
    message = error.message if sink == altered else f'sink "{short_name(sink)}": {error.message}'
    return SinkqlError(error.code, message, span, detail=error.detail, hint=error.hint)


def validate(statement: ast.ValidateConnection, catalog: Catalog) -> Result:
    """Check that a connection's other side answers; raises SQ2984 where nothing can be asked, and SQ4… ."""
    connection, check = validation(statement, catalog.plans, catalog.registry)
    try:
        check(connection, CatalogAccess(catalog))
    except SinkqlError as error:
        error.span = error.span or statement.name.span
        raise
    return Result("VALIDATE CONNECTION", names=(connection.name,))


def rename(statement: ast.Alter, catalog: Catalog) -> Result:
    """Rename an item, or swap two; whoever runs a sink keeps running it. Raises what `plan_rename` does."""

    def run() -> Result:
        renaming = plan_rename(statement, catalog.reader())
        if renaming.changes:
            catalog.change(redefining(renaming.changes, catalog.reader()))
        skipped = bool(renaming.notices) and not renaming.changes
        return Result(f"ALTER {statement.kind}", renaming.notices, skipped=skipped)

    return retried(run, catalog)


def change_owner(statement: ast.Alter, catalog: Catalog) -> Result:
    """Give an item to a role, of which only the name is kept."""

    def run() -> Result:
        assert isinstance(statement.action, ast.SetOwner)
        entry, notices = find_altered(statement, catalog.reader())
        if entry is not None:
            catalog.change(owning(entry.name, statement.action.role.value))
        return Result(f"ALTER {statement.kind}", notices, skipped=entry is None)

    return retried(run, catalog)


def comment(statement: ast.CommentOn, catalog: Catalog) -> Result:
    """Comment on an item or a column of one; NULL takes the comment away."""

    def run() -> Result:
        entry, column = find_commented(statement, catalog.reader())
        catalog.change(commenting(entry.name, column, statement.text.value if statement.text else None))
        return Result("COMMENT")

    return retried(run, catalog)


def retried(run: Callable[[], Result], catalog: Catalog) -> Result:
    """Run a statement against the catalog as it is now, again if another process changes it on the way."""
    while True:
        catalog.refresh()
        try:
            return run()
        except ChangedError:
            continue
