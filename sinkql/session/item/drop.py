"""Drop items: stop their sinks, delete them from the catalog, then delete their files.

The intent log records each drop first, so that another process finishes a drop that a crash interrupts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.coordination.control import Holder
from sinkql.catalog.coordination.intent_log import Intent
from sinkql.catalog.operation import Draft, removing
from sinkql.errors import Notice, SinkqlError
from sinkql.machine import clock
from sinkql.machine.randomness import new_uuid
from sinkql.planner.name import short_name
from sinkql.session.item.state_cleanup import captured_sources, delete_captured, delete_states, state_locations
from sinkql.session.item.target_table import delete_sink_tags, drop_targets
from sinkql.session.result import Result
from sinkql.statement.operation import DropItems
from sinkql.statement.plan import plan_drop
from sinkql.storage import failpoint
from sinkql.table.file import remove as remove_table
from sinkql.table.file import table_path

WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.1
_JOBS = {"SINK": "sink_id", "MATERIALIZED VIEW": "view_id"}
INTENT = "drop"
COMMIT = "commit"


def drop(dropping: DropItems, catalog: Catalog, *, wait_seconds: float = WAIT_SECONDS) -> Result:
    """Drop items. Stop their running sinks first; raise SQ5204 if one does not stop in time."""
    targets = drop_targets(dropping, catalog)
    for target in targets:
        target.drop(dry=True)
    sinks, tables = sink_ids(dropping.names, catalog), _table_ids(dropping.names, catalog)
    captured, states = captured_sources(dropping.names, catalog), state_locations(sinks, catalog)
    if isinstance(catalog, Draft) or not (sinks or tables or captured):
        dropping = _remove(dropping, catalog)
        if isinstance(catalog, Draft):
            # created in the same transaction: no other process knows them
            _remove_tables(set(tables) - _earlier_table_ids(catalog), catalog)
        return _result(dropping)
    entries = catalog.entries()
    ids = [entries[name].id for name in dropping.names]
    desired_states = {sink_id: catalog.control.desired(sink_id) for sink_id in sinks.values()}
    content = {
        "ids": ids, "sinks": sinks, "tables": tables, "captured": captured, "states": states, "wishes": desired_states,
    }  # fmt: skip
    with _stop_and_delete(INTENT, content, sinks, tables, catalog, wait_seconds=wait_seconds) as left:
        for target in targets:
            target.drop(dry=False)
        dropping = _remove(dropping, catalog)
    return _result(dropping, left)


def _result(dropping: DropItems, left: Sequence[Notice] = ()) -> Result:
    tag = f"DROP {dropping.statement.kind}"
    return Result(tag, (*dropping.notices, *left), names=dropping.names, skipped=not dropping.names)


@contextmanager
def stop_sinks(draft: Draft, catalog: Catalog, *, wait_seconds: float) -> Iterator[list[Notice]]:
    """Stop the sinks that a transaction drops, commit it in the block, then delete their files.

    The list receives notices after the block, as in `_stop_and_delete`.
    """
    before = tuple(name for kind in (*_JOBS, "TABLE") for name in draft.before.names(kind))
    names = tuple(name for name in before if catalog.stored(name) is not None)
    kept_sinks = set(sink_ids(tuple(draft.entries()), draft).values())
    kept_tables = set(_table_ids(tuple(draft.entries()), draft))
    sinks = {name: id_ for name, id_ in sink_ids(names, catalog).items() if id_ not in kept_sinks}
    tables = [id_ for id_ in _table_ids(names, catalog) if id_ not in kept_tables]
    dropped = tuple(
        name for kind in ("SOURCE", "TABLE") for name in draft.before.names(kind) if catalog.stored(name) is not None
    )
    kept_sources = {source["source_id"] for source in captured_sources(tuple(draft.entries()), draft)}
    captured = [source for source in captured_sources(dropped, catalog) if source["source_id"] not in kept_sources]
    if not sinks and not tables and not captured:
        yield []
        return
    desired_states = {sink_id: catalog.control.desired(sink_id) for sink_id in sinks.values()}
    states = state_locations(sinks, catalog)
    content = {"sinks": sinks, "tables": tables, "captured": captured, "states": states, "wishes": desired_states}
    with _stop_and_delete(COMMIT, content, sinks, tables, catalog, wait_seconds=wait_seconds) as left:
        yield left


def delete_table_files(draft: Draft) -> None:
    """Delete the files of the tables that a rolled-back transaction created."""
    _remove_tables(set(_table_ids(tuple(draft.entries()), draft)) - _earlier_table_ids(draft), draft)


def _earlier_table_ids(draft: Draft) -> set[str]:
    """Return the file ids of the tables that existed before a transaction."""
    facts = (draft.before.facts(name) for name in draft.before.names("TABLE"))
    return {str(values["table_id"]) for values in facts if "table_id" in values}


def _remove_tables(tables: Iterable[str], catalog: Catalog) -> None:
    for table_id in tables:
        remove_table(table_path(catalog.database.folder, table_id, ""))


@contextmanager
def _stop_and_delete(
    intent: str,
    content: Mapping[str, Any],
    sinks: Mapping[str, str],
    tables: Iterable[str],
    catalog: Catalog,
    *,
    wait_seconds: float,
) -> Iterator[list[Notice]]:
    """Stop sinks, run the block, then delete the files of sinks and tables and the resources of sources.

    If the block fails, restore the sinks' desired states. After the block, the list that is yielded has a notice for
    everything that could not be deleted.
    """
    left: list[Notice] = []
    desired_states = {sink_id: catalog.control.desired(sink_id) for sink_id in sinks.values()}
    owner = f"drop-{new_uuid()}"
    number = catalog.intent_log.begin(intent, content)
    try:
        _stop_sinks(sinks, catalog, owner=owner, wait_seconds=wait_seconds)
        left += delete_sink_tags(sinks, catalog)  # while the connections still exist
        yield left
    except BaseException:
        # Nothing is deleted yet, so the sinks of an interrupted DROP get their earlier desired states.
        for sink_id, desired in desired_states.items():
            catalog.control.set_desired(sink_id, desired)
            catalog.control.release(sink_id, owner=owner)
        catalog.intent_log.done(number)
        raise
    _delete_files(sinks, tables, catalog)
    left += delete_captured(content["captured"], catalog)
    left += delete_states(content["states"], catalog)
    catalog.intent_log.done(number)


def finish_interrupted_drop(catalog: Catalog) -> None:
    """Finish the drops that crashed processes left. Skip a drop while its sinks still run."""
    for intent in catalog.intent_log.adopt():
        if intent.what == INTENT:
            _finish(intent, catalog)
        elif intent.what == COMMIT:
            _finish_commit(intent, catalog)


def _finish_commit(intent: Intent, catalog: Catalog) -> None:
    """Delete the files of items that a transaction dropped. If it was not committed, restore the sinks' states."""
    sinks: Mapping[str, str] = intent.content["sinks"]
    names = tuple(catalog.entries())
    present, tables = set(sink_ids(names, catalog).values()), set(_table_ids(names, catalog))
    for sink_id in present & set(sinks.values()):
        catalog.control.set_desired(sink_id, intent.content["wishes"][sink_id])
    dropped = {name: sink_id for name, sink_id in sinks.items() if sink_id not in present}
    _delete_files(dropped, [table_id for table_id in intent.content["tables"] if table_id not in tables], catalog)
    sources = {source["source_id"] for source in captured_sources(names, catalog)}
    dropped_sources = [source for source in intent.content["captured"] if source["source_id"] not in sources]
    delete_captured(dropped_sources, catalog)
    states = intent.content.get("states", ())
    delete_states([state for state in states if state["sink_id"] not in present], catalog)
    catalog.intent_log.done(intent.number)


def _finish(intent: Intent, catalog: Catalog) -> None:
    sinks: Mapping[str, str] = intent.content["sinks"]
    owner = f"drop-{new_uuid()}"
    if not all(catalog.control.claim_for_drop(sink_id, owner=owner) for sink_id in sinks.values()):
        return
    while True:
        catalog.refresh()
        try:
            catalog.change(removing(_present_names(intent, catalog)))
            break
        except ChangedError:
            continue
        except SinkqlError:  # new dependents exist, so the items stay
            for sink_id, desired in intent.content["wishes"].items():
                catalog.control.set_desired(sink_id, desired)
                catalog.control.release(sink_id, owner=owner)
            catalog.intent_log.done(intent.number)
            return
    _delete_files(sinks, intent.content["tables"], catalog)
    delete_captured(intent.content["captured"], catalog)
    delete_states(intent.content.get("states", ()), catalog)
    catalog.intent_log.done(intent.number)


def _present_names(intent: Intent, catalog: Catalog) -> list[str]:
    """Return the present names of the items to drop. Other items may have taken their old names."""
    now = catalog.names_by_id()
    return [now[item_id] for item_id in intent.content["ids"] if item_id in now]


def sink_folder(catalog: Catalog, sink_id: str) -> Path:
    """Return the folder with a sink's state and checkpoint."""
    return catalog.database.folder / "sinks" / sink_id


def sink_ids(names: tuple[str, ...], catalog: Catalog) -> dict[str, str]:
    """Return the job ids of the sinks and the materialized view jobs among `names`."""
    reader = catalog.reader()
    ids: dict[str, str] = {}
    for kind, id_ in _JOBS.items():
        names_of_kind = frozenset(reader.names(kind))
        facts = {name: reader.facts(name) for name in names if name in names_of_kind}
        ids |= {name: str(values[id_]) for name, values in facts.items() if id_ in values}
    return {name: ids[name] for name in names if name in ids}


def _table_ids(names: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    """Return the file ids of the tables among `names`. A table that a source feeds has no file."""
    reader = catalog.reader()
    table_names = frozenset(reader.names("TABLE"))
    facts = (reader.facts(name) for name in names if name in table_names)
    return tuple(str(values["table_id"]) for values in facts if "table_id" in values)


def _remove(planned: DropItems, catalog: Catalog) -> DropItems:
    """Delete the items. Raise SQ5205 if new dependents would be dropped too, as their sinks still run."""
    while True:
        try:
            catalog.change(removing(planned.names))
        except ChangedError:
            catalog.refresh()
            again = plan_drop(planned.statement, catalog)
            if set(again.names) - set(planned.names):
                raise SinkqlError(
                    "SQ5205",
                    "other items now depend on the dropped items",
                    planned.statement.span,
                    hint="Run the DROP again.",
                ) from None
            planned = again
        else:
            failpoint.point("drop-removed")
            return planned


def _stop_sinks(sinks: Mapping[str, str], catalog: Catalog, *, owner: str, wait_seconds: float) -> None:
    control = catalog.control
    for sink_id in sinks.values():
        control.set_desired(sink_id, "dropped")
    failpoint.point("drop-wished")
    until = clock.monotonic() + wait_seconds
    for name, sink_id in sinks.items():
        while not control.claim_for_drop(sink_id, owner=owner):
            if clock.monotonic() > until:
                raise _still_running_error(short_name(name, catalog.plans), catalog.control.holder(sink_id))
            clock.sleep(_POLL_SECONDS)


def _still_running_error(name: str, holder: Holder | None) -> SinkqlError:
    where = f" (pid {holder.process.pid} on {holder.process.host})" if holder is not None else ""
    return SinkqlError(
        "SQ5204",
        f'sink "{name}" did not stop{where}',
        hint="End that process, then run the DROP again.",
    )


def _delete_files(sinks: Mapping[str, str], tables: Iterable[str], catalog: Catalog) -> None:
    """Delete the sinks' folders, view logs and leases, and the files of tables.

    The sinks' Iceberg tables and data files stay.
    """
    failpoint.point("drop-clean")
    _remove_tables(tables, catalog)
    for sink_id in sinks.values():
        shutil.rmtree(sink_folder(catalog, sink_id), ignore_errors=True)
        views = catalog.database.folder / "views"
        shutil.rmtree(views / sink_id, ignore_errors=True)
        for pin in views.rglob(f"readers/{sink_id}.json"):
            pin.unlink(missing_ok=True)
        catalog.control.end(sink_id)
