"""SHOW of a kind of items → the query over system relations that lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Listing:
    """How a kind is listed: its columns' names, their SQL over a relation `i`, and what it may be FROM, ON and IN.

    `relation` is the condition for what it is ON (or a COLUMN is FROM), with {id} for that item's id. `order` is a
    column of `source` where the name does not decide the order. `boolean` names the column that is, if one is.
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
        """Return the query for the items that fit all conditions on `i`; its last column `place` is their order."""
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {self.columns}, {self.order} AS place FROM {self.source}{where}"

    def views_query(self, conditions: list[str]) -> str:
        """Return the same in SQLite's SQL, over the views that the relations are."""
        inner = replace(self, columns=_to_views(self.columns), source=_to_views(self.source)).query(conditions)
        outputs = ", ".join(f'"{name}"' for name in self.names)
        return f"SELECT {outputs} FROM ({inner}) AS shown ORDER BY place"

    @property
    def booleans(self) -> frozenset[int]:
        """Return the places of the columns that are boolean."""
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
        ("name", "type", "cluster", "comment"),
        f"i.name, i.type, {_CLUSTER}, {_comment()}",
        "mz_sinks AS i",
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
"""Every kind that SHOW lists, as the dialect names it."""
