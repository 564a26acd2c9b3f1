"""SHOW and SELECT → a table: of items, of one item's CREATE text, of settings, of system relations."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.query import Table, select
from sinkql.catalog.store import Catalog
from sinkql.errors import SinkqlError, Span
from sinkql.planner.name import SCHEMA, find
from sinkql.planner.setting import DEFAULTS, unknown_setting
from sinkql.session.result import Result

_CLUSTER = "(SELECT c.name FROM mz_clusters AS c WHERE c.id = i.cluster_id)"
_SHOWN = {
    "SECRETS": "SELECT i.name, '' AS comment FROM mz_secrets AS i",
    "CONNECTIONS": "SELECT i.name, i.type, '' AS comment FROM mz_connections AS i",
    "CLUSTERS": "SELECT i.name, 'r1 (' || coalesce(i.size, 'own master') || ')' AS replicas, NULL AS activity,"
    " '' AS comment FROM mz_clusters AS i",
    "SOURCES": f"SELECT i.name, i.type, {_CLUSTER} AS cluster, '' AS comment FROM mz_sources AS i",
    "VIEWS": "SELECT i.name, '' AS comment FROM mz_views AS i",
    "MATERIALIZED VIEWS": f"SELECT i.name, {_CLUSTER} AS cluster, '' AS comment FROM mz_materialized_views AS i",
    "SINKS": f"SELECT i.name, i.type, {_CLUSTER} AS cluster, '' AS comment FROM mz_sinks AS i",
}
_IN_CLUSTER = ("SOURCES", "MATERIALIZED VIEWS", "SINKS")


def show(statement: ast.Show, catalog: Catalog) -> Result:
    """List the items of a kind; SQ2004 for an unknown schema, SQ2313 for an unknown cluster."""
    _check_schema(statement, catalog)
    conditions = []
    if statement.cluster is not None:
        conditions.append(f"cluster = {_literal(_cluster(statement, statement.cluster, catalog))}")
    if statement.like is not None:
        conditions.append(f"name LIKE {_literal(statement.like.value)}")
    table = select(_query(statement, conditions), catalog.database)
    return _result("SHOW", table)


def _query(statement: ast.Show, conditions: list[str]) -> ast.Query:
    """Return the listing's query, placed so that a span in the user's condition stays where the user wrote it."""
    head = f"SELECT * FROM ({_SHOWN[statement.kind]}) AS shown"
    if statement.where is not None:
        before = f"{head} WHERE {' AND '.join([*conditions, ''])}("
        text = f"{before}{statement.where.text}) ORDER BY name"
        start = statement.where.span.start - len(before)
        return ast.Query(text, Span(start, start + len(text)))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return ast.Query(f"{head}{where} ORDER BY name", statement.span)


def _check_schema(statement: ast.Show, catalog: Catalog) -> None:
    if statement.schema is not None:
        # A schema is named as an item in it would be.
        inside = ast.Ident("any", statement.schema.span)
        catalog.plans.resolve(ast.Name((*statement.schema.parts, inside), statement.schema.span))
        if statement.schema.parts[-1].value != SCHEMA:
            raise SinkqlError(
                "SQ2953",
                f'SHOW of schema "{statement.schema.text}" is not supported yet',
                statement.schema.span,
                hint="Select from the system relation itself, as in SELECT * FROM mz_sinks.",
            )


def _cluster(statement: ast.Show, cluster: ast.Ident, catalog: Catalog) -> str:
    if statement.kind not in _IN_CLUSTER:
        raise SinkqlError(
            "SQ2064",
            f"{statement.kind.lower()} are in no cluster",
            cluster.span,
            hint=f"Leave out IN CLUSTER {cluster.value}.",
        )
    if cluster.value not in catalog.plans.names("CLUSTER"):
        hint = f"There is {', '.join(catalog.plans.names('CLUSTER'))}."
        raise SinkqlError("SQ2313", f'cluster "{cluster.value}" does not exist', cluster.span, hint=hint)
    return cluster.value


def show_create(statement: ast.ShowCreate, catalog: Catalog) -> Result:
    """Give an item's name and its CREATE text; a secret's has no value in it."""
    reader = catalog.reader()
    if statement.kind == "CLUSTER":
        full_name = statement.name.text
        if reader.entry(full_name) is None:
            hint = f"There is {', '.join(reader.names('CLUSTER'))}."
            raise SinkqlError("SQ2313", f'cluster "{full_name}" does not exist', statement.name.span, hint=hint)
    else:
        full_name = find(reader, statement.name, statement.kind).name
    stored = catalog.stored(full_name)
    if stored is None:
        text = f"CREATE CLUSTER {full_name} (SIZE = 'local[*]');"
    else:
        text = stored.redacted_sql if statement.redacted else stored.create_sql
    return Result(f"SHOW CREATE {statement.kind}", columns=("name", "create_sql"), rows=((full_name, text),))


def show_variable(statement: ast.ShowVariable, catalog: Catalog) -> Result:
    """Give a setting's value, or those of all."""
    if statement.name is None:
        rows = tuple((name, catalog.plans.setting(name)) for name in sorted(DEFAULTS))
        return Result("SHOW", columns=("name", "setting"), rows=rows)
    name = statement.name.value
    if name not in DEFAULTS:
        raise unknown_setting(name, statement.name.span)
    return Result("SHOW", columns=(name,), rows=((catalog.plans.setting(name),),))


def select_rows(statement: ast.Select, catalog: Catalog) -> Result:
    """Run a SELECT over system relations."""
    return _result("SELECT", select(statement.query, catalog.database))


def _result(tag: str, table: Table) -> Result:
    return Result(tag, columns=table.columns, rows=table.rows)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
