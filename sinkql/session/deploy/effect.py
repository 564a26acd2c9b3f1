"""Describe the effect of a step on data, for the user's decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.lowering.job import lower
from sinkql.physical.evolution import Evolution
from sinkql.planner.name import short_name
from sinkql.session.deploy.dry_run import Refusal
from sinkql.session.deploy.step import Step, Transition
from sinkql.session.item.destination import columns_of, destination_of, place_of, sinks_of_destination

CountRows = Callable[[str, MemoryCatalog], int | None]
"""Return the number of rows of a table or of a sink's table; None if it does not exist or cannot be counted."""


@dataclass(frozen=True, slots=True)
class EffectContext:
    """The functions that effects need: row counts, and the evolution of sinks' tables."""

    count: CountRows
    transition: Transition


_READ = ("SOURCE", "TABLE")


def effect_text(
    step: Step,
    before: MemoryCatalog,
    after: MemoryCatalog,
    context: EffectContext,
    *,
    stay: frozenset[str],
    refusal: Refusal | None,
) -> str:
    """Return the effect of a step on data, and why it would be refused now."""
    text = effect(step, before, after, context, stay=stay)
    if refusal is None:
        return text
    if not refusal.rows:
        return "; ".join(part for part in (text, f"this would be refused now: {refusal.reason}") if part)
    if step.action == "replace" and context.count(step.name, after):
        return text  # it already gives the reason
    destination = destination_of(step.name, after)
    cause = destination.refused if destination is not None else None
    reason = f": {cause}" if cause else ""
    return f"{text}; the sink is refused while its table has other rows{reason}"


def effect(
    step: Step, before: MemoryCatalog, after: MemoryCatalog, context: EffectContext, *, stay: frozenset[str]
) -> str:
    """Return the effect of a step on data, empty if it has none. `stay` has the sinks that are not created again."""
    if step.action == "replace" and _kind(step.name, before) not in ("", step.kind):
        dropped = effect(replace(step, kind=_kind(step.name, before), action="drop"), before, after, context, stay=stay)
        created = effect(replace(step, action="create"), before, after, context, stay=stay)
        return "; ".join(part for part in (dropped, created) if part)
    count = context.count
    is_fed = step.kind == "TABLE" and not _stores_rows(step.name, before)
    match "SOURCE" if is_fed else step.kind, step.action:
        case "SINK", "create":
            return f"{_created_sink(step.name, after, count)}{_other_sinks(step.name, after)}"
        case "SINK", "drop":
            return f"it stops; {_kept_rows(step.name, before, count)}"
        case "SINK", "replace":
            existing = _existing_rows(step.name, before, after, count)
            remaining_rows = f"{_kept_rows(step.name, before, count)}{existing}{_other_sinks(step.name, after)}"
            return f"{_read_sources(step.name, after)}; {remaining_rows}"
        case "SINK", "alter":
            return _altered_sink(step.name, before, after, context.transition)
        case "TABLE", ("drop" | "replace"):
            rows = count(step.name, before)
            return "its rows are lost" if rows is None else f"its {_rows(rows)} {'is' if rows == 1 else 'are'} lost"
        case "TABLE", "alter":
            return _altered_table(step.name, before, after)
        case "SECRET", "alter":
            return "running sinks use the new value from their next commit"
        case "CLUSTER", "alter":
            return _altered_cluster(step.name, before, after)
        case "CONNECTION", "alter":
            return "its sinks continue where they are"
        case (("VIEW" | "MATERIALIZED VIEW" | "SOURCE"), "alter"):
            sinks = _sinks(step.name, before)
            all_continue = sinks <= stay and not any(
                _needs_full_refresh(sink, before, after, context.transition) for sink in sinks
            )
            return "its sinks continue where they are" if sinks and all_continue else ""
        case _:
            return ""


def _altered_cluster(name: str, before: MemoryCatalog, after: MemoryCatalog) -> str:
    """Describe what happens to sinks of a cluster; when its Spark runs can change without a restart."""
    old, new = (logical.get_item(catalog, name, logical.Cluster) for catalog in (before, after))
    same = replace(old, execution=new.execution, spark_idle=new.spark_idle) == new
    return "its sinks continue where they are" if same else "its sinks restart and continue where they are"


def _altered_table(name: str, before: MemoryCatalog, after: MemoryCatalog) -> str:
    """Describe the values of a table's new columns."""
    old, new = logical.get_item(before, name, logical.Source), logical.get_item(after, name, logical.Source)
    added = [f'column "{column.name}"' for column in new.shape.columns[len(old.shape.columns) :]]
    return f"it keeps its rows, which have NULL in {' and '.join(added)}" if added else "it keeps its rows"


def _created_sink(name: str, after: MemoryCatalog, count: CountRows) -> str:
    destination, rows = destination_of(name, after), count(name, after)
    if destination is None:
        return _read_sources(name, after, again=False)
    existing = f"; {_quoted(destination)} exists, with {_rows(rows)}" if rows is not None else ""
    if rows and destination.replaces:
        existing += f", which {_replacement(name, after)}"
    return f"{_read_sources(name, after, again=False)}, into {_quoted(destination)}{existing}"


def _read_sources(name: str, catalog: MemoryCatalog, *, again: bool = True) -> str:
    """Describe the sources that a new sink reads."""
    read = [
        name_ for name_ in catalog.all_used(name) if _kind(name_, catalog) in _READ and not _has_tables(name_, catalog)
    ]
    sources = sorted(f'"{short_name(name_)}"' for name_ in read)
    sink = logical.get_item(catalog, name, logical.Sink)
    listed = f"{'source' if len(sources) == 1 else 'sources'} {', '.join(sources)}"
    if not sink.snapshot:
        return f"reads only new rows of {listed}"
    return f"{'re-reads' if again else 'reads'} {listed} from the start"


def _kept_rows(name: str, catalog: MemoryCatalog, count: CountRows) -> str:
    destination, rows = destination_of(name, catalog), count(name, catalog)
    if destination is None:
        return "its output stays"
    return f"the {destination.kind} keeps its {'rows' if rows is None else _rows(rows)}"


def _existing_rows(name: str, before: MemoryCatalog, after: MemoryCatalog, count: CountRows) -> str:
    """Describe how the new sink treats existing rows of its destination, which may be a different one."""
    destination, rows = destination_of(name, after), count(name, after)
    if destination is None or not rows:
        return ""
    other_table = "" if place_of(name, before) == place_of(name, after) else f"{_quoted(destination)} has {_rows(rows)}"
    if destination.replaces:
        replacement = _replacement(name, after)
        return f", and {other_table}, which {replacement}" if other_table else f", which {replacement}"
    if destination.refused is None:
        return (
            f", and {other_table}, to which new rows are added" if other_table else ", and new rows are added to them"
        )
    refusal = f"the new sink is refused while it has them: {destination.refused}"
    return f", and {other_table}: {refusal}" if other_table else f", and {refusal}"


def _replacement(name: str, after: MemoryCatalog) -> str:
    """Describe how a sink replaces existing rows of its table: an append sink first empties the table."""
    if logical.get_item(after, name, logical.Sink).mode == logical.SinkMode.UPSERT:
        return "new rows replace"
    return "the first commit removes before later commits add new rows"


def _other_sinks(name: str, after: MemoryCatalog) -> str:
    """Describe the conflict with another sink of the same destination."""
    destination = destination_of(name, after)
    for other in sinks_of_destination(name, after):
        other_destination = destination_of(other, after)
        if columns_of(other, after) != columns_of(name, after):
            return f'; sink "{short_name(other)}" writes other columns there: the sink that starts second fails'
        if (destination is not None and destination.alone) or (
            other_destination is not None and other_destination.alone
        ):
            return f'; sink "{short_name(other)}" writes there too: one of them stops when the other commits'
        if destination is not None and destination.refused is not None:
            return f'; sink "{short_name(other)}" writes there too: this sink is refused if that sink has written rows'
    return ""


def _quoted(destination: logical.Destination) -> str:
    return f'{destination.kind} "{destination.name}"'


def _altered_sink(name: str, before: MemoryCatalog, after: MemoryCatalog, transition: Transition) -> str:
    old, new = logical.get_item(before, name, logical.Sink), logical.get_item(after, name, logical.Sink)
    old_job, new_job = lower(name, before), lower(name, after)
    if old_job.plan != new_job.plan and (old.relation == new.relation or new_job.write.mode == "upsert"):
        change = transition(old_job, new_job)
        return (
            _in_place_changes(change)
            if change.again is None
            else f"{_full_refresh(name, after)}{_in_place_changes(change)}"
        )
    if old.relation != new.relation:
        return f'it continues with new rows of "{short_name(new.relation)}"; nothing is read again'
    if old.cluster != new.cluster:
        return f'it restarts in cluster "{new.cluster}" and continues where it is'
    return "it continues where it is"


def _needs_full_refresh(name: str, before: MemoryCatalog, after: MemoryCatalog, transition: Transition) -> bool:
    old_job, new_job = lower(name, before), lower(name, after)
    return (
        new_job.write.mode == "upsert"
        and old_job.plan != new_job.plan
        and transition(old_job, new_job).again is not None
    )


def _full_refresh(name: str, after: MemoryCatalog) -> str:
    """Describe the full refresh of an upsert sink."""
    sources = _read_sources(name, after)
    return f"{sources}; then its table gets the new rows in one commit, and has the old rows until then"


def _in_place_changes(change: Evolution) -> str:
    columns = _column_changes(change)
    if change.again is not None:
        return f"; it also {columns}" if columns else ""
    return f"its table {columns}; nothing is read again" if columns else "it continues where it is"


def _column_changes(change: Evolution) -> str:
    """Describe the column changes of a table."""
    changes = [f'renames column "{old}" to "{new}"' for old, new in change.renamed.items() if new is not None]
    changes += [f'drops column "{old}"' for old, new in change.renamed.items() if new is None]
    changes += [f'widens column "{name}" from {old} to {new}' for name, old, new in change.widened]
    if change.added:
        columns = [f'column "{name}"' for name in change.added]
        verb = "has" if len(columns) == 1 else "have"
        nulls = "" if change.again else f", which {verb} NULL in existing rows"
        changes.append(f"gets {' and '.join(columns)}{nulls}")
    return ", ".join(changes)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _sinks(name: str, catalog: MemoryCatalog) -> frozenset[str]:
    """Return the sinks that read an item directly or through views."""
    return frozenset(user for user in catalog.all_users(name) if _kind(user, catalog) == "SINK")


def _stores_rows(name: str, catalog: MemoryCatalog) -> bool:
    """Return whether a table stores rows instead of reading a source. A broken table counts as storing rows."""
    entry = catalog.entry(name)
    return entry is None or isinstance(entry.statement, ast.CreateTable)


def _has_tables(name: str, catalog: MemoryCatalog) -> bool:
    """Return whether an item is a source whose tables are read instead."""
    item = catalog.item(name)
    return isinstance(item, logical.Source) and bool(item.tables)


def _kind(name: str, catalog: MemoryCatalog) -> str:
    entry = catalog.entry(name)
    return entry.kind if entry is not None else ""
