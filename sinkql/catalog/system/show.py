"""The queries over system relations that SHOW runs to list items, with conditions for FROM, IN CLUSTER, ON, LIKE and
WHERE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sinkql import ast, logical
from sinkql.catalog.system import ON_PATH, RELATIONS, relation_id
from sinkql.catalog.system.relation import SYSTEM_SCHEMAS, literal
from sinkql.catalog.system.system_names import check_items
from sinkql.errors import MissingError, SinkqlError, Span, nearest, one_of
from sinkql.planner.item.setting import DEFAULTS, unknown_setting
from sinkql.planner.name import find, qualified_name, split_name
from sinkql.printer.clause import name as print_name


@dataclass(frozen=True, slots=True)
class Listing:
    """The listing of a kind of items: its column names, and their SQL over a relation `i`.

    `relation` is the condition for ON (or for FROM with COLUMNS), with {id} for the item's id. `order` is a column of
    `source` if the name does not decide the order. `boolean` is the name of the boolean column, if there is one.
    """

    names: tuple[str, ...]
    columns: str
    source: str
    schema: bool = True
    relation: str | None = None
    cluster: bool = False
    order: str = "i.name"
    boolean: str | None = None

    def query(self, conditions: list[str]) -> str:
        """Return the query for the items that match all conditions on `i`; its last column `place` is their order."""
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {self.columns}, {self.order} AS place FROM {self.source}{where}"

    def views_query(self, conditions: list[str]) -> str:
        """Return the same query in SQLite's SQL over the views."""
        inner = replace(self, columns=_to_views(self.columns), source=_to_views(self.source)).query(conditions)
        outputs = ", ".join(f'"{name}"' for name in self.names)
        return f"SELECT {outputs} FROM ({inner}) AS shown ORDER BY place"

    @property
    def booleans(self) -> frozenset[int]:
        """Return the positions of boolean columns."""
        return frozenset(place for place, name in enumerate(self.names) if name == self.boolean)


def _to_views(sql: str) -> str:
    return sql.replace("mz_internal.", "")


def _comment(object_id: str = "i.id", sub_id: str = "IS NULL") -> str:
    return (
        "coalesce((SELECT max(n.comment) FROM mz_internal.mz_comments AS n"
        f" WHERE n.id = {object_id} AND n.object_sub_id {sub_id}), '') AS comment"
    )


_CLUSTER = "(SELECT c.name FROM mz_clusters AS c WHERE c.id = i.cluster_id) AS cluster"
_ON = '(SELECT r.name FROM mz_relations AS r WHERE r.id = i.on_id) AS "on"'
_REPLICAS = "'r1 (' || coalesce(i.size, 'own master') || ')' AS replicas"
_SUBSOURCES = (
    "(SELECT o.name, o.type, o.schema_id, d.referenced_object_id AS source_id"
    " FROM mz_sources AS o JOIN mz_internal.mz_object_dependencies AS d ON d.object_id = o.id"
    " WHERE o.type IN ('subsource', 'progress')) AS i"
)
_RUNNING = (
    "(SELECT count(*) FROM mz_sinks AS k JOIN mz_internal.mz_sink_statuses AS s ON s.id = k.id"
    " WHERE k.cluster_id = i.id AND s.status = 'running')"
)

LISTINGS = {
    "SECRETS": Listing(("name", "comment"), f"i.name, {_comment()}", "mz_secrets AS i"),
    "CONNECTIONS": Listing(("name", "type", "comment"), f"i.name, i.type, {_comment()}", "mz_connections AS i"),
    "CLUSTERS": Listing(
        ("name", "replicas", "activity", "comment"),
        f"i.name, {_REPLICAS}, {_RUNNING} || ' sinks running' AS activity, {_comment()}",
        "mz_clusters AS i",
        schema=False,
    ),
    "CLUSTER REPLICAS": Listing(
        ("cluster", "replica", "size", "ready", "comment"),
        "c.name AS cluster, i.name AS replica, i.size, true AS ready, '' AS comment",
        "mz_cluster_replicas AS i JOIN mz_clusters AS c ON c.id = i.cluster_id",
        schema=False,
        boolean="ready",
    ),
    "DATABASES": Listing(("name", "comment"), f"i.name, {_comment()}", "mz_databases AS i", schema=False),
    "SCHEMAS": Listing(("name", "comment"), f"i.name, {_comment()}", "mz_schemas AS i", schema=False),
    "SOURCES": Listing(
        ("name", "type", "cluster", "comment"),
        f"i.name, i.type, {_CLUSTER}, {_comment()}",
        "mz_sources AS i",
        cluster=True,
    ),
    "SUBSOURCES": Listing(("name", "type"), "i.name, i.type", _SUBSOURCES, relation="i.source_id = {id}"),
    "TABLES": Listing(("name", "comment"), f"i.name, {_comment()}", "mz_tables AS i", relation="i.source_id = {id}"),
    "VIEWS": Listing(("name", "comment"), f"i.name, {_comment()}", "mz_views AS i"),
    "MATERIALIZED VIEWS": Listing(
        ("name", "cluster", "comment"), f"i.name, {_CLUSTER}, {_comment()}", "mz_materialized_views AS i", cluster=True
    ),
    "INDEXES": Listing(
        ("name", "on", "cluster", "key", "comment"),
        f"i.name, {_ON}, {_CLUSTER}, i.key, {_comment()}",
        "mz_internal.mz_show_indexes AS i",
        schema=False,
        relation="i.on_id = {id}",
        cluster=True,
    ),
    "SINKS": Listing(
        ("name", "type", "cluster", "last_batch", "comment"),
        f"i.name, i.type, {_CLUSTER}, p.last_batch, {_comment()}",
        "mz_sinks AS i LEFT JOIN mz_internal.mz_sink_progress AS p ON p.id = i.id",
        cluster=True,
    ),
    "OBJECTS": Listing(("name", "type", "comment"), f"i.name, i.type, {_comment()}", "mz_objects AS i"),
    "COLUMNS": Listing(
        ("name", "nullable", "type", "comment"),
        f"i.name, i.nullable, i.type, {_comment(sub_id='= i.position')}",
        "mz_columns AS i",
        schema=False,
        relation="i.id = {id}",
        order="i.position",
        boolean="nullable",
    ),
}
"""The listings of all kinds that SHOW supports, by the dialect's name."""


_ANY = "any"
_WITHOUT_SCHEMA = ("CLUSTERS", "CLUSTER REPLICAS", "DATABASES")
"""Kinds of items that belong to no schema."""
_SHOWABLE = tuple(kind.lower() for kind in LISTINGS)
_RELATIONS = ("SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "SINK")


def listing_query(statement: ast.Show, listing: Listing, conditions: list[str]) -> ast.Query:
    """Return the listing's query, with an offset that keeps spans in the user's condition valid."""
    outputs = ", ".join(f'"{name}"' for name in listing.names)
    head = f"SELECT {outputs} FROM ({listing.query(conditions)}) AS shown WHERE "
    like = f"{listing.names[0]} LIKE {literal(statement.like.value)}" if statement.like is not None else "true"
    if statement.where is None:
        return ast.Query(f"{head}{like} ORDER BY place", statement.span)
    before = f"{head}("
    text = f"{before}{statement.where.text}) ORDER BY place"
    start = statement.where.span.start - len(before)
    return ast.Query(text, Span(start, start + len(text)))


def checked_query(
    statement: ast.Show, listing: Listing, conditions: list[str], plans: logical.CatalogReader
) -> ast.Query:
    """Return the listing's query; raise SQ2201 or SQ2001 if the user's condition is invalid."""
    query = listing_query(statement, listing, conditions)
    if statement.where is not None:
        from sinkql.planner.query.rename import relations
        from sinkql.planner.query.translate import expression  # sqlglot loads only if there is a condition

        where = statement.where.span
        expression(ast.Expression(statement.where.text, where))  # the condition must be complete without the listing
        check_items((name for name in relations(query) if name.span.start >= where.start), plans)
    return query


def conditions_of(statement: ast.Show, listing: Listing, plans: logical.CatalogReader) -> Iterator[str]:
    """Yield the conditions of a listing; raise SQ2001, SQ2004, SQ2064 and SQ2313 for unknown names."""
    if statement.kind == "SCHEMAS":
        database = _database(statement, plans)
        same = f"i.database_id = (SELECT d.id FROM mz_databases AS d WHERE d.name = {literal(database)})"
        yield f"(i.database_id IS NULL OR {same})"
    elif statement.relation is not None and listing.relation is not None:
        yield listing.relation.format(id=literal(_relation_id(statement.relation, plans)))
    elif statement.schema is not None and statement.kind in _WITHOUT_SCHEMA:
        raise SinkqlError(
            "SQ2064",
            f"{statement.kind.lower()} do not belong to a schema",
            statement.schema.span,
            hint=f"Leave out FROM {print_name(statement.schema)}.",
        )
    elif listing.schema:
        yield f"i.schema_id = {_schema_id(statement.schema, plans)}"
    if statement.cluster is not None:
        yield f"i.cluster_id = {_cluster_id(_cluster(statement, statement.cluster, plans))}"


def _database(statement: ast.Show, plans: logical.CatalogReader) -> str:
    name = statement.schema
    if name is None:
        return plans.setting("database")
    database = name.parts[-1]
    databases = [split_name(full_name)[0] for full_name in plans.names("DATABASE")]
    if database.value not in databases:
        hint = f"Use {one_of(databases)}."
        message = f'database "{name.text}" does not exist'
        raise MissingError("SQ2004", message, name.span, name=database.value, hint=hint)
    return database.value


def _schema_id(schema: ast.Name | None, plans: logical.CatalogReader) -> str:
    """Return SQL for the id of a schema, which is resolved like the schema of an item."""
    parts = schema.parts if schema is not None else ()
    place = schema.span if schema is not None else Span(0, 0)
    *database, name, _ = split_name(plans.resolve(ast.Name((*parts, ast.Ident(_ANY, place)), place)))
    if not database:
        return literal(SYSTEM_SCHEMAS[name])
    return (
        "(SELECT s.id FROM mz_schemas AS s JOIN mz_databases AS d ON d.id = s.database_id"
        f" WHERE s.name = {literal(name)} AND d.name = {literal(database[0])})"
    )


def _relation_id(name: ast.Name, plans: logical.CatalogReader) -> str:
    """Return the id of a relation of the user or the system; raise SQ2001 if it does not exist."""
    path = [part.value for part in name.parts]
    for schema in (path[-2],) if len(path) > 1 else ON_PATH:
        if (schema, path[-1]) in RELATIONS and plans.entry(plans.resolve(name)) is None:
            return relation_id(RELATIONS[schema, path[-1]])
    return find(plans, name, *_RELATIONS).id


def _cluster_id(name: str) -> str:
    return f"(SELECT c.id FROM mz_clusters AS c WHERE c.name = {literal(name)})"


def _cluster(statement: ast.Show, cluster: ast.Ident, plans: logical.CatalogReader) -> str:
    if not LISTINGS[statement.kind].cluster:
        raise SinkqlError(
            "SQ2064",
            f"{statement.kind.lower()} do not belong to a cluster",
            cluster.span,
            hint=f"Leave out IN CLUSTER {cluster.value}.",
        )
    if qualified_name(cluster.value) not in plans.names("CLUSTER"):
        hint = f"Use {one_of([*plans.names('CLUSTER')])}."
        message = f'cluster "{cluster.value}" does not exist'
        raise MissingError("SQ2313", message, cluster.span, name=cluster.value, hint=hint)
    return cluster.value


def check_variable(statement: ast.ShowVariable) -> None:
    """Raise SQ2630 if a setting does not exist."""
    if statement.name is None or statement.name.value in DEFAULTS:
        return
    near = nearest(statement.name.value, _SHOWABLE, cutoff=0.75)
    if near is None:
        raise unknown_setting(statement.name.value, statement.name.span)
    message = f'setting "{statement.name.value}" does not exist'
    raise SinkqlError("SQ2630", message, statement.name.span, hint=f"Write SHOW {near.upper()}.")
