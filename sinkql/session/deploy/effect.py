"""A step → what it does to data, in a sentence that a user can decide by."""

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
"""Return how many rows a sink's table, or a table, has in a catalog; None where there is none, or nobody knows."""


@dataclass(frozen=True, slots=True)
class EffectContext:
    """What tells effects: how many rows there are, and how tables of sinks change."""

    count: CountRows
    transition: Transition


_READ = ("SOURCE", "TABLE")


def effect_text(
    step: Step,
    before: MemoryCatalog,
    after: MemoryCatalog,
    known: EffectContext,
    *,
    stay: frozenset[str],
    refusal: Refusal | None,
) -> str:
    """Return what a step does to data, or why it is refused as things are."""
    found = effect(step, before, after, known, stay=stay)
    if refusal is None:
        return found
    if not refusal.rows:
        return "; ".join(part for part in (found, f"this is refused as things are: {refusal.reason}") if part)
    if step.action == "replace" and known.count(step.name, after):
        return found  # which says so
    destination = destination_of(step.name, after)
    way = destination.refused if destination is not None else None
    return f"{found}; the sink is refused while others' rows are there{f': {way}' if way else ''}"


def effect(
    step: Step, before: MemoryCatalog, after: MemoryCatalog, known: EffectContext, *, stay: frozenset[str]
) -> str:
    """Return what a step does to data; empty where it touches none. `stay` are the sinks that are not created again."""
    if step.action == "replace" and _kind(step.name, before) not in ("", step.kind):
        gone = effect(replace(step, kind=_kind(step.name, before), action="drop"), before, after, known, stay=stay)
        made = effect(replace(step, action="create"), before, after, known, stay=stay)
        return "; ".join(part for part in (gone, made) if part)
    count = known.count
    fed = step.kind == "TABLE" and not _keeps_rows(step.name, before)
    match "SOURCE" if fed else step.kind, step.action:
        case "SINK", "create":
            return f"{_created(step.name, after, count)}{_beside(step.name, after)}"
        case "SINK", "drop":
            return f"it stops; {_kept(step.name, before, count)}"
        case "SINK", "replace":
            clash = _clash(step.name, before, after, count)
            return f"{_sources(step.name, after)}; {_kept(step.name, before, count)}{clash}{_beside(step.name, after)}"
        case "SINK", "alter":
            return _altered(step.name, before, after, known.transition)
        case "TABLE", ("drop" | "replace"):
            rows = count(step.name, before)
            return "its rows are lost" if rows is None else f"its {_rows(rows)} {'is' if rows == 1 else 'are'} lost"
        case "TABLE", "alter":
            return _filled(step.name, before, after)
        case "SECRET", "alter":
            return "running sinks use the new value from their next commit on"
        case "CLUSTER", "alter":
            return "its sinks restart, and continue where they are"
        case "CONNECTION", "alter":
            return "its sinks continue where they are"
        case (("VIEW" | "MATERIALIZED VIEW" | "SOURCE"), "alter"):
            sinks = _sinks(step.name, before)
            go_on = sinks <= stay and not any(_rereads(each, before, after, known.transition) for each in sinks)
            return "its sinks continue where they are" if sinks and go_on else ""
        case _:
            return ""


def _filled(name: str, before: MemoryCatalog, after: MemoryCatalog) -> str:
    """Say what is in the columns that a table gets."""
    old, new = before.item(name), after.item(name)
    assert isinstance(old, logical.Source)
    assert isinstance(new, logical.Source)
    added = [f'column "{column.name}"' for column in new.shape.columns[len(old.shape.columns) :]]
    return f"it keeps its rows, which have NULL in {' and '.join(added)}" if added else "it keeps its rows"


def _created(name: str, after: MemoryCatalog, count: CountRows) -> str:
    destination, rows = destination_of(name, after), count(name, after)
    if destination is None:
        return _sources(name, after, again=False)
    there = f"; {_named(destination)} exists, with {_rows(rows)}" if rows is not None else ""
    if rows and destination.replaces:
        there += ", which new rows replace"
    return f"{_sources(name, after, again=False)}, into {_named(destination)}{there}"


def _sources(name: str, catalog: MemoryCatalog, *, again: bool = True) -> str:
    """Say what a sink that starts from the beginning reads."""
    read = [each for each in catalog.all_used(name) if _kind(each, catalog) in _READ and not _divided(each, catalog)]
    sources = sorted(f'"{short_name(each)}"' for each in read)
    sink = catalog.item(name)
    assert isinstance(sink, logical.Sink)
    listed = f"{'source' if len(sources) == 1 else 'sources'} {', '.join(sources)}"
    if not sink.snapshot:
        return f"reads new rows of {listed} from now on"
    return f"{'re-reads' if again else 'reads'} {listed} from the start"


def _kept(name: str, catalog: MemoryCatalog, count: CountRows) -> str:
    destination, rows = destination_of(name, catalog), count(name, catalog)
    if destination is None:
        return "what it wrote stays"
    return f"the {destination.kind} keeps its {'rows' if rows is None else _rows(rows)}"


def _clash(name: str, before: MemoryCatalog, after: MemoryCatalog, count: CountRows) -> str:
    """Say what the new sink makes of rows that are in its destination already, which may be another than before."""
    destination, rows = destination_of(name, after), count(name, after)
    if destination is None or not rows:
        return ""
    other = "" if place_of(name, before) == place_of(name, after) else f"{_named(destination)} has {_rows(rows)}"
    if destination.replaces:
        return f", and {other}, which new rows replace" if other else ", which new rows replace"
    if destination.refused is None:
        return f", and {other}, to which new rows are added" if other else ", and new rows are added to them"
    refused = f"the new sink is refused while it has them: {destination.refused}"
    return f", and {other}: {refused}" if other else f", and {refused}"


def _beside(name: str, after: MemoryCatalog) -> str:
    """Say that another sink writes to the same destination, where that is trouble."""
    here = destination_of(name, after)
    for other in sinks_of_destination(name, after):
        there = destination_of(other, after)
        if columns_of(other, after) != columns_of(name, after):
            return f'; sink "{short_name(other)}" writes other columns there: the one that starts second does not run'
        if (here is not None and here.alone) or (there is not None and there.alone):
            return f'; sink "{short_name(other)}" writes there too: one stops as soon as the other has written'
        if here is not None and here.refused is not None:
            return (
                f'; sink "{short_name(other)}" writes there too: this one is refused if that has written rows before it'
            )
    return ""


def _named(destination: logical.Destination) -> str:
    return f'{destination.kind} "{destination.name}"'


def _altered(name: str, before: MemoryCatalog, after: MemoryCatalog, transition: Transition) -> str:
    old, new = before.item(name), after.item(name)
    assert isinstance(old, logical.Sink)
    assert isinstance(new, logical.Sink)
    was, will = lower(name, before), lower(name, after)
    if was.plan != will.plan and (old.relation == new.relation or will.write.mode == "upsert"):
        change = transition(was, will)
        return _evolved(change) if change.again is None else f"{_again(name, after)}{_evolved(change)}"
    if old.relation != new.relation:
        return f'it continues with new rows of "{short_name(new.relation)}"; nothing is read again'
    if old.cluster != new.cluster:
        return f'it restarts in cluster "{new.cluster}", and continues where it is'
    return "it continues where it is"


def _rereads(name: str, before: MemoryCatalog, after: MemoryCatalog, transition: Transition) -> bool:
    was, will = lower(name, before), lower(name, after)
    return will.write.mode == "upsert" and was.plan != will.plan and transition(was, will).again is not None


def _again(name: str, after: MemoryCatalog) -> str:
    """Say that the rows of an upsert sink are computed again."""
    what = _sources(name, after)
    return f"{what}; then its table gets the new rows in one commit, and has the old ones until then"


def _evolved(change: Evolution) -> str:
    told = _columns(change)
    if change.again is not None:
        return f"; it also {told}" if told else ""
    return f"its table {told}; nothing is read again" if told else "it continues where it is"


def _columns(change: Evolution) -> str:
    """Say what becomes of the columns of a table."""
    told = [f'renames column "{old}" to "{new}"' for old, new in change.renamed.items() if new is not None]
    told += [f'drops column "{old}"' for old, new in change.renamed.items() if new is None]
    told += [f'widens column "{name}" from {old} to {new}' for name, old, new in change.widened]
    if change.added:
        added = [f'column "{name}"' for name in change.added]
        have = "has" if len(added) == 1 else "have"
        null = "" if change.again else f", which {have} NULL in rows that are there"
        told.append(f"gets {' and '.join(added)}{null}")
    return ", ".join(told)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _sinks(name: str, catalog: MemoryCatalog) -> frozenset[str]:
    """Return the sinks that read an item, through views or not."""
    return frozenset(each for each in catalog.all_users(name) if _kind(each, catalog) == "SINK")


def _keeps_rows(name: str, catalog: MemoryCatalog) -> bool:
    """Tell whether the rows of a table are its own, and not those of a source; so they are where it does not plan."""
    entry = catalog.entry(name)
    return entry is None or isinstance(entry.statement, ast.CreateTable)


def _divided(name: str, catalog: MemoryCatalog) -> bool:
    """Tell whether it is a source of tables, which are what is read."""
    item = catalog.item(name)
    return isinstance(item, logical.Source) and bool(item.tables)


def _kind(name: str, catalog: MemoryCatalog) -> str:
    entry = catalog.entry(name)
    return entry.kind if entry is not None else ""
