"""A view that gets a second reader, or options of a job → it becomes a job of its own, which all of them read.

It becomes one in the transaction of the statement that has it be one.
Sinks that have begun go on to compute the view themselves: their tables and state are of that plan.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import beginning_jobs
from sinkql.catalog.replan import Definitions, redefine
from sinkql.errors import Notice, Span
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import (
    IN_LINE,
    VIEW_ID,
    check_index,
    inputs_of,
    is_stateless,
    loggable,
    readers_of,
    view_id,
)
from sinkql.physical.evolution import Evolution
from sinkql.planner.item.view import own_job
from sinkql.planner.name import short_name
from sinkql.session.item.plan_history import dependent_plans, facts_of_follower, stored_plan

_MOVED = "it reads a view that is computed once for all"


@dataclass(frozen=True, slots=True)
class ViewJobChange:
    """What changes with a new sink: facts of views and of sinks that read them; the ids of new jobs; what to tell."""

    changes: Definitions = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


def view_job_change(sink: logical.Sink, catalog: Catalog) -> ViewJobChange:
    """Return what changes with a sink that is about to be created."""
    return _sharing(tuple(_shared(sink, catalog.plans)), catalog)


def sharing_by_index(index: logical.Index, catalog: Catalog, span: Span) -> ViewJobChange:
    """Return what changes with an index that is about to be created: its view is a job then, or SQ2372 is raised."""
    name, plans = index.relation, catalog.plans
    check_index(index, span, plans)
    if view_id(name, plans) is not None:
        return ViewJobChange()
    found = _sharing((name,), catalog)
    return found if readers_of(name, plans) else replace(found, notices=())


def begin_job(name: str, statement: ast.Create, catalog: Catalog) -> tuple[Notice, ...]:
    """Give a view another statement, whose options make it a job, which it may be; return what to tell."""
    sharing = _sharing_by(name, statement, catalog)
    catalog.change(beginning_jobs(sharing.changes, sharing.ids, catalog.reader()))
    return sharing.notices


def replace_view(name: str, statement: ast.Create, catalog: Catalog, span: Span) -> tuple[Notice, ...]:
    """Give a view another query and other options, which may make it a job; return what to tell.

    Raises SQ2985 under `span` for a sink that cannot go on with the new query.
    """
    assert isinstance(statement, ast.CreateView)
    sharing = (
        _sharing_by(name, statement, catalog) if own_job(statement) else ViewJobChange(_alone(name, statement, catalog))
    )
    after = catalog.plans.copy()
    redefine(after, sharing.changes)
    moved = {each: own for each, own in sharing.changes.items() if each != name and IN_LINE not in own[1]}
    going_on = dependent_plans([name], catalog, after, span, moved=moved)
    changes, check = {**sharing.changes, **going_on, **moved}, stored_plan([name], catalog.plans, after)
    catalog.change(beginning_jobs(changes, sharing.ids, catalog.reader(), check=check))
    return sharing.notices


def _sharing_by(name: str, statement: ast.Create, catalog: Catalog) -> ViewJobChange:
    """Return what changes with a view's new statement, whose options make it a job."""
    if view_id(name, catalog.plans) is not None:
        return ViewJobChange(_alone(name, statement, catalog))
    found = _sharing((name,), catalog, {name: statement})
    return found if readers_of(name, catalog.plans) else replace(found, notices=())


def _alone(name: str, statement: ast.Create, catalog: Catalog) -> Definitions:
    return {name: (statement, _facts(name, catalog.plans))}


def _sharing(
    names: Sequence[str], catalog: Catalog, statements: Mapping[str, ast.Create] | None = None
) -> ViewJobChange:
    """Return what changes where some views become jobs, of which some get other `statements`."""
    plans = catalog.plans
    views = {name: str(uuid.uuid4()) for name in names}
    if not views:
        return ViewJobChange()
    facts: dict[str, logical.Facts] = {}
    for name, known in views.items():
        facts[name] = {**_facts(name, plans), VIEW_ID: known}
    kept: dict[str, list[str]] = {}
    for name in views:
        for consumer in readers_of(name, plans):
            own = facts.get(consumer, _facts(consumer, plans))
            job_id = own.get("sink_id") or own.get(VIEW_ID)
            if consumer not in views and job_id is not None and catalog.control.begun(str(job_id)):
                facts[consumer] = {**own, IN_LINE: [*own.get(IN_LINE, ()), views[name]]}
                kept.setdefault(name, []).append(consumer)
    after = plans.copy()
    redefine(after, _changes(facts, plans, statements))
    for name in views:
        for consumer in readers_of(name, plans):
            if isinstance(plans.item(consumer), logical.Sink) and consumer not in facts:
                old, new = lower(consumer, plans), lower(consumer, after)
                facts[consumer] = facts_of_follower(_facts(consumer, plans), old, new, Evolution(again=_MOVED))
    notices = tuple(_notice(name, kept.get(name, [])) for name in views)
    return ViewJobChange(_changes(facts, plans, statements), tuple(views.values()), notices)


def _facts(name: str, plans: MemoryCatalog) -> logical.Facts:
    entry = plans.entry(name)
    assert entry is not None
    return entry.facts


def _changes(
    facts: dict[str, logical.Facts], plans: MemoryCatalog, statements: Mapping[str, ast.Create] | None
) -> Definitions:
    found = {}
    for name, own in facts.items():
        entry = plans.entry(name)
        assert entry is not None
        found[name] = ((statements or {}).get(name, entry.statement), own)
    return found


def _shared(sink: logical.Sink, plans: MemoryCatalog) -> Iterator[str]:
    """Yield the views below a sink that something else reads, and that keep state, the topmost ones."""
    waiting, seen = [sink.relation], {sink.relation}
    while waiting:
        name = waiting.pop(0)
        item = plans.item(name)
        if not isinstance(item, logical.View) or view_id(name, plans) is not None:
            continue
        if item.materialized and not is_stateless(name, plans) and loggable(name, plans) and readers_of(name, plans):
            yield name
            continue
        for each in inputs_of(name, plans):
            if each not in seen:
                seen.add(each)
                waiting.append(each)


def _notice(name: str, kept: list[str]) -> Notice:
    by_themselves = [f'"{short_name(each)}"' for each in kept]
    return Notice(
        "SQ2356",
        f'materialized view "{short_name(name)}" is computed once from now on, and its sinks read what it gives',
        hint=f"{', '.join(by_themselves)} computes it by itself as before: drop and create it again to have it share."
        if len(kept) == 1
        else f"{', '.join(by_themselves)} compute it by themselves as before: drop and create them again to have them "
        "share."
        if kept
        else None,
    )
