"""Turn a materialized view into a job when `sinkql.lowering.materialized_view.decide_job` says so.

The change is part of the transaction of the statement that causes it. Sinks that have started keep the view inlined,
because their tables and state belong to that plan.
"""

from __future__ import annotations

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
    decide_job,
    inputs_of,
    readers_of,
    view_id,
)
from sinkql.machine.randomness import new_uuid
from sinkql.physical.evolution import Evolution
from sinkql.planner.item.view import has_own_job
from sinkql.planner.name import short_name
from sinkql.session.item.plan_history import dependent_plans, facts_with_history, stored_plan

_MOVED = "it reads a view that one job computes for all readers"


@dataclass(frozen=True, slots=True)
class ViewJobChange:
    """Changed facts of views and of their sinks, the ids of new jobs, and notices."""

    changes: Definitions = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


def view_job_change(sink: logical.Sink, catalog: Catalog) -> ViewJobChange:
    """Return the change that a new sink causes."""
    return _views_become_jobs(tuple(_views_to_share(sink, catalog.plans)), catalog)


def index_view_job_change(index: logical.Index, catalog: Catalog) -> ViewJobChange:
    """Return the change that a new index causes: its view becomes a job."""
    name, plans = index.relation, catalog.plans
    if view_id(name, plans) is not None:
        return ViewJobChange()
    change = _views_become_jobs((name,), catalog)
    return change if readers_of(name, plans) else replace(change, notices=())


def begin_job(name: str, statement: ast.Create, catalog: Catalog) -> tuple[Notice, ...]:
    """Replace the statement of a view by one whose options make it a job. Return the notices."""
    sharing = _statement_change(name, statement, catalog)
    catalog.change(beginning_jobs(sharing.changes, sharing.ids, catalog.reader()))
    return sharing.notices


def replace_view(name: str, statement: ast.Create, catalog: Catalog, span: Span) -> tuple[Notice, ...]:
    """Replace the query and options of a view, which may make it a job. Return the notices.

    Raise SQ2985 under `span` if a sink cannot continue with the new query.
    """
    assert isinstance(statement, ast.CreateView)
    sharing = (
        _statement_change(name, statement, catalog)
        if has_own_job(statement)
        else ViewJobChange(_one_definition(name, statement, catalog))
    )
    after = catalog.plans.copy()
    redefine(after, sharing.changes)
    moved = {
        dependent: definition
        for dependent, definition in sharing.changes.items()
        if dependent != name and IN_LINE not in definition[1]
    }
    followers = dependent_plans([name], catalog, after, span, moved=moved)
    changes, check = {**sharing.changes, **followers, **moved}, stored_plan([name], catalog.plans, after)
    catalog.change(beginning_jobs(changes, sharing.ids, catalog.reader(), check=check))
    return sharing.notices


def _statement_change(name: str, statement: ast.Create, catalog: Catalog) -> ViewJobChange:
    """Return the change for a view's new statement, whose options make it a job."""
    if view_id(name, catalog.plans) is not None:
        return ViewJobChange(_one_definition(name, statement, catalog))
    change = _views_become_jobs((name,), catalog, {name: statement})
    return change if readers_of(name, catalog.plans) else replace(change, notices=())


def _one_definition(name: str, statement: ast.Create, catalog: Catalog) -> Definitions:
    return {name: (statement, _facts(name, catalog.plans))}


def _views_become_jobs(
    names: Sequence[str], catalog: Catalog, statements: Mapping[str, ast.Create] | None = None
) -> ViewJobChange:
    """Return the change that makes views jobs. `statements` has new statements of some of them."""
    plans = catalog.plans
    views = {name: new_uuid() for name in names}
    if not views:
        return ViewJobChange()
    facts: dict[str, logical.Facts] = {}
    for name, job_id_ in views.items():
        facts[name] = {**_facts(name, plans), VIEW_ID: job_id_}
    inlining: dict[str, list[str]] = {}
    for name in views:
        for consumer in readers_of(name, plans):
            consumer_facts = facts.get(consumer, _facts(consumer, plans))
            job_id = consumer_facts.get("sink_id") or consumer_facts.get(VIEW_ID)
            if consumer not in views and job_id is not None and catalog.control.begun(str(job_id)):
                facts[consumer] = {**consumer_facts, IN_LINE: [*consumer_facts.get(IN_LINE, ()), views[name]]}
                inlining.setdefault(name, []).append(consumer)
    after = plans.copy()
    redefine(after, _definitions(facts, plans, statements))
    for name in views:
        for consumer in readers_of(name, plans):
            if isinstance(plans.item(consumer), logical.Sink) and consumer not in facts:
                old, new = lower(consumer, plans), lower(consumer, after)
                facts[consumer] = facts_with_history(_facts(consumer, plans), old, new, Evolution(again=_MOVED))
    notices = tuple(_notice(name, inlining.get(name, [])) for name in views)
    return ViewJobChange(_definitions(facts, plans, statements), tuple(views.values()), notices)


def _facts(name: str, plans: MemoryCatalog) -> logical.Facts:
    entry = logical.get_entry(plans, name)
    return entry.facts


def _definitions(
    facts: dict[str, logical.Facts], plans: MemoryCatalog, statements: Mapping[str, ast.Create] | None
) -> Definitions:
    definitions = {}
    for name, new_facts in facts.items():
        entry = logical.get_entry(plans, name)
        definitions[name] = ((statements or {}).get(name, entry.statement), new_facts)
    return definitions


def _views_to_share(sink: logical.Sink, plans: MemoryCatalog) -> Iterator[str]:
    """Yield the topmost views below a sink that become jobs with it as another reader."""
    waiting, seen = [sink.relation], {sink.relation}
    while waiting:
        name = waiting.pop(0)
        item = plans.item(name)
        if not isinstance(item, logical.View) or view_id(name, plans) is not None:
            continue
        if item.materialized and decide_job(name, plans, new_reader=True).is_job:
            yield name
            continue
        for input_name in inputs_of(name, plans):
            if input_name not in seen:
                seen.add(input_name)
                waiting.append(input_name)


def _notice(name: str, inlining: list[str]) -> Notice:
    sink_names = [f'"{short_name(sink)}"' for sink in inlining]
    return Notice(
        "SQ2356",
        f'materialized view "{short_name(name)}" becomes a job, and its sinks read the result',
        hint=f"{', '.join(sink_names)} still computes the view. Drop and create it again to read the result."
        if len(inlining) == 1
        else f"{', '.join(sink_names)} still compute the view. Drop and create them again to read the result."
        if inlining
        else None,
    )
