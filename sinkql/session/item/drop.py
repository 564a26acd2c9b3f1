"""DROP → items gone from the catalog; sinks are stopped first, and what a crash interrupts is finished later."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sinkql import ast
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.coordination.control import Holder
from sinkql.catalog.coordination.intent_log import Intent
from sinkql.catalog.operation import Draft, removing
from sinkql.errors import Notice, SinkqlError
from sinkql.planner import plan_drop
from sinkql.planner.edit.drop import Dropping
from sinkql.planner.name import short_name
from sinkql.session.item.state_cleanup import captured_sources, forget_captured, forget_states, kept_states
from sinkql.session.item.target_table import delete_sink_tags, drop_targets
from sinkql.session.result import Result
from sinkql.storage import failpoint
from sinkql.table.file import remove as remove_table
from sinkql.table.file import table_path

WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.1
_JOBS = {"SINK": "sink_id", "MATERIALIZED VIEW": "view_id"}
INTENT = "drop"
COMMIT = "commit"


def drop(statement: ast.Drop, catalog: Catalog, *, wait_seconds: float = WAIT_SECONDS) -> Result:
    """Drop items; a running sink is told to stop and waited for, SQ5204 if that takes too long."""
    catalog.refresh()
    dropping = _plan(statement, catalog)
    targets = drop_targets(statement, dropping, catalog)
    for target in targets:
        target.drop(dry=True)
    sinks, tables = sink_ids(dropping.names, catalog), _table_ids(dropping.names, catalog)
    captured, states = captured_sources(dropping.names, catalog), kept_states(sinks, catalog)
    if isinstance(catalog, Draft) or not (sinks or tables or captured):
        dropping = _remove(statement, dropping, catalog)
        if isinstance(catalog, Draft):
            # made in the same transaction: nobody else knows them
            _forget(set(tables) - _kept_before(catalog), catalog)
        return _done(statement, dropping)
    entries = catalog.entries()
    ids = [entries[name].id for name in dropping.names]
    wishes = {sink_id: catalog.control.desired(sink_id) for sink_id in sinks.values()}
    content = {
        "ids": ids, "sinks": sinks, "tables": tables, "captured": captured, "states": states, "wishes": wishes,
    }  # fmt: skip
    with _stopped(INTENT, content, sinks, tables, catalog, wait_seconds=wait_seconds) as left:
        for target in targets:
            target.drop(dry=False)
        dropping = _remove(statement, dropping, catalog)
    return _done(statement, dropping, left)


def _done(statement: ast.Drop, dropping: Dropping, left: Sequence[Notice] = ()) -> Result:
    tag = f"DROP {statement.kind}"
    return Result(tag, (*dropping.notices, *left), names=dropping.names, skipped=not dropping.names)


@contextmanager
def stopped_sinks(draft: Draft, catalog: Catalog, *, wait_seconds: float) -> Iterator[list[Notice]]:
    """Stop the sinks that a transaction drops while it is committed; then delete what `_stopped` does."""
    before = tuple(name for kind in (*_JOBS, "TABLE") for name in draft.before.names(kind))
    names = tuple(name for name in before if catalog.stored(name) is not None)
    kept_sinks = set(sink_ids(tuple(draft.entries()), draft).values())
    kept_tables = set(_table_ids(tuple(draft.entries()), draft))
    sinks = {name: id_ for name, id_ in sink_ids(names, catalog).items() if id_ not in kept_sinks}
    tables = [id_ for id_ in _table_ids(names, catalog) if id_ not in kept_tables]
    gone = tuple(
        name for kind in ("SOURCE", "TABLE") for name in draft.before.names(kind) if catalog.stored(name) is not None
    )
    kept_sources = {each["source_id"] for each in captured_sources(tuple(draft.entries()), draft)}
    captured = [each for each in captured_sources(gone, catalog) if each["source_id"] not in kept_sources]
    if not sinks and not tables and not captured:
        yield []
        return
    wishes = {sink_id: catalog.control.desired(sink_id) for sink_id in sinks.values()}
    states = kept_states(sinks, catalog)
    content = {"sinks": sinks, "tables": tables, "captured": captured, "states": states, "wishes": wishes}
    with _stopped(COMMIT, content, sinks, tables, catalog, wait_seconds=wait_seconds) as left:
        yield left


def forget_tables(draft: Draft) -> None:
    """Delete the files of the tables that a rolled-back transaction created."""
    _forget(set(_table_ids(tuple(draft.entries()), draft)) - _kept_before(draft), draft)


def _kept_before(draft: Draft) -> set[str]:
    """Return the ids of the files of the tables that were there before a transaction."""
    facts = (draft.before.facts(name) for name in draft.before.names("TABLE"))
    return {str(each["table_id"]) for each in facts if "table_id" in each}


def _forget(tables: Iterable[str], catalog: Catalog) -> None:
    for table_id in tables:
        remove_table(table_path(catalog.database.folder, table_id, ""))


@contextmanager
def _stopped(
    intent: str,
    content: Mapping[str, Any],
    sinks: Mapping[str, str],
    tables: Iterable[str],
    catalog: Catalog,
    *,
    wait_seconds: float,
) -> Iterator[list[Notice]]:
    """Stop sinks, then delete their files, those of tables, and what is kept for sources, here and on their servers.

    After a failure restore the sinks' desired states. What is yielded tells, after the block, what could not be
    deleted.
    """
    left: list[Notice] = []
    wishes = {sink_id: catalog.control.desired(sink_id) for sink_id in sinks.values()}
    owner = f"drop-{uuid.uuid4()}"
    number = catalog.journal.begin(intent, content)
    try:
        _stop(sinks, catalog, owner=owner, wait_seconds=wait_seconds)
        left += delete_sink_tags(sinks, catalog)  # while there are the connections
        yield left
    except BaseException:
        # Nothing is gone yet: whoever interrupts a DROP that waits wants the sinks back as they were.
        for sink_id, wish in wishes.items():
            catalog.control.set_desired(sink_id, wish)
            catalog.control.release(sink_id, owner=owner)
        catalog.journal.done(number)
        raise
    _clean(sinks, tables, catalog)
    left += forget_captured(content["captured"], catalog)
    left += forget_states(content["states"], catalog)
    catalog.journal.done(number)


def finish_interrupted_drop(catalog: Catalog) -> None:
    """Finish the drops of processes that ended in the middle of one; those whose sinks still run are left for later."""
    for intent in catalog.journal.adopt():
        if intent.what == INTENT:
            _finish(intent, catalog)
        elif intent.what == COMMIT:
            _finish_commit(intent, catalog)


def _finish_commit(intent: Intent, catalog: Catalog) -> None:
    """Delete the files of what a transaction dropped; if it was not committed, let its sinks run on."""
    sinks: Mapping[str, str] = intent.content["sinks"]
    names = tuple(catalog.entries())
    present, tables = set(sink_ids(names, catalog).values()), set(_table_ids(names, catalog))
    for sink_id in present & set(sinks.values()):
        catalog.control.set_desired(sink_id, intent.content["wishes"][sink_id])
    gone = {name: sink_id for name, sink_id in sinks.items() if sink_id not in present}
    _clean(gone, [each for each in intent.content["tables"] if each not in tables], catalog)
    sources = {each["source_id"] for each in captured_sources(names, catalog)}
    forget_captured([each for each in intent.content["captured"] if each["source_id"] not in sources], catalog)
    states = intent.content.get("states", ())
    forget_states([each for each in states if each["sink_id"] not in present], catalog)
    catalog.journal.done(intent.number)


def _finish(intent: Intent, catalog: Catalog) -> None:
    sinks: Mapping[str, str] = intent.content["sinks"]
    owner = f"drop-{uuid.uuid4()}"
    if not all(catalog.control.claim_for_drop(sink_id, owner=owner) for sink_id in sinks.values()):
        return
    while True:
        catalog.refresh()
        try:
            catalog.change(removing(_still_there(intent, catalog)))
            break
        except ChangedError:
            continue
        except SinkqlError:  # others came to depend on what was to go, so that it stays
            for sink_id, wish in intent.content["wishes"].items():
                catalog.control.set_desired(sink_id, wish)
                catalog.control.release(sink_id, owner=owner)
            catalog.journal.done(intent.number)
            return
    _clean(sinks, intent.content["tables"], catalog)
    forget_captured(intent.content["captured"], catalog)
    forget_states(intent.content.get("states", ()), catalog)
    catalog.journal.done(intent.number)


def _still_there(intent: Intent, catalog: Catalog) -> list[str]:
    """Return the present names of the items to drop: others may have their old names by now."""
    now = catalog.names_by_id()
    return [now[item_id] for item_id in intent.content["ids"] if item_id in now]


def sink_folder(catalog: Catalog, sink_id: str) -> Path:
    """Return the folder where a sink keeps its state and checkpoint."""
    return catalog.database.folder / "sinks" / sink_id


def sink_ids(names: tuple[str, ...], catalog: Catalog) -> dict[str, str]:
    """Return the ids under which the sinks, and the views that are jobs, among `names` run."""
    reader = catalog.reader()
    found: dict[str, str] = {}
    for kind, id_ in _JOBS.items():
        known = frozenset(reader.names(kind))
        facts = {name: reader.facts(name) for name in names if name in known}
        found |= {name: str(own[id_]) for name, own in facts.items() if id_ in own}
    return {name: found[name] for name in names if name in found}


def _table_ids(names: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    """Return the ids of the files of the tables among `names`; those that a source feeds have none."""
    reader = catalog.reader()
    known = frozenset(reader.names("TABLE"))
    facts = (reader.facts(name) for name in names if name in known)
    return tuple(str(each["table_id"]) for each in facts if "table_id" in each)


def _plan(statement: ast.Drop, catalog: Catalog) -> Dropping:
    return plan_drop(statement, catalog.reader(), catalog.dependents)


def _remove(statement: ast.Drop, planned: Dropping, catalog: Catalog) -> Dropping:
    """Delete the items; SQ5205 if more of them would go than when their sinks were stopped."""
    while True:
        try:
            catalog.change(removing(planned.names))
        except ChangedError:
            catalog.refresh()
            again = _plan(statement, catalog)
            if set(again.names) - set(planned.names):
                raise SinkqlError(
                    "SQ5205",
                    "other items have come to depend on what is dropped",
                    statement.span,
                    hint="Run the DROP again.",
                ) from None
            planned = again
        else:
            failpoint.point("drop-removed")
            return planned


def _stop(sinks: Mapping[str, str], catalog: Catalog, *, owner: str, wait_seconds: float) -> None:
    control = catalog.control
    for sink_id in sinks.values():
        control.set_desired(sink_id, "dropped")
    failpoint.point("drop-wished")
    until = time.monotonic() + wait_seconds
    for name, sink_id in sinks.items():
        while not control.claim_for_drop(sink_id, owner=owner):
            if time.monotonic() > until:
                raise _still_running(short_name(name, catalog.plans), catalog.control.holder(sink_id))
            time.sleep(_POLL_SECONDS)


def _still_running(name: str, holder: Holder | None) -> SinkqlError:
    where = f" (pid {holder.process.pid} on {holder.process.host})" if holder is not None else ""
    return SinkqlError(
        "SQ5204",
        f'sink "{name}" does not stop{where}',
        hint="End that process, then run the DROP again.",
    )


def _clean(sinks: Mapping[str, str], tables: Iterable[str], catalog: Catalog) -> None:
    """Delete the sinks' folders, and the files of tables; the sinks' Iceberg tables and their files stay.

    Their leases end: nothing runs any more.
    """
    failpoint.point("drop-clean")
    _forget(tables, catalog)
    for sink_id in sinks.values():
        shutil.rmtree(sink_folder(catalog, sink_id), ignore_errors=True)
        views = catalog.database.folder / "views"
        shutil.rmtree(views / sink_id, ignore_errors=True)
        for pin in views.rglob(f"readers/{sink_id}.json"):
            pin.unlink(missing_ok=True)
        catalog.control.end(sink_id)
