"""The listings of `\\d`, and the description of one item, from the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from sinkql import ast, logical
from sinkql.errors import MissingError, SinkqlError, nearest
from sinkql.explain.expression import duration, sql
from sinkql.planner.name import as_name, qualified_name, short_name, split_name
from sinkql.printer import to_sql
from sinkql.printer.clause import name as written
from sinkql.session import Session

Listing = tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]

_CLUSTER = "(SELECT c.name FROM mz_clusters AS c WHERE c.id = i.cluster_id)"
_STATUS = (
    "coalesce((SELECT s.status FROM mz_internal.mz_sink_statuses AS s WHERE s.id = i.id),"
    " (SELECT s.status FROM mz_internal.mz_materialized_view_statuses AS s WHERE s.id = i.id))"
)
_LISTINGS = {
    "d": f"SELECT i.name, i.type, {_CLUSTER} AS cluster, {_STATUS} AS status FROM mz_objects AS i WHERE i.id LIKE 'u%'",
    "d+": f"SELECT i.name, i.type, {_CLUSTER} AS cluster, {_STATUS} AS status, "
    "(SELECT max(t.occurred_at) FROM mz_internal.mz_object_lifetimes AS t "
    "WHERE t.id = i.id AND t.event_type = 'create') AS created, (SELECT c.comment FROM mz_internal.mz_comments AS c "
    "WHERE c.id = i.id AND c.object_sub_id IS NULL) AS comment FROM mz_objects AS i WHERE i.id LIKE 'u%'",
    "dt": "SELECT i.name FROM mz_objects AS i WHERE i.type = 'table' AND i.id LIKE 'u%'",
    "ds": f"SELECT i.name, i.type, {_CLUSTER} AS cluster FROM mz_sources AS i WHERE i.id LIKE 'u%'",
    "dv": "SELECT i.name, i.definition FROM mz_views AS i WHERE i.id LIKE 'u%'",
    "dm": f"SELECT i.name, {_CLUSTER} AS cluster, i.definition FROM mz_materialized_views AS i",
    "dk": f"SELECT i.name, {_CLUSTER} AS cluster, i.envelope_type AS mode, "
    "t.namespace || '.' || t.\"table\" || coalesce('.branch_' || t.branch, '') AS target, "
    "s.status, n.messages_committed AS rows FROM mz_sinks AS i "
    "JOIN mz_internal.mz_sink_statuses AS s ON s.id = i.id "
    "JOIN mz_internal.mz_sink_statistics AS n ON n.id = i.id "
    "LEFT JOIN mz_iceberg_sinks AS t ON t.id = i.id",
    "dc": "SELECT i.name, i.type FROM mz_connections AS i",
    "dse": "SELECT i.name FROM mz_secrets AS i",
    "dcl": 'SELECT i.name, coalesce(i.size, m.master) AS "runs on", m.state FROM mz_clusters AS i '
    "LEFT JOIN mz_internal.mz_cluster_masters AS m ON m.id = i.id",
    "dn": "SELECT i.name FROM mz_schemas AS i",
    "l": "SELECT i.name FROM mz_databases AS i",
}

_PLANNED = ("SOURCE", "VIEW", "MATERIALIZED VIEW", "SINK")


@dataclass(frozen=True, slots=True)
class Described:
    """The output of `\\d NAME`: title, columns, facts (one per line), CREATE statement, and the plan for `\\d+`."""

    title: str
    columns: Listing
    facts: tuple[tuple[str, str], ...]
    sql: str
    plan: str = ""


def listing(session: Session, command: str, pattern: str | None) -> Listing:
    """Return the items that a command of the `\\d` family lists; `*` and `?` in the pattern stand for any text."""
    if command == "dx":
        table = _connectors(session)
    else:
        (result,) = session.execute(f"{_LISTINGS[command]} ORDER BY 1")
        # a connection has no cluster: an empty cell, not an unknown value
        table = result.columns, tuple(tuple("" if value is None else value for value in row) for row in result.rows)
    if pattern is None:
        return table
    columns, rows = table
    return columns, tuple(row for row in rows if fnmatchcase(row[0], pattern))


def _connectors(session: Session) -> Listing:
    registry = session.catalog.registry
    rows = [
        *((name, "connection") for name in registry.connections),
        *((name, "source") for name in registry.sources),
        *((name, "sink") for name in registry.sinks),
    ]
    return ("type", "of"), tuple(sorted(rows, key=lambda row: (row[1], row[0])))


def describe(session: Session, text: str, *, with_plan: bool = False) -> Described:
    """Return the description of the item of that name; raises SQ2001 with the nearest name if it does not exist."""
    catalog = session.catalog
    catalog.refresh()
    entry = _entry(session, text)
    stored, broken = catalog.stored(entry.name), catalog.plans.broken.get(entry.name)
    sql = stored.redacted_sql if stored is not None else to_sql(entry.statement, redacted=catalog.registry.keywords)
    title = f'{entry.kind.lower()} "{_short(session, entry.name)}"'
    item = catalog.plans.item(entry.name)
    if broken is not None:
        fact = ("cannot be used", f"{broken.error.code}: {broken.error.message}")
        return Described(title, ((), ()), (fact,), sql)
    if item is None:
        return Described(title, ((), ()), (), sql)
    comments = _comments(session, entry.id)
    facts = (*_facts(session, item), *_neighbours(session, entry.name))
    if None in comments:
        facts = (*facts, ("comment", comments[None]))
    plan = _plan(session, entry) if with_plan else ""
    return Described(title, _columns(item, comments), facts, sql, plan)


def _plan(session: Session, entry: logical.Entry) -> str:
    """Return the plan of an item, empty for a kind without a plan."""
    if entry.kind not in _PLANNED:
        return ""
    (result,) = session.execute(f"EXPLAIN OPTIMIZED PLAN FOR {entry.kind} {written(as_name(entry.name))}")
    return "\n".join(str(line) for (line,) in result.rows)


def _comments(session: Session, item_id: str) -> dict[int | None, str]:
    """Return an item's comments by the position of their column; the comment on the item itself has the key None."""
    query = f"SELECT object_sub_id, comment FROM mz_internal.mz_comments WHERE id = '{item_id}'"
    (result,) = session.execute(query)
    return {place: str(comment) for place, comment in result.rows}


def _entry(session: Session, text: str) -> logical.Entry:
    """Return the item that a name refers to; clusters and schemas have separate namespaces."""
    catalog, parts = session.catalog, split_name(text)
    resolved = catalog.plans.resolve(ast.Name(tuple(ast.Ident(part) for part in parts)))
    here = catalog.plans.setting("database")
    for name in (resolved, text, f"{qualified_name(*parts)}.", f"{qualified_name(here, *parts)}."):
        entry = catalog.reader().entry(name)
        if entry is not None:
            return entry
    raise _missing(session, text)


def _missing(session: Session, text: str) -> SinkqlError:
    plans = session.catalog.plans
    names = [short_name(name, plans) for name in plans.present()]
    near = nearest(text, names)
    hint = f"Did you mean \\d {near}?" if near else "Run \\d to list the items."
    return MissingError("SQ2001", f'item "{text}" does not exist', name=text, hint=hint)


def _columns(item: logical.Item, comments: Mapping[int | None, str]) -> Listing:
    match item:
        case logical.Source() | logical.View() | logical.Sink():
            key = set().union(*item.shape.keys) if item.shape.keys else set()
            has_comments = any(place is not None for place in comments)
            return ("column", "type", "nullable", "key", *(("comment",) if has_comments else ())), tuple(
                (
                    column.name,
                    str(column.type),
                    column.nullable,
                    "key" if column.name in key else "",
                    *((comments.get(place, ""),) if has_comments else ()),
                )
                for place, column in enumerate(item.shape.columns, start=1)
            )
        case (
            logical.Database()
            | logical.Schema()
            | logical.Secret()
            | logical.Connection()
            | logical.Cluster()
            | logical.Index()
        ):
            return (), ()


def _facts(session: Session, item: logical.Item) -> Iterator[tuple[str, str]]:
    match item:
        case logical.Database() | logical.Schema() | logical.Secret():
            return
        case logical.Connection():
            yield "type", item.kind.lower()
        case logical.Cluster():
            yield "master", item.master
            if item.state is not None:
                through = f" by {_short(session, item.state.connection)}" if item.state.connection else ""
                yield "state", item.state.path + through
            needed = f"if they need it; stops after {duration(item.spark_idle)} without use"
            yield "batches in spark", "all" if item.execution == "SPARK" else needed
        case logical.Source():
            if item.kind != "TABLE":
                yield (
                    "reads",
                    item.kind.lower() + (f" over {_short(session, item.connection)}" if item.connection else ""),
                )
            if item.tables:
                yield "tables", ", ".join(".".join(table.name) for table in item.tables)
            else:
                yield from _shape(item.shape)
        case logical.Index():
            yield "on", _short(session, item.relation)
            yield "key", ", ".join(map(sql, item.key))
        case logical.View():
            yield from _shape(item.shape)
        case logical.Sink():
            yield from _sink(session, item)


def _shape(shape: logical.Shape) -> Iterator[tuple[str, str]]:
    if shape.keys:
        yield "unique keys", ", ".join(f"({', '.join(sorted(key))})" for key in shape.keys)
    yield (
        "rows",
        {
            logical.Change.APPEND: "are only added",
            logical.Change.UPSERT: "are overwritten by key",
            logical.Change.RETRACT: "are added and removed",
        }[shape.change],
    )


def _sink(session: Session, item: logical.Sink) -> Iterator[tuple[str, str]]:
    yield "from", _short(session, item.relation)
    yield "into", f"{item.kind.lower()} {_short(session, item.connection)}"
    enforced = "" if item.enforced else " not enforced"
    yield "mode", item.mode.value + (f" by key ({', '.join(item.key)}){enforced}" if item.key else "")
    yield "commits", f"every {item.commit_interval.total_seconds():g} s"
    yield "cluster", item.cluster
    columns, rows = session.status([item.name])
    for name, value in zip(columns, rows[0] if rows else (), strict=False):
        if name not in ("name", "type", "id") and value is not None:
            yield name.replace("_", " "), str(value)


def _neighbours(session: Session, full_name: str) -> Iterator[tuple[str, str]]:
    plans = session.catalog.plans
    for label, names in (("uses", plans.dependencies(full_name)), ("used by", plans.dependents(full_name))):
        items = [_short(session, name) for name in names if not name.endswith(".")]
        if items:
            yield label, ", ".join(items)


def _short(session: Session, full_name: str) -> str:
    return short_name(full_name, session.catalog.plans)
