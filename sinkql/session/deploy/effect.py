"""A step → what it does to data, in a sentence that a user can decide by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sinkql import logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.planner.name import short_name
from sinkql.session.deploy.step import Step

CountRows = Callable[[str, MemoryCatalog], int | None]
"""Return how many rows a sink's table, or a table, has in a catalog; None where there is none, or nobody knows."""

_READ = ("SOURCE", "TABLE")


def effect(step: Step, before: MemoryCatalog, after: MemoryCatalog, count: CountRows, *, stay: frozenset[str]) -> str:
    """Return what a step does to data; empty where it touches none. `stay` are the sinks that are not made anew."""
    if step.action == "replace" and _kind(step.name, before) not in ("", step.kind):
        gone = effect(replace(step, kind=_kind(step.name, before), action="drop"), before, after, count, stay=stay)
        made = effect(replace(step, action="create"), before, after, count, stay=stay)
        return "; ".join(part for part in (gone, made) if part)
    match step.kind, step.action:
        case "SINK", "create":
            return _created(step.name, after, count)
        case "SINK", "drop":
            return f"it stops; {_kept(step.name, before, count)}"
        case "SINK", "replace":
            clash = _clash(step.name, before, after, count)
            return f"{_sources(step.name, after)}; {_kept(step.name, before, count)}{clash}"
        case "SINK", "alter":
            return _altered(step.name, before, after)
        case "TABLE", ("drop" | "replace"):
            rows = count(step.name, before)
            return "its rows are lost" if rows is None else f"its {_rows(rows)} {'is' if rows == 1 else 'are'} lost"
        case "SECRET", "alter":
            return "running sinks use the new value from their next commit on"
        case "CLUSTER", "alter":
            return "its sinks start again, and go on where they are"
        case "CONNECTION", "alter":
            return "its sinks go on where they are"
        case (("VIEW" | "MATERIALIZED VIEW" | "SOURCE"), "alter"):
            sinks = _sinks(step.name, before)
            return "its sinks go on where they are" if sinks and sinks <= stay else ""
        case _:
            return ""


def _created(name: str, after: MemoryCatalog, count: CountRows) -> str:
    rows = count(name, after)
    there = f"; table {_table(name, after)} is there, with {_rows(rows)}" if rows is not None else ""
    return f"{_sources(name, after)}, into table {_table(name, after)}{there}"


def _sources(name: str, catalog: MemoryCatalog) -> str:
    """Say what a sink that begins anew reads."""
    sources = sorted(f'"{short_name(each)}"' for each in _closure(name, catalog) if _kind(each, catalog) in _READ)
    sink = catalog.item(name)
    assert isinstance(sink, logical.Sink)
    listed = f"{'source' if len(sources) == 1 else 'sources'} {', '.join(sources)}"
    if not sink.options.get("snapshot", True):
        return f"reads what comes to {listed} from now on"
    return f"re-reads {listed} from the start"


def _kept(name: str, catalog: MemoryCatalog, count: CountRows) -> str:
    rows = count(name, catalog)
    return "the table keeps its rows" if rows is None else f"the table keeps its {_rows(rows)}"


def _clash(name: str, before: MemoryCatalog, after: MemoryCatalog, count: CountRows) -> str:
    """Say what the new sink makes of rows that are in its table already, which may be another than before."""
    sink, rows = after.item(name), count(name, after)
    assert isinstance(sink, logical.Sink)
    if not rows:
        return ""
    other = "" if _target(name, before) == _target(name, after) else f"table {_table(name, after)} has {_rows(rows)}"
    if sink.options.get("existing_rows") == "keep":
        return f", and {other}, on top of which the new ones come" if other else ", and the new ones come on top"
    refused = "the new sink is refused while it has them: name a new TABLE, or say EXISTING ROWS = KEEP"
    return f", and {other}: {refused}" if other else f", and {refused}"


def _target(name: str, catalog: MemoryCatalog) -> tuple[object, ...]:
    sink = catalog.item(name)
    assert isinstance(sink, logical.Sink)
    connection = catalog.item(sink.connection)
    assert isinstance(connection, logical.Connection)
    return connection.options, sink.options.get("namespace"), sink.options.get("table")


def _altered(name: str, before: MemoryCatalog, after: MemoryCatalog) -> str:
    old, new = before.item(name), after.item(name)
    assert isinstance(old, logical.Sink)
    assert isinstance(new, logical.Sink)
    if old.relation != new.relation:
        return f'it goes on from what comes to "{short_name(new.relation)}"; nothing is read again'
    if old.cluster != new.cluster:
        return f'it starts again in cluster "{new.cluster}", and goes on where it is'
    return "it goes on where it is"


def _table(name: str, catalog: MemoryCatalog) -> str:
    sink = catalog.item(name)
    assert isinstance(sink, logical.Sink)
    return f'"{sink.options.get("namespace")}.{sink.options.get("table")}"'


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _sinks(name: str, catalog: MemoryCatalog) -> frozenset[str]:
    """Return the sinks that read an item, through views or not."""
    seen, waiting = {name}, [name]
    while waiting:
        for user in catalog.dependents(waiting.pop()):
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return frozenset(each for each in seen if _kind(each, catalog) == "SINK")


def _closure(name: str, catalog: MemoryCatalog) -> set[str]:
    found, waiting = set[str](), [name]
    while waiting:
        for used in catalog.dependencies(waiting.pop()):
            if used not in found and catalog.entry(used) is not None:
                found.add(used)
                waiting.append(used)
    return found


def _kind(name: str, catalog: MemoryCatalog) -> str:
    entry = catalog.entry(name)
    return entry.kind if entry is not None else ""
