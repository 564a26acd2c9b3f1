"""CREATE [MATERIALIZED] VIEW → the relation that its query means, under the view's own column names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span
from sinkql.extension.options import bind, described, option_span
from sinkql.extension.sink import SHORTEST_INTERVAL
from sinkql.planner.item.cost import costs
from sinkql.planner.item.replicate import replicated
from sinkql.planner.name import check_columns, cluster_name
from sinkql.planner.refuse.statement import JOB_OPTIONS, check_view
from sinkql.planner.scope import Scope

PLAIN_NUMERICS = "plain_numerics"
"""The fact of a view from before columns had the scale of what they are computed by: its columns stay as they are."""


def plan_view(full_name: str, statement: ast.CreateView, facts: logical.Facts, scope: Scope) -> logical.View:
    """Plan the query, name its columns. Raises SQ2601 where the column list does not fit."""
    from sinkql.planner.query.plan import plan_query  # sqlglot loads only where there is a query

    check_view(statement)
    scaled = PLAIN_NUMERICS not in facts
    planned = plan_query(statement.query, scope.catalog, listed=bool(statement.columns), scaled=scaled)
    for notice in planned.notices:
        scope.notice(notice)
    relation = replicated(planned.relation, statement.with_options, scope.catalog)
    shape = _named(relation.shape, statement)
    written = [column.span for column in statement.columns]
    spans = written or [statement.query.span] * len(shape.columns)
    check_columns(tuple((column.name, span) for column, span in zip(shape.columns, spans, strict=True)))
    for dependency in planned.dependencies:
        scope.use(dependency)
    scope.notices.extend(dict.fromkeys(costs(relation, statement.query.span, scope.catalog)))
    if not statement.materialized:
        return logical.View(full_name, relation, shape, materialized=False)
    cluster = cluster_name(scope.catalog, statement.cluster, statement.name.span)
    scope.use(cluster)
    options = view_options(statement)
    return logical.View(full_name, relation, shape, True, cluster, options.commit_interval, options.retain_history)


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The options in WITH (…) that make a materialized view a job of its own."""

    commit_interval: timedelta | None = described(
        "the time between two commits of the view, at least one second", default=None
    )
    retain_history: timedelta | None = described("the minimum time to keep changes", default=None)


def own_job(statement: ast.CreateView) -> bool:
    """Tell whether a view's options make it a job of its own."""
    return statement.materialized and any(each.name in JOB_OPTIONS for each in statement.with_options)


def view_options(statement: ast.CreateView) -> ViewOptions:
    """Return the options that make a view a job; raises what `bind` raises, SQ2309."""
    given = tuple(_after_for(each) for each in statement.with_options if each.name in JOB_OPTIONS)
    options = bind(given, ViewOptions, owner="materialized views", span=statement.name.span)
    if options.commit_interval is not None and options.commit_interval < SHORTEST_INTERVAL:
        raise SinkqlError(
            "SQ2309",
            "COMMIT INTERVAL must be at least 1 second",
            option_span(given, "COMMIT INTERVAL", statement.name.span),
            hint="Write COMMIT INTERVAL = '1s' or more.",
        )
    return options


def _after_for(option: ast.Option) -> ast.Option:
    """Return RETAIN HISTORY FOR '1 day' as RETAIN HISTORY = '1 day'."""
    value = option.value
    if isinstance(value, ast.Phrase) and value.words == "FOR" and value.value is not None:
        return replace(option, value=value.value)
    return option


def _named(shape: logical.Shape, statement: ast.CreateView) -> logical.Shape:
    """Return the shape with the names of the view's column list, if there is one."""
    if not statement.columns:
        return shape
    given, found = len(statement.columns), len(shape.columns)
    if given != found:
        from sinkql.planner.query.select import SAME  # as above

        raise SinkqlError(
            "SQ2601",
            f"the view names {_count(given)} but its query returns {found}",
            Span(statement.columns[0].span.start, statement.columns[-1].span.end),
            hint=f"The query's columns are {', '.join(each.name.partition(SAME)[0] for each in shape.columns)}.",
        )
    names = {old.name: new.value for old, new in zip(shape.columns, statement.columns, strict=True)}
    return replace(
        shape,
        columns=tuple(replace(column, name=names[column.name]) for column in shape.columns),
        keys=tuple(frozenset(names[name] for name in key) for key in shape.keys),
    )


def _count(number: int) -> str:
    return f"{number} column" if number == 1 else f"{number} columns"
