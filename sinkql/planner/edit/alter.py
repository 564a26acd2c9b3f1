"""ALTER and the catalog → the item's CREATE statement as it is after it; the rest of the catalog follows from that.

Options of a stored statement, and what ALTER sets and resets of them → its options after that.

ALTER SINK … PUBLISH and the catalog → the sink whose branch it means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sinkql import ast, logical
from sinkql.connector_api.options import Tuning, option_labels, unknown
from sinkql.connector_api.planning import ConnectionKind
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.source_options import LOG_FACT
from sinkql.connector_api.types import kept_type
from sinkql.errors import MissingError, Notice, SinkqlError, Span, nearest
from sinkql.keywords import Keywords
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.edit.rename import find_altered
from sinkql.planner.item.connection import ClusterOptions
from sinkql.planner.item.sink_rules import exported_relation
from sinkql.planner.item.statement import plan
from sinkql.planner.item.view import OPTION as REPLICATE
from sinkql.planner.item.view import view_options
from sinkql.planner.name import BUILT_IN_CLUSTER, cluster_name, qualified_name, short_name, sql_name, with_article
from sinkql.planner.scope import Scope
from sinkql.planner.unsupported import JOB_OPTIONS, no_keys, unsupported_alter
from sinkql.printer.clause import name as print_name


@dataclass(frozen=True, slots=True)
class Altering:
    """What ALTER makes of an item: its full name, and the statement with full names that takes its place.

    None where IF EXISTS found none. `follows` tells that the item's rows come from another relation than before.
    """

    name: str
    statement: ast.Create | None = None
    facts: logical.Facts | None = None
    notices: tuple[Notice, ...] = ()
    follows: bool = False

    @property
    def changes(self) -> Mapping[str, tuple[ast.Create, logical.Facts]]:
        """Return the change as catalogs take it."""
        return {self.name: (self.statement, self.facts or {})} if self.statement is not None else {}


def plan_alter(statement: ast.Alter, catalog: logical.CatalogReader, registry: Registry) -> Altering:
    """Return what the item becomes. Pure; errors point into the text of ALTER.

    Raises SQ2001, SQ2003, SQ2007, SQ2313 for the name; SQ2340, SQ2341, SQ2433, SQ2540, SQ298… for what cannot change,
    SQ2008 for a column that is there; and all that planning the new statement raises. That its dependents still plan,
    `update` of the catalog finds out.
    """
    full_name = _full_name(statement, catalog)
    entry = catalog.entry(full_name)
    if entry is None:
        if statement.if_exists:
            message = f'{statement.kind.lower()} "{statement.name.text}" does not exist, skipped'
            return Altering(full_name, notices=(Notice("SQ2010", message, statement.name.span),))
        raise _missing(statement, full_name, catalog)
    _check(statement, entry)
    there = _there(statement, entry)
    if there is not None:
        return Altering(full_name, notices=(there,))
    after = _after(statement, entry, catalog, registry)
    notices = _planned(after, entry, catalog, registry)
    follows = isinstance(statement.action, ast.SetFrom)
    return Altering(full_name, qualify(after, catalog), entry.facts, notices, follows)


def _full_name(statement: ast.Alter, catalog: logical.CatalogReader) -> str:
    if statement.kind == "CLUSTER":
        return qualified_name(statement.name.parts[-1].value)
    return catalog.resolve(statement.name)


def _missing(statement: ast.Alter, full_name: str, catalog: logical.CatalogReader) -> MissingError:
    kind, name = statement.kind, statement.name
    near = nearest(short_name(full_name), [short_name(each) for each in catalog.names(kind)])
    return MissingError(
        "SQ2313" if kind == "CLUSTER" else "SQ2001",
        f'{kind.lower()} "{name.text}" does not exist',
        name.span,
        name=name.parts[-1].value,
        hint=f'Did you mean "{near}"?'
        if near
        else f"Write ALTER {kind} IF EXISTS {print_name(name)} to go on without it.",
    )


def _check(statement: ast.Alter, entry: logical.Entry) -> None:
    name = statement.name
    if entry.kind != statement.kind:
        raise SinkqlError(
            "SQ2003",
            f'"{name.text}" is {with_article(entry.kind)}, not {with_article(statement.kind)}',
            name.span,
            hint=f"Write ALTER {entry.kind} {print_name(name)}.",
        )
    if entry.name == BUILT_IN_CLUSTER:
        raise SinkqlError(
            "SQ2007",
            f'cluster "{name.text}" is built in',
            name.span,
            hint="Run CREATE CLUSTER with a name of its own, and ALTER SINK … SET CLUSTER.",
        )


def _after(
    statement: ast.Alter, entry: logical.Entry, catalog: logical.CatalogReader, registry: Registry
) -> ast.Create:
    """Return the item's statement as ALTER makes it, with the spans of ALTER's text."""
    present, action = entry.statement, statement.action
    match present, action:
        case ast.CreateSecret(), ast.SetSecret():
            return replace(respan(present, statement.name.span), value=action.value)
        case ast.CreateConnection(), ast.ChangeConnection():
            return changed_connection(present, action, registry.connections[present.kind])
        case ast.CreateCluster(), ast.SetOptions(wait=()) | ast.ResetOptions():
            set_ = any(option.name == "STATE" for option in present.options)
            options = changed_options(
                present.options, action, known=option_labels(ClusterOptions), owner="clusters",
                refused=("STATE",) if set_ else (), refusal=_left_behind,
            )  # fmt: skip
            return replace(respan(present, action.span), options=options)
        case ast.CreateSink(), ast.SetOptions() | ast.ResetOptions():
            kind = registry.sinks[present.kind]
            options = changed_options(
                present.with_options, action, known=option_labels(kind.with_options), owner=kind.owner,
                refused=kind.fixed,
                refusal=lambda name, span: _fixed(entry, name, span, anew=name in kind.anew),
            )  # fmt: skip
            return replace(respan(present, action.span), with_options=options)
        case (
            (ast.CreateSource() | ast.CreateTableFrom(source=None)),
            (ast.SetOptions(wait=()) | ast.ResetOptions()),
        ) if (tuning := _tuning(present, registry)) is not None:
            options = changed_options(
                present.with_options, action, known=option_labels(tuning), owner=f"sources from {present.kind}",
                refused=tuning.fixed, refusal=lambda name, span: _fixed(entry, name, span, anew=False),
            )  # fmt: skip
            return replace(respan(present, action.span), with_options=options)
        case ast.CreateSink(), ast.SetFrom():
            return _from(present, action, entry, Scope(catalog, registry))
        case ast.CreateSink() | ast.CreateSource(), ast.SetCluster():
            if isinstance(present, ast.CreateSink) or LOG_FACT in entry.facts:
                _check_state(present, cluster_name(catalog, action.cluster, action.span), action.span, catalog)
            return replace(respan(present, action.span), cluster=action.cluster)
        case ast.CreateView(materialized=True), ast.SetCluster():
            cluster = cluster_name(catalog, action.cluster, action.span)
            if "view_id" in entry.facts:
                _check_state(present, cluster, action.span, catalog)
            return replace(present, cluster=action.cluster)
        case ast.CreateView(materialized=True), ast.SetOptions(wait=()) | ast.ResetOptions():
            options = changed_options(
                present.with_options, action, known=(*JOB_OPTIONS, REPLICATE), owner="materialized views",
                refused=(REPLICATE,), refusal=_only_replaced,
            )  # fmt: skip
            return replace(present, with_options=options)
        case ast.CreateTable(), ast.AddColumn():
            return _added(present, action)
        case _:
            raise unsupported_alter(statement)


def _left_behind(name: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ2617",
        f"option {name} cannot change: the state of the cluster's sinks would be left behind",
        span,
        hint="Create another cluster with the other STATE, for other sinks.",
    )


def _check_state(
    present: ast.CreateSink | ast.CreateView | ast.CreateSource,
    cluster: str,
    span: Span,
    catalog: logical.CatalogReader,
) -> None:
    """Refuse a cluster that has not the STATE of the one that a job is in; from the catalog's folder it may go."""
    if present.cluster is None:
        return
    what = {ast.CreateSink: "sink", ast.CreateSource: "source"}.get(type(present), "view")
    old, new = catalog.item(cluster_name(catalog, present.cluster, span)), catalog.item(cluster)
    assert isinstance(old, logical.Cluster)
    assert isinstance(new, logical.Cluster)
    if old.state is None or (new.state is not None and new.state.path == old.state.path):
        return
    raise SinkqlError(
        "SQ2617",
        f'cluster "{short_name(cluster)}" does not keep state in "{old.state.path}", where the {what} keeps its own',
        span,
        hint=f"Set the {what} to a cluster with STATE = '{old.state.path}'.",
    )


def _tuning(present: ast.CreateSource | ast.CreateTableFrom, registry: Registry) -> type[Tuning] | None:
    """Return a source's options in WITH (…), where they say how it is read, and not which rows it has."""
    options = registry.sources[present.kind].with_options
    return options if options is not None and issubclass(options, Tuning) else None


def _there(statement: ast.Alter, entry: logical.Entry) -> Notice | None:
    """Return the notice for a column that is there already; raises SQ2008 without IF NOT EXISTS."""
    action, present = statement.action, entry.statement
    if not isinstance(action, ast.AddColumn) or not isinstance(present, ast.CreateTable):
        return None
    name = action.column.name
    if all(each.name.value != name.value for each in present.columns):
        return None
    message = f'column "{name.value}" of table "{short_name(entry.name)}" already exists'
    if action.if_not_exists:
        return Notice("SQ2012", f"{message}, skipped", name.span)
    hint = "Give the column another name, or write ADD COLUMN IF NOT EXISTS."
    raise SinkqlError("SQ2008", message, name.span, hint=hint)


def _added(present: ast.CreateTable, action: ast.AddColumn) -> ast.CreateTable:
    """Put a column behind a table's others; raises SQ2433 for one that rows which are there could not have."""
    column = action.column
    if column.not_null:
        raise _needs_value(column, "NOT NULL", column.name.span, "Leave out NOT NULL")
    for each in column.constraints:
        if each.kind == "NULL":
            continue
        way = "UPDATE the rows after it" if each.kind == "DEFAULT" else "create another table for it"
        raise _needs_value(column, each.kind, each.span, f"Leave out {each.kind}; {way}")
    there = tuple(respan(each, column.name.span) for each in present.columns)
    return replace(respan(present, action.span), columns=(*there, column))


def _needs_value(column: ast.ColumnDef, what: str, span: Span, way: str) -> SinkqlError:
    return SinkqlError(
        "SQ2433", f'column "{column.name.value}" cannot be added with {what}: rows that are there have NULL in it',
        span, hint=f"{way}.",
    )  # fmt: skip


def _planned(
    after: ast.Create, entry: logical.Entry, catalog: logical.CatalogReader, registry: Registry
) -> tuple[Notice, ...]:
    if isinstance(after, ast.CreateView):
        view_options(after)
        return ()  # its query did not change
    return plan(after, entry.facts, _Without(catalog, entry.name), registry).notices


def _fixed(entry: logical.Entry, name: str, span: Span, *, anew: bool) -> SinkqlError:
    again = f"Run DROP {entry.kind} {sql_name(entry.name)}; and create it again"
    if entry.kind == "SINK" and not anew:
        again += ", into a new table"
    return SinkqlError(
        "SQ2340",
        f"option {name} cannot change after the {entry.kind.lower()} is created",
        span,
        hint=f"{again}.",
    )


def _only_replaced(name: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ2340",
        f"option {name} of a materialized view changes what is kept for it",
        span,
        hint=f"Run CREATE OR REPLACE MATERIALIZED VIEW … WITH ({name} = …): its rows are computed again.",
    )


def _from(present: ast.CreateSink, action: ast.SetFrom, entry: logical.Entry, scope: Scope) -> ast.CreateSink:
    """Let a sink read another relation, an append sink one of the same columns; SQ2341, SQ2982 where it cannot."""
    after = replace(respan(present, action.span), relation=action.relation)
    relation, shape = exported_relation(after, scope)
    if present.mode is not None and present.mode.mode == "upsert":
        return after  # its rows can be computed again
    before = scope.catalog.item(entry.name)
    if isinstance(before, logical.Sink) and _columns(shape) != _columns(before.shape):
        raise SinkqlError(
            "SQ2341",
            f'the columns of "{action.relation.text}" differ from those of the table that the sink writes',
            action.relation.span,
            detail=f"it has {_listed(shape)}; the table has {_listed(before.shape)}",
            hint="Make a materialized view with the table's columns, and set the sink from that.",
        )
    if _stateful(relation, scope.catalog):
        raise SinkqlError(
            "SQ2982",
            "SET FROM a relation that groups or joins rows is not supported yet",
            action.relation.span,
            hint="Create another sink, into a new table, from the new relation.",
        )
    return after


def _columns(shape: logical.Shape) -> list[tuple[str, str]]:
    return [(column.name, kept_type(column.type)) for column in shape.columns]


def _listed(shape: logical.Shape) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in shape.columns)


def _stateful(name: str, catalog: logical.CatalogReader) -> bool:
    item = catalog.item(name)
    return isinstance(item, logical.View) and _keeps(item.relation, catalog)


def _keeps(relation: logical.Relation, catalog: logical.CatalogReader) -> bool:
    """Tell whether some of a relation's rows depend on rows from before."""
    if isinstance(relation, logical.Get):
        return _stateful(relation.item, catalog)
    return not logical.row_by_row(relation) or any(_keeps(each, catalog) for each in logical.inputs_of(relation))


@dataclass(frozen=True, slots=True)
class _Without:
    """Read a catalog as if one item were not there; see `logical.CatalogReader`."""

    whole: logical.CatalogReader
    name: str

    def resolve(self, name: ast.Name) -> str:
        return self.whole.resolve(name)

    def locate(self, name: ast.Name) -> str:
        return self.whole.locate(name)

    def has(self, full_name: str) -> bool:
        return full_name != self.name and self.whole.has(full_name)

    def entry(self, full_name: str) -> logical.Entry | None:
        return None if full_name == self.name else self.whole.entry(full_name)

    def item(self, full_name: str) -> logical.Item | None:
        return None if full_name == self.name else self.whole.item(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(name for name in self.whole.names(kind) if name != self.name)

    def dependents(self, full_name: str) -> tuple[str, ...]:
        return tuple(name for name in self.whole.dependents(full_name) if name != self.name)

    def setting(self, name: str) -> str:
        return self.whole.setting(name)

    @property
    def words(self) -> Keywords:
        return self.whole.words


T = TypeVar("T")
Refusal = Callable[[str, Span], SinkqlError]


def respan(node: T, span: Span) -> T:
    """Return a part of a statement with another span, also in all that it is made of."""
    found: object = node
    if isinstance(node, tuple):
        found = tuple(respan(each, span) for each in node)
    elif isinstance(node, Span):
        found = span
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = (field.name for field in dataclasses.fields(node) if field.init)
        changed = {name: respan(getattr(node, name), span) for name in parts}
        found = dataclasses.replace(node, **changed)
    return found  # type: ignore[return-value]  # of the same type as the node


def changed_options(
    present: tuple[ast.Option, ...],
    action: ast.SetOptions | ast.ResetOptions,
    *,
    known: Sequence[str],
    owner: str,
    refused: Sequence[str] = (),
    refusal: Refusal | None = None,
) -> tuple[ast.Option, ...]:
    """Return the options after SET or RESET, each in its place; those that stay have the span of ALTER.

    `known` are the names there are, `owner` says what has them; `refusal` is the error for one of `refused`. Raises
    SQ2101 (unknown), SQ2102 (twice).
    """
    match action:
        case ast.SetOptions():
            given = {option.name: option for option in action.options}
            names = [(option.name, option.name_span) for option in action.options]
        case ast.ResetOptions():
            given = {}
            names = [(each.name, each.span) for each in action.names]
    seen = set()
    for name, span in names:
        if name not in known:
            raise unknown(ast.Option(name, None, span, span), known, owner=owner)
        if name in seen:
            raise SinkqlError("SQ2102", f"option {name} is given twice", span, hint="Keep one of them.")
        seen.add(name)
        same = name in given and any(option == given[name] for option in present)
        if name in refused and not same and refusal is not None:
            raise refusal(name, span)
    stay = {
        option.name: respan(option, action.span)
        for option in present
        if option.name in given or option.name not in seen
    }
    return tuple((stay | given).values())


def changed_connection(
    present: ast.CreateConnection, change: ast.ChangeConnection, kind: ConnectionKind
) -> ast.CreateConnection:
    """Return a connection's statement after all that ALTER CONNECTION does, one after the other.

    Raises SQ2540 for an option that decides which system is reached, and as `changed_options` does.
    """
    options = present.options
    for action in change.actions:
        if isinstance(action, ast.RotateKeys):
            if kind.keys is None:
                raise no_keys(action)
            continue
        options = changed_options(
            options, action, known=option_labels(kind.options), owner=kind.owner, refused=kind.fixed, refusal=_elsewhere
        )
    return dataclasses.replace(respan(present, change.span), options=options)


def _elsewhere(name: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ2540",
        f"option {name} cannot change after the connection is created",
        span,
        hint="Run CREATE CONNECTION with another name, and create the sinks again with that one.",
    )


def find_published(
    statement: ast.Alter, catalog: logical.CatalogReader
) -> tuple[logical.Sink | None, tuple[Notice, ...]]:
    """Return the sink, or a notice if there is none and need not be.

    Raises what finding an item to alter does, and SQ2347 for a sink without a branch.
    """
    entry, notices = find_altered(statement, catalog)
    if entry is None:
        return None, notices
    sink = catalog.item(entry.name)
    assert isinstance(sink, logical.Sink)
    if sink.destination is None or sink.destination.branch is None:
        raise SinkqlError(
            "SQ2347",
            f'sink "{statement.name.text}" has no branch to publish',
            statement.name.span,
            detail="What it commits can be read at once.",
            hint="Create a sink WITH (BRANCH = '…') for rows that are to be looked at before they are published.",
        )
    return sink, notices
