"""CREATE [MATERIALIZED] VIEW → the relation that its query means, under the view's own column names.

What a view means → notices of what each change of its inputs costs, where it reads all rows of them.

CREATE INDEX → by which expressions over a materialized view's columns its rows are kept.

WITH (REPLICATE = (…)) of a view → its joins, with what they have whole in every task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Literal

from sinkql import ast, logical
from sinkql.connector_api.options import bind, option_field, option_span, unknown
from sinkql.connector_api.sink_options import SHORTEST_INTERVAL
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.logical import JoinKind
from sinkql.logical.expression import NOWHERE, without_spans
from sinkql.planner.expression.typed_expression import settled
from sinkql.planner.name import (
    check_columns,
    cluster_name,
    missing,
    qualified_name,
    short_name,
    split_name,
    with_article,
)
from sinkql.planner.scope import Scope
from sinkql.planner.subsource import stand_in
from sinkql.planner.unsupported import JOB_OPTIONS, check_view
from sinkql.printer.clause import name as print_name

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

    commit_interval: timedelta | None = option_field(
        "the time between two commits of the view, at least one second", default=None
    )
    retain_history: timedelta | None = option_field("the minimum time to keep changes", default=None)


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


def costs(relation: logical.Relation, query: Span, catalog: logical.CatalogReader) -> Iterator[Notice]:
    """Yield a notice for each join without an equality (SQ2229) and each function of all rows (SQ2239).

    `query` is the place of what has none of its own.
    """
    match relation:
        case logical.Join() if not relation.keys:
            yield from _of_pairs(relation, query, catalog)
        case logical.Window() if not relation.partition:
            function, span = _first(relation.calls, query)
            why = f"{function} is over a window without PARTITION BY"
            hint = "With PARTITION BY, a change reads only the rows of its partition."
            yield from _of_all(relation.input, why, span, hint, catalog)
        case logical.Collect() if not relation.group:
            function, span = _first(relation.calls, query)
            why = f"{function} is over all of them"
            hint = "With GROUP BY, a change reads only the rows of its group."
            yield from _of_all(relation.input, why, span, hint, catalog)
        case logical.Rank(last=None) if not relation.partition:
            why, hint = "OFFSET has no LIMIT", "With LIMIT, a change reads only the first rows."
            yield from _of_all(relation.input, why, query, hint, catalog)
        case _:
            pass
    for below in logical.inputs_of(relation):
        yield from costs(below, query, catalog)


def _of_pairs(join: logical.Join, query: Span, catalog: logical.CatalogReader) -> Iterator[Notice]:
    sides = (join.left, join.right)
    if any(map(logical.one_row, sides)):
        return
    first, other = (_read(side, catalog) for side in sides)
    span = query if join.residual is None else join.residual.span
    hint = "The join has no equality; with one, a change reads only the rows that are equal to it."
    yield Notice("SQ2229", f"each change of {other} reads all of {first}", span, hint=hint)


def _of_all(
    relation: logical.Relation, why: str, span: Span, hint: str, catalog: logical.CatalogReader
) -> Iterator[Notice]:
    if not logical.one_row(relation):
        yield Notice("SQ2239", f"each change of {_read(relation, catalog)} reads all rows: {why}", span, hint=hint)


def _first(calls: Sequence[logical.WindowCall], query: Span) -> tuple[str, Span]:
    """Return the first function whose place is known, and its place."""
    call = next((each for each in calls if each.span != NOWHERE), calls[0])
    called = f"{call.function}({'DISTINCT …' if call.distinct else ''})"
    return called, query if call.span == NOWHERE else call.span


def _read(relation: logical.Relation, catalog: logical.CatalogReader) -> str:
    """Return the names of what a relation reads."""
    return " and ".join(dict.fromkeys(_names(relation, catalog)))


def _names(relation: logical.Relation, catalog: logical.CatalogReader) -> Iterator[str]:
    if isinstance(relation, logical.Get):
        yield f'"{short_name(relation.item, catalog)}"'
    for below in logical.inputs_of(relation):
        yield from _names(below, catalog)


_COLUMN = re.compile(r'[a-z_]\w*|"(?:[^"]|"")*"', re.IGNORECASE)


def plan_index(full_name: str, statement: ast.CreateIndex, scope: Scope) -> logical.Index:
    """Plan the key. Raises SQ2370 where the relation is no materialized view, SQ2371 for another cluster than its."""
    view = _view(statement, scope)
    scope.use(view.name)
    _check_options(statement)
    _check_cluster(statement, view, scope)
    key = _default_key(view) if statement.key is None else tuple(_expression(each, view) for each in statement.key)
    return logical.Index(full_name, view.name, tuple(dict.fromkeys(key)), view.cluster)


def index_name(statement: ast.CreateIndex, catalog: logical.CatalogReader) -> str:
    """Return the full name of an index, which is in the schema of its relation; one of its key where it has none."""
    *around, relation = split_name(catalog.resolve(statement.relation))
    if statement.name is not None:
        return qualified_name(*around, statement.name.value)
    parts = ["primary"] if statement.key is None else [_word(each) for each in statement.key]
    name = "_".join([relation, *parts, "idx"])
    numbered = (qualified_name(*around, f"{name}{number or ''}") for number in count())
    return next(each for each in numbered if not catalog.has(each))


def _word(key: ast.Expression) -> str:
    text = key.text.strip()
    if not _COLUMN.fullmatch(text):
        return "expr"
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


def _view(statement: ast.CreateIndex, scope: Scope) -> logical.View:
    name = statement.relation
    entry = scope.catalog.entry(scope.catalog.resolve(name))
    if entry is None:
        raise missing(scope.catalog, name, "MATERIALIZED VIEW")
    item = scope.catalog.item(entry.name)
    if isinstance(item, logical.View) and item.materialized:
        return item
    raise SinkqlError(
        "SQ2370",
        f'"{name.text}" is {with_article(entry.kind)}: only a materialized view can have an index',
        name.span,
        hint=f"Create the view again with CREATE MATERIALIZED VIEW {print_name(name)} AS …."
        if entry.kind == "VIEW"
        else f"Create a materialized view of {print_name(name)}, and an index on that.",
    )


def _check_options(statement: ast.CreateIndex) -> None:
    for option in statement.with_options:
        if option.name != "RETAIN HISTORY":
            raise unknown(option, ("RETAIN HISTORY",), owner="indexes")
        hint = "Leave it out: RETAIN HISTORY of the materialized view says for how long its changes are kept."
        raise SinkqlError("SQ2974", "RETAIN HISTORY of an index is not supported", option.span, hint=hint)


def _check_cluster(statement: ast.CreateIndex, view: logical.View, scope: Scope) -> None:
    if statement.cluster is None or qualified_name(statement.cluster.value) == view.cluster:
        return
    raise SinkqlError(
        "SQ2371",
        f'the index must be in cluster "{view.cluster}", where its materialized view is',
        statement.cluster.span,
        hint=f"Leave out IN CLUSTER {print_name(ast.Name((statement.cluster,)))}.",
    )


def _default_key(view: logical.View) -> tuple[logical.Expression, ...]:
    columns = view.shape.columns
    unique = min(view.shape.keys, key=len, default=frozenset())
    key = [column for column in columns if column.name in unique] or columns
    return tuple(logical.Reference(column.name, column.type, column.nullable) for column in key)


def _expression(written: ast.Expression, view: logical.View) -> logical.Expression:
    from sinkql.planner.query.scope import Scope as Columns
    from sinkql.planner.query.translate import scalar  # sqlglot loads only where there is an expression

    columns = Columns.of(((split_name(view.name)[-1],),), view.shape.columns)
    return without_spans(settled(scalar(written, None, columns)))


OPTION = "REPLICATE"

_PRESERVED: Mapping[JoinKind, Set[str]] = {
    JoinKind.INNER: frozenset(),
    JoinKind.LEFT: frozenset({"left"}),
    JoinKind.RIGHT: frozenset({"right"}),
    JoinKind.FULL: frozenset({"left", "right"}),
    JoinKind.SEMI: frozenset({"left"}),
    JoinKind.ANTI: frozenset({"left"}),
}
"""The sides whose rows show by what they meet: in every task they would meet a part of it."""


def replicated(
    relation: logical.Relation, options: tuple[ast.Option, ...], catalog: logical.CatalogReader
) -> logical.Relation:
    """Return a view's relation in which sides of joins that read the named relations alone are replicated.

    Raises SQ2103 for what is no list of names, SQ2102, SQ2247 for a name that is no side of a join, SQ2248 for one
    whose rows show without a match too.
    """
    given = [each for each in options if each.name == OPTION]
    if len(given) > 1:
        raise SinkqlError("SQ2102", f"option {OPTION} is given twice", given[1].name_span, hint="Keep one of them.")
    places: dict[str, Span] = {}
    for option in given:
        for name in _replicate_names(option):
            places.setdefault(stand_in(catalog.resolve(name), catalog), name.span)
    if not places:
        return relation
    found = _Replicating(frozenset(places))
    above = found.of(relation)
    for full, place in places.items():
        if full not in found.used:
            raise _unused(short_name(full, catalog), place, found.refused.get(full), _sides(relation, catalog))
    return above


@dataclass(slots=True)
class _Replicating:
    """Rewrite the joins above some relations; relations that are used twice stay one."""

    names: frozenset[str]
    used: set[str] = field(default_factory=set)
    refused: dict[str, JoinKind] = field(default_factory=dict)
    _known: dict[int, tuple[logical.Relation, logical.Relation]] = field(default_factory=dict)

    def of(self, relation: logical.Relation) -> logical.Relation:
        """Return a relation with its joins rewritten."""
        known = self._known.get(id(relation))
        if known is not None:
            return known[1]
        found = logical.with_inputs(relation, [self.of(each) for each in logical.inputs_of(relation)])
        if isinstance(found, logical.Join):
            found = replace(found, replicated=self._side(found))
        self._known[id(relation)] = relation, found
        return found

    def _side(self, join: logical.Join) -> Literal["left", "right"] | None:
        left, right = _reads(join.left), _reads(join.right)
        small = [bool(each) and each <= self.names for each in (left, right)]
        if all(small) or not any(small):
            return None
        side: Literal["left", "right"] = "left" if small[0] else "right"
        if side in _PRESERVED[join.kind]:
            self.refused |= dict.fromkeys(left if small[0] else right, join.kind)
            return None
        self.used |= left if small[0] else right
        return side


def _replicate_names(option: ast.Option) -> Iterator[ast.Name]:
    items = option.value.items if isinstance(option.value, ast.Sequence) else (option.value,)
    for item in items:
        if not isinstance(item, ast.Word):
            place = option.name_span if item is None else item.span
            message = f"option {OPTION} takes a list of names"
            raise SinkqlError("SQ2103", message, place, hint=f"Write names without quotes, as in {OPTION} = (nation).")
        yield item.name


def _reads(relation: logical.Relation) -> frozenset[str]:
    """Return the names of all that a relation reads."""
    if isinstance(relation, logical.Get):
        return frozenset() if relation == logical.ONE else frozenset({relation.item})
    return frozenset(name for below in logical.inputs_of(relation) for name in _reads(below))


def _sides(relation: logical.Relation, catalog: logical.CatalogReader) -> list[str]:
    """Return the short names of what stands alone on a side of a join that may be replicated."""
    found: dict[str, None] = {}
    if isinstance(relation, logical.Join):
        for side, below in (("left", relation.left), ("right", relation.right)):
            if side not in _PRESERVED[relation.kind] and len(_reads(below)) == 1:
                found |= dict.fromkeys(short_name(name, catalog) for name in _reads(below))
    for below in logical.inputs_of(relation):
        found |= dict.fromkeys(_sides(below, catalog))
    return list(found)


def _unused(name: str, place: Span, refused: JoinKind | None, others: list[str]) -> SinkqlError:
    hint = f"Of this view these can be replicated: {', '.join(others)}." if others else f"Leave out {OPTION}."
    if refused is None:
        return SinkqlError("SQ2247", f'"{name}" is not a side of a join of the view', place, hint=hint)
    why = "the join shows its rows without a match, too"
    if refused in (JoinKind.SEMI, JoinKind.ANTI):
        why = "a subquery decides which of its rows show"
    return SinkqlError("SQ2248", f'"{name}" cannot be replicated: {why}', place, hint=hint)
