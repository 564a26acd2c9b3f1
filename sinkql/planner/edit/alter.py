"""Plan ALTER as the item's new CREATE statement; the rest of the catalog follows from it.

Also computes the options of a statement after SET and RESET, and finds the sink of ALTER SINK … PUBLISH.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sinkql import ast, logical
from sinkql.connector_api.options import Tuning, option_labels, unknown_option_error
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
    """The result of ALTER: the item's full name, and its new statement with full names.

    The statement is None if IF EXISTS found no item. `follows` says that the item's rows come from another relation
    than before.
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
    """Return the altered item. Pure; errors have spans in the text of ALTER.

    Raises SQ2001, SQ2003, SQ2007, SQ2313 for the name; SQ2340, SQ2341, SQ2433, SQ2540, SQ298… for changes that are not
    possible; SQ2008 for an existing column; and all errors of planning the new statement. The catalog's `update` checks
    that the dependents still plan.
    """
    full_name = _full_name(statement, catalog)
    entry = catalog.entry(full_name)
    if entry is None:
        if statement.if_exists:
            message = f'{statement.kind.lower()} "{statement.name.text}" does not exist, skipped'
            return Altering(full_name, notices=(Notice("SQ2010", message, statement.name.span),))
        raise _missing_error(statement, full_name, catalog)
    _check(statement, entry)
    notice = _existing_column(statement, entry)
    if notice is not None:
        return Altering(full_name, notices=(notice,))
    after = _altered_statement(statement, entry, catalog, registry)
    notices = _plan_altered(after, entry, catalog, registry)
    follows = isinstance(statement.action, ast.SetFrom)
    return Altering(full_name, qualify(after, catalog), entry.facts, notices, follows)


def _full_name(statement: ast.Alter, catalog: logical.CatalogReader) -> str:
    if statement.kind == "CLUSTER":
        return qualified_name(statement.name.parts[-1].value)
    return catalog.resolve(statement.name)


def _missing_error(statement: ast.Alter, full_name: str, catalog: logical.CatalogReader) -> MissingError:
    kind, name = statement.kind, statement.name
    match = nearest(short_name(full_name), [short_name(name) for name in catalog.names(kind)])
    return MissingError(
        "SQ2313" if kind == "CLUSTER" else "SQ2001",
        f'{kind.lower()} "{name.text}" does not exist',
        name.span,
        name=name.parts[-1].value,
        hint=f'Did you mean "{match}"?'
        if match
        else f"Write ALTER {kind} IF EXISTS {print_name(name)} to skip a missing item.",
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
            hint="Run CREATE CLUSTER with another name, and ALTER SINK … SET CLUSTER.",
        )


def _altered_statement(
    statement: ast.Alter, entry: logical.Entry, catalog: logical.CatalogReader, registry: Registry
) -> ast.Create:
    """Return the item's new statement, with the spans of ALTER's text."""
    present, action = entry.statement, statement.action
    match present, action:
        case ast.CreateSecret(), ast.SetSecret():
            return replace(respan(present, statement.name.span), value=action.value)
        case ast.CreateConnection(), ast.ChangeConnection():
            return changed_connection(present, action, registry.connections[present.kind])
        case ast.CreateCluster(), ast.SetOptions(wait=()) | ast.ResetOptions():
            has_state = any(option.name == "STATE" for option in present.options)
            options = changed_options(
                present.options, action, labels=option_labels(ClusterOptions), owner="clusters",
                refused=("STATE",) if has_state else (), refusal=_state_error,
            )  # fmt: skip
            return replace(respan(present, action.span), options=options)
        case ast.CreateSink(), ast.SetOptions() | ast.ResetOptions():
            kind = registry.sinks[present.kind]
            options = changed_options(
                present.with_options, action, labels=option_labels(kind.with_options), owner=kind.owner,
                refused=kind.fixed,
                refusal=lambda name, span: _fixed_option_error(entry, name, span, anew=name in kind.recreatable),
            )  # fmt: skip
            return replace(respan(present, action.span), with_options=options)
        case (
            (ast.CreateSource() | ast.CreateTableFrom(source=None)),
            (ast.SetOptions(wait=()) | ast.ResetOptions()),
        ) if (tuning := _tuning(present, registry)) is not None:
            options = changed_options(
                present.with_options, action, labels=option_labels(tuning), owner=f"sources from {present.kind}",
                refused=tuning.fixed, refusal=lambda name, span: _fixed_option_error(entry, name, span, anew=False),
            )  # fmt: skip
            return replace(respan(present, action.span), with_options=options)
        case ast.CreateSink(), ast.SetFrom():
            return _set_from(present, action, entry, Scope(catalog, registry))
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
                present.with_options, action, labels=(*JOB_OPTIONS, REPLICATE), owner="materialized views",
                refused=(REPLICATE,), refusal=_replace_only_error,
            )  # fmt: skip
            return replace(present, with_options=options)
        case ast.CreateTable(), ast.AddColumn():
            return _with_column(present, action)
        case _:
            raise unsupported_alter(statement)


def _state_error(name: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ2617",
        f"option {name} cannot change: the cluster's sinks would lose their state",
        span,
        hint="Create another cluster with the new STATE, for other sinks.",
    )


def _check_state(
    present: ast.CreateSink | ast.CreateView | ast.CreateSource,
    cluster: str,
    span: Span,
    catalog: logical.CatalogReader,
) -> None:
    """Raise SQ2617 for a cluster without access to a job's state; a job without STATE may move to any cluster."""
    if present.cluster is None:
        return
    what = {ast.CreateSink: "sink", ast.CreateSource: "source"}.get(type(present), "view")
    old = logical.get_item(catalog, cluster_name(catalog, present.cluster, span), logical.Cluster)
    new = logical.get_item(catalog, cluster, logical.Cluster)
    if old.state is None or (new.state is not None and new.state.path == old.state.path):
        return
    raise SinkqlError(
        "SQ2617",
        f'cluster "{short_name(cluster)}" does not store state in "{old.state.path}", where the {what} has its state',
        span,
        hint=f"Set the {what} to a cluster with STATE = '{old.state.path}'.",
    )


def _tuning(present: ast.CreateSource | ast.CreateTableFrom, registry: Registry) -> type[Tuning] | None:
    """Return the type of a source's options in WITH (…) if they only tune reading and do not change the rows."""
    options = registry.sources[present.kind].with_options
    return options if options is not None and issubclass(options, Tuning) else None


def _existing_column(statement: ast.Alter, entry: logical.Entry) -> Notice | None:
    """Return the notice for a column that exists already; raise SQ2008 without IF NOT EXISTS."""
    action, present = statement.action, entry.statement
    if not isinstance(action, ast.AddColumn) or not isinstance(present, ast.CreateTable):
        return None
    name = action.column.name
    if all(column.name.value != name.value for column in present.columns):
        return None
    message = f'column "{name.value}" of table "{short_name(entry.name)}" already exists'
    if action.if_not_exists:
        return Notice("SQ2012", f"{message}, skipped", name.span)
    hint = "Give the column another name, or write ADD COLUMN IF NOT EXISTS."
    raise SinkqlError("SQ2008", message, name.span, hint=hint)


def _with_column(present: ast.CreateTable, action: ast.AddColumn) -> ast.CreateTable:
    """Add a column at the end of a table; raise SQ2433 for a column that needs a value in existing rows."""
    column = action.column
    if column.not_null:
        raise _needs_value(column, "NOT NULL", column.name.span, "Leave out NOT NULL")
    for constraint in column.constraints:
        if constraint.kind == "NULL":
            continue
        way = "UPDATE the rows after it" if constraint.kind == "DEFAULT" else "create another table for it"
        raise _needs_value(column, constraint.kind, constraint.span, f"Leave out {constraint.kind}; {way}")
    columns = tuple(respan(present_column, column.name.span) for present_column in present.columns)
    return replace(respan(present, action.span), columns=(*columns, column))


def _needs_value(column: ast.ColumnDef, what: str, span: Span, way: str) -> SinkqlError:
    return SinkqlError(
        "SQ2433", f'column "{column.name.value}" cannot be added with {what}: existing rows have NULL in it',
        span, hint=f"{way}.",
    )  # fmt: skip


def _plan_altered(
    after: ast.Create, entry: logical.Entry, catalog: logical.CatalogReader, registry: Registry
) -> tuple[Notice, ...]:
    if isinstance(after, ast.CreateView):
        view_options(after)
        return ()  # the query is unchanged
    return plan(after, entry.facts, _CatalogWithout(catalog, entry.name), registry).notices


def _fixed_option_error(entry: logical.Entry, name: str, span: Span, *, anew: bool) -> SinkqlError:
    again = f"Run DROP {entry.kind} {sql_name(entry.name)}; and create it again"
    if entry.kind == "SINK" and not anew:
        again += ", into a new table"
    return SinkqlError(
        "SQ2340",
        f"option {name} cannot change after the {entry.kind.lower()} is created",
        span,
        hint=f"{again}.",
    )


def _replace_only_error(name: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ2340",
        f"option {name} of a materialized view changes its stored state",
        span,
        hint=f"Run CREATE OR REPLACE MATERIALIZED VIEW … WITH ({name} = …): this recomputes its rows.",
    )


def _set_from(present: ast.CreateSink, action: ast.SetFrom, entry: logical.Entry, scope: Scope) -> ast.CreateSink:
    """Return a sink that reads another relation, with the same columns if it appends; raise SQ2341 or SQ2982."""
    after = replace(respan(present, action.span), relation=action.relation)
    relation, shape = exported_relation(after, scope)
    if present.mode is not None and present.mode.mode == "upsert":
        return after  # its rows can be recomputed
    before = scope.catalog.item(entry.name)
    if isinstance(before, logical.Sink) and _columns(shape) != _columns(before.shape):
        raise SinkqlError(
            "SQ2341",
            f'the columns of "{action.relation.text}" differ from those of the table that the sink writes',
            action.relation.span,
            detail=f"it has {_columns_text(shape)}; the table has {_columns_text(before.shape)}",
            hint="Create a materialized view with the table's columns, and set the sink from that view.",
        )
    if _is_stateful(relation, scope.catalog):
        raise SinkqlError(
            "SQ2982",
            "SET FROM a relation that groups or joins rows is not supported yet",
            action.relation.span,
            hint="Create another sink, into a new table, from the new relation.",
        )
    return after


def _columns(shape: logical.Shape) -> list[tuple[str, str]]:
    return [(column.name, kept_type(column.type)) for column in shape.columns]


def _columns_text(shape: logical.Shape) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in shape.columns)


def _is_stateful(name: str, catalog: logical.CatalogReader) -> bool:
    item = catalog.item(name)
    return isinstance(item, logical.View) and _needs_state(item.relation, catalog)


def _needs_state(relation: logical.Relation, catalog: logical.CatalogReader) -> bool:
    """Return whether rows of a relation depend on earlier rows."""
    if isinstance(relation, logical.Get):
        return _is_stateful(relation.item, catalog)
    return not logical.row_by_row(relation) or any(
        _needs_state(input_, catalog) for input_ in logical.inputs_of(relation)
    )


@dataclass(frozen=True, slots=True)
class _CatalogWithout:
    """A view of a catalog without one item; see `logical.CatalogReader`."""

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
    """Return a node of a statement with another span in all its parts."""
    result: object = node
    if isinstance(node, tuple):
        result = tuple(respan(part, span) for part in node)
    elif isinstance(node, Span):
        result = span
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = (field.name for field in dataclasses.fields(node) if field.init)
        changed = {name: respan(getattr(node, name), span) for name in parts}
        result = dataclasses.replace(node, **changed)
    return result  # type: ignore[return-value]  # of the same type as the node


def changed_options(
    present: tuple[ast.Option, ...],
    action: ast.SetOptions | ast.ResetOptions,
    *,
    labels: Sequence[str],
    owner: str,
    refused: Sequence[str] = (),
    refusal: Refusal | None = None,
) -> tuple[ast.Option, ...]:
    """Return the options after SET or RESET, in their order; unchanged options get the span of ALTER.

    `known` are the valid names, `owner` names their item in errors; `refusal` is the error for options in `refused`.
    Raises SQ2101 (unknown), SQ2102 (duplicate).
    """
    match action:
        case ast.SetOptions():
            set_options = {option.name: option for option in action.options}
            names = [(option.name, option.name_span) for option in action.options]
        case ast.ResetOptions():
            set_options = {}
            names = [(name.name, name.span) for name in action.names]
    seen = set()
    for name, span in names:
        if name not in labels:
            raise unknown_option_error(ast.Option(name, None, span, span), labels, owner=owner)
        if name in seen:
            raise SinkqlError("SQ2102", f"option {name} is specified twice", span, hint="Keep one of them.")
        seen.add(name)
        unchanged = name in set_options and any(option == set_options[name] for option in present)
        if name in refused and not unchanged and refusal is not None:
            raise refusal(name, span)
    kept_options = {
        option.name: respan(option, action.span)
        for option in present
        if option.name in set_options or option.name not in seen
    }
    return tuple((kept_options | set_options).values())


def changed_connection(
    present: ast.CreateConnection, change: ast.ChangeConnection, kind: ConnectionKind
) -> ast.CreateConnection:
    """Return a connection's statement after all actions of ALTER CONNECTION, in order.

    Raises SQ2540 for an option that identifies the remote system, and errors of `changed_options`.
    """
    options = present.options
    for action in change.actions:
        if isinstance(action, ast.RotateKeys):
            if kind.keys is None:
                raise no_keys(action)
            continue
        options = changed_options(
            options,
            action,
            labels=option_labels(kind.options),
            owner=kind.owner,
            refused=kind.fixed,
            refusal=_connection_option_error,
        )
    return dataclasses.replace(respan(present, change.span), options=options)


def _connection_option_error(name: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ2540",
        f"option {name} cannot change after the connection is created",
        span,
        hint="Run CREATE CONNECTION with another name, and create the sinks again with that connection.",
    )


def find_published(
    statement: ast.Alter, catalog: logical.CatalogReader
) -> tuple[logical.Sink | None, tuple[Notice, ...]]:
    """Return the sink, or a notice if IF EXISTS found no item.

    Raises errors of `find_altered`, and SQ2347 for a sink without a branch.
    """
    entry, notices = find_altered(statement, catalog)
    if entry is None:
        return None, notices
    sink = logical.get_item(catalog, entry.name, logical.Sink)
    if sink.destination is None or sink.destination.branch is None:
        raise SinkqlError(
            "SQ2347",
            f'sink "{statement.name.text}" has no branch to publish',
            statement.name.span,
            detail="Its commits are visible immediately.",
            hint="Create a sink WITH (BRANCH = '…') to inspect rows before they are published.",
        )
    return sink, notices
