"""Plan CREATE [MATERIALIZED] VIEW as the relation of its query, under the view's column names.

Also warns about views where each change reads all rows of an input, plans CREATE INDEX, and applies the REPLICATE
option to the joins of a view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Literal

from sinkql import ast, logical
from sinkql.connector_api.options import bind, option_field, option_span, unknown_option_error
from sinkql.connector_api.sink_options import check_interval
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
"""The fact of a view created before columns had the scale of their inputs; its columns stay plain numerics."""


def plan_view(full_name: str, statement: ast.CreateView, facts: logical.Facts, scope: Scope) -> logical.View:
    """Plan the query and name its columns; raise SQ2601 if the column list does not match."""
    from sinkql.planner.query.plan import plan_query  # deferred: imports sqlglot

    check_view(statement)
    scaled = PLAIN_NUMERICS not in facts
    planned = plan_query(statement.query, scope.catalog, listed=bool(statement.columns), scaled=scaled)
    for notice in planned.notices:
        scope.notice(notice)
    relation = replicated(planned.relation, statement.with_options, scope.catalog)
    shape = _rename_columns(relation.shape, statement)
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
    """The options in WITH (…) that create a materialized view job."""

    commit_interval: timedelta | None = option_field(
        "the time between two commits of the view, at least 100 milliseconds", default=None
    )
    retain_history: timedelta | None = option_field("the minimum time to keep changes", default=None)


def has_own_job(statement: ast.CreateView) -> bool:
    """Return whether a view's options create a materialized view job."""
    return statement.materialized and any(option.name in JOB_OPTIONS for option in statement.with_options)


def view_options(statement: ast.CreateView) -> ViewOptions:
    """Return the options that create a materialized view job; raise SQ2309, and errors of `bind`."""
    job_options = tuple(_normalize_for(option) for option in statement.with_options if option.name in JOB_OPTIONS)
    options = bind(job_options, ViewOptions, owner="materialized views", span=statement.name.span)
    if options.commit_interval is not None:
        check_interval(options.commit_interval, option_span(job_options, "COMMIT INTERVAL", statement.name.span))
    return options


def _normalize_for(option: ast.Option) -> ast.Option:
    """Return RETAIN HISTORY FOR '1 day' as RETAIN HISTORY = '1 day'."""
    value = option.value
    if isinstance(value, ast.Phrase) and value.words == "FOR" and value.value is not None:
        return replace(option, value=value.value)
    return option


def _rename_columns(shape: logical.Shape, statement: ast.CreateView) -> logical.Shape:
    """Return the shape with the names of the view's column list, if it has one."""
    if not statement.columns:
        return shape
    named, returned = len(statement.columns), len(shape.columns)
    if named != returned:
        from sinkql.planner.query.select import SAME  # deferred: imports sqlglot

        raise SinkqlError(
            "SQ2601",
            f"the view names {_count(named)} but its query returns {returned}",
            Span(statement.columns[0].span.start, statement.columns[-1].span.end),
            hint=f"The query's columns are {', '.join(column.name.partition(SAME)[0] for column in shape.columns)}.",
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
    """Yield a notice for each join without an equality (SQ2229) and each function over all rows (SQ2239).

    `query` is the span of relations without a span.
    """
    match relation:
        case logical.Join() if not relation.keys:
            yield from _pairs_notice(relation, query, catalog)
        case logical.Window() if not relation.partition:
            function, span = _first_call(relation.calls, query)
            why = f"{function} is over a window without PARTITION BY"
            hint = "With PARTITION BY, a change reads only the rows of its partition."
            yield from _all_rows_notice(relation.input, why, span, hint, catalog)
        case logical.Collect() if not relation.group:
            function, span = _first_call(relation.calls, query)
            why = f"{function} is over all of them"
            hint = "With GROUP BY, a change reads only the rows of its group."
            yield from _all_rows_notice(relation.input, why, span, hint, catalog)
        case logical.Rank(last=None) if not relation.partition:
            why, hint = "OFFSET has no LIMIT", "With LIMIT, a change reads only the first rows."
            yield from _all_rows_notice(relation.input, why, query, hint, catalog)
        case _:
            pass
    for below in logical.inputs_of(relation):
        yield from costs(below, query, catalog)


def _pairs_notice(join: logical.Join, query: Span, catalog: logical.CatalogReader) -> Iterator[Notice]:
    sides = (join.left, join.right)
    if any(map(logical.one_row, sides)):
        return
    first, other = (_names_text(side, catalog) for side in sides)
    span = query if join.residual is None else join.residual.span
    hint = "The join has no equality; with one, a change reads only the matching rows."
    yield Notice("SQ2229", f"each change of {other} reads all of {first}", span, hint=hint)


def _all_rows_notice(
    relation: logical.Relation, why: str, span: Span, hint: str, catalog: logical.CatalogReader
) -> Iterator[Notice]:
    if not logical.one_row(relation):
        yield Notice(
            "SQ2239", f"each change of {_names_text(relation, catalog)} reads all rows: {why}", span, hint=hint
        )


def _first_call(calls: Sequence[logical.WindowCall], query: Span) -> tuple[str, Span]:
    """Return the first function with a known span, and its span."""
    call = next((call for call in calls if call.span != NOWHERE), calls[0])
    text = f"{call.function}({'DISTINCT …' if call.distinct else ''})"
    return text, query if call.span == NOWHERE else call.span


def _names_text(relation: logical.Relation, catalog: logical.CatalogReader) -> str:
    """Return the names of the items that a relation reads."""
    return " and ".join(dict.fromkeys(_item_names(relation, catalog)))


def _item_names(relation: logical.Relation, catalog: logical.CatalogReader) -> Iterator[str]:
    if isinstance(relation, logical.Get):
        yield f'"{short_name(relation.item, catalog)}"'
    for below in logical.inputs_of(relation):
        yield from _item_names(below, catalog)


_COLUMN = re.compile(r'[a-z_]\w*|"(?:[^"]|"")*"', re.IGNORECASE)


def plan_index(full_name: str, statement: ast.CreateIndex, scope: Scope) -> logical.Index:
    """Plan the key; raise SQ2370 unless the relation is a materialized view, SQ2371 for a different cluster."""
    view = _view(statement, scope)
    scope.use(view.name)
    _check_options(statement)
    _check_cluster(statement, view, scope)
    key = _default_key(view) if statement.key is None else tuple(_expression(part, view) for part in statement.key)
    return logical.Index(full_name, view.name, tuple(dict.fromkeys(key)), view.cluster)


def index_name(statement: ast.CreateIndex, catalog: logical.CatalogReader) -> str:
    """Return the full name of an index, in the schema of its relation; the default name comes from its key."""
    *around, relation = split_name(catalog.resolve(statement.relation))
    if statement.name is not None:
        return qualified_name(*around, statement.name.value)
    parts = ["primary"] if statement.key is None else [_key_word(part) for part in statement.key]
    name = "_".join([relation, *parts, "idx"])
    numbered = (qualified_name(*around, f"{name}{number or ''}") for number in count())
    return next(name for name in numbered if not catalog.has(name))


def _key_word(key: ast.Expression) -> str:
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
            raise unknown_option_error(option, ("RETAIN HISTORY",), owner="indexes")
        hint = "Leave it out: RETAIN HISTORY of the materialized view sets how long its changes are retained."
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
    from sinkql.planner.query.translate import scalar  # deferred: imports sqlglot

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
"""The sides whose rows may appear without a match: as copies in every task, they would meet only a part."""


def replicated(
    relation: logical.Relation, options: tuple[ast.Option, ...], catalog: logical.CatalogReader
) -> logical.Relation:
    """Return a view's relation with replicated join sides, which read only the named relations.

    Raises SQ2103 for a value that is no list of names, SQ2102, SQ2247 for a name that is not a side of a join, SQ2248
    for a side whose rows appear without a match.
    """
    replicate_options = [option for option in options if option.name == OPTION]
    if len(replicate_options) > 1:
        raise SinkqlError(
            "SQ2102", f"option {OPTION} is given twice", replicate_options[1].name_span, hint="Keep one of them."
        )
    places: dict[str, Span] = {}
    for option in replicate_options:
        for name in _replicate_names(option):
            places.setdefault(stand_in(catalog.resolve(name), catalog), name.span)
    if not places:
        return relation
    replication = _Replicating(frozenset(places))
    above = replication.of(relation)
    for full, span in places.items():
        if full not in replication.used:
            raise _replicate_error(
                short_name(full, catalog), span, replication.refused.get(full), _sides(relation, catalog)
            )
    return above


@dataclass(slots=True)
class _Replicating:
    """The rewrite of the joins above some relations; a relation that is used twice is rewritten once."""

    names: frozenset[str]
    used: set[str] = field(default_factory=set)
    refused: dict[str, JoinKind] = field(default_factory=dict)
    _cache: dict[int, tuple[logical.Relation, logical.Relation]] = field(default_factory=dict)

    def of(self, relation: logical.Relation) -> logical.Relation:
        """Return a relation with its joins rewritten."""
        cached = self._cache.get(id(relation))
        if cached is not None:
            return cached[1]
        rewritten = logical.with_inputs(relation, [self.of(input_) for input_ in logical.inputs_of(relation)])
        if isinstance(rewritten, logical.Join):
            rewritten = replace(rewritten, replicated=self._side(rewritten))
        self._cache[id(relation)] = relation, rewritten
        return rewritten

    def _side(self, join: logical.Join) -> Literal["left", "right"] | None:
        left, right = _reads(join.left), _reads(join.right)
        small = [bool(side) and side <= self.names for side in (left, right)]
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
            span = option.name_span if item is None else item.span
            message = f"option {OPTION} takes a list of names"
            raise SinkqlError("SQ2103", message, span, hint=f"Write names without quotes, as in {OPTION} = (nation).")
        yield item.name


def _reads(relation: logical.Relation) -> frozenset[str]:
    """Return the names of the items that a relation reads."""
    if isinstance(relation, logical.Get):
        return frozenset() if relation == logical.ONE else frozenset({relation.item})
    return frozenset(name for below in logical.inputs_of(relation) for name in _reads(below))


def _sides(relation: logical.Relation, catalog: logical.CatalogReader) -> list[str]:
    """Return the short names of single items on a side of a join that may be replicated."""
    names: dict[str, None] = {}
    if isinstance(relation, logical.Join):
        for side, below in (("left", relation.left), ("right", relation.right)):
            if side not in _PRESERVED[relation.kind] and len(_reads(below)) == 1:
                names |= dict.fromkeys(short_name(name, catalog) for name in _reads(below))
    for below in logical.inputs_of(relation):
        names |= dict.fromkeys(_sides(below, catalog))
    return list(names)


def _replicate_error(name: str, span: Span, refused: JoinKind | None, others: list[str]) -> SinkqlError:
    hint = f"This view can replicate {', '.join(others)}." if others else f"Leave out {OPTION}."
    if refused is None:
        return SinkqlError("SQ2247", f'"{name}" is not a side of a join of the view', span, hint=hint)
    why = "the join returns its rows even without a match"
    if refused in (JoinKind.SEMI, JoinKind.ANTI):
        why = "a subquery filters its rows"
    return SinkqlError("SQ2248", f'"{name}" cannot be replicated: {why}', span, hint=hint)
