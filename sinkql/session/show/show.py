"""SHOW → a table: of items, of one item's CREATE text, of settings, of system relations."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.system import ON_PATH, RELATIONS, relation_id
from sinkql.catalog.system.namespace import SYSTEM_SCHEMAS
from sinkql.catalog.system.relation import literal
from sinkql.catalog.system.view import Table, select_views
from sinkql.errors import MissingError, SinkqlError, Span, nearest, one_of
from sinkql.parser import parse
from sinkql.planner.item.setting import DEFAULTS, unknown_setting
from sinkql.planner.item.source import with_found_columns
from sinkql.planner.name import find, join_name, split_name
from sinkql.planner.refuse.statement import check_kind
from sinkql.printer import to_sql
from sinkql.session.result import Result
from sinkql.session.show.listing import LISTINGS, Listing

_ANY = "any"
_NOWHERE = ("CLUSTERS", "CLUSTER REPLICAS", "DATABASES")
"""What is in no schema."""
_RELATIONS = ("SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "SINK")

_SHOWABLE = tuple(kind.lower() for kind in LISTINGS)


def show(statement: ast.Show, catalog: Catalog) -> Result:
    """List the items of a kind; SQ2004 for an unknown schema, SQ2313 for an unknown cluster."""
    listing = LISTINGS[statement.kind]
    conditions = list(_conditions(statement, listing, catalog))
    if statement.where is None and statement.like is None:
        views = listing.views_query(conditions)
        return _result("SHOW", select_views(views, catalog.database, booleans=listing.booleans))
    # sqlglot loads only where there is something of the user's to read
    from sinkql.catalog.system.query import select
    from sinkql.planner.query.scalar import expression

    if statement.where is not None:  # it stands in parentheses below, and has to be closed in itself
        expression(ast.Expression(statement.where.text, statement.where.span))
    table = select(
        _query(statement, listing, conditions),
        catalog.database,
        within=statement.where.span if statement.where is not None else statement.span,
    )
    return _result("SHOW", table)


def _query(statement: ast.Show, listing: Listing, conditions: list[str]) -> ast.Query:
    """Return the listing's query, placed so that a span in the user's condition stays where the user wrote it."""
    outputs = ", ".join(f'"{name}"' for name in listing.names)
    head = f"SELECT {outputs} FROM ({listing.query(conditions)}) AS shown WHERE "
    like = f"{listing.names[0]} LIKE {literal(statement.like.value)}" if statement.like is not None else "true"
    if statement.where is None:
        return ast.Query(f"{head}{like} ORDER BY place", statement.span)
    before = f"{head}("
    text = f"{before}{statement.where.text}) ORDER BY place"
    start = statement.where.span.start - len(before)
    return ast.Query(text, Span(start, start + len(text)))


def _conditions(statement: ast.Show, listing: Listing, catalog: Catalog) -> Iterator[str]:
    if statement.kind == "SCHEMAS":
        database = _database(statement, catalog)
        same = f"i.database_id = (SELECT d.id FROM mz_databases AS d WHERE d.name = {literal(database)})"
        yield f"(i.database_id IS NULL OR {same})"
    elif statement.relation is not None and listing.relation is not None:
        yield listing.relation.format(id=literal(_relation_id(statement.relation, catalog)))
    elif statement.schema is not None and statement.kind in _NOWHERE:
        raise SinkqlError(
            "SQ2064",
            f"{statement.kind.lower()} do not belong to a schema",
            statement.schema.span,
            hint=f"Leave out FROM {statement.schema.text}.",
        )
    elif listing.schema:
        yield f"i.schema_id = {_schema_id(statement.schema, catalog)}"
    if statement.cluster is not None:
        yield f"i.cluster_id = {_cluster_id(_cluster(statement, statement.cluster, catalog))}"


def _database(statement: ast.Show, catalog: Catalog) -> str:
    name = statement.schema
    if name is None:
        return catalog.plans.setting("database")
    database = name.parts[-1]
    known = select_views("SELECT name FROM mz_databases", catalog.database).rows
    if (database.value,) not in known:
        hint = f"Use {one_of([str(row[0]) for row in known])}."
        message = f'database "{name.text}" does not exist'
        raise MissingError("SQ2004", message, name.span, name=database.value, hint=hint)
    return database.value


def _schema_id(schema: ast.Name | None, catalog: Catalog) -> str:
    """Return SQL for the id of a schema: a schema is named as an item in it would be."""
    parts = schema.parts if schema is not None else ()
    place = schema.span if schema is not None else Span(0, 0)
    *database, name, _ = split_name(catalog.plans.resolve(ast.Name((*parts, ast.Ident(_ANY, place)), place)))
    if not database:
        return literal(SYSTEM_SCHEMAS[name])
    return (
        "(SELECT s.id FROM mz_schemas AS s JOIN mz_databases AS d ON d.id = s.database_id"
        f" WHERE s.name = {literal(name)} AND d.name = {literal(database[0])})"
    )


def _relation_id(name: ast.Name, catalog: Catalog) -> str:
    """Return the id of a relation, of the user or the system; SQ2001 if there is none of that name."""
    path = [part.value for part in name.parts]
    for schema in (path[-2],) if len(path) > 1 else ON_PATH:
        if (schema, path[-1]) in RELATIONS and catalog.plans.entry(catalog.plans.resolve(name)) is None:
            return relation_id(RELATIONS[schema, path[-1]])
    return find(catalog.reader(), name, *_RELATIONS).id


def _cluster_id(name: str) -> str:
    return f"(SELECT c.id FROM mz_clusters AS c WHERE c.name = {literal(name)})"


def _cluster(statement: ast.Show, cluster: ast.Ident, catalog: Catalog) -> str:
    if not LISTINGS[statement.kind].cluster:
        raise SinkqlError(
            "SQ2064",
            f"{statement.kind.lower()} do not belong to a cluster",
            cluster.span,
            hint=f"Leave out IN CLUSTER {cluster.value}.",
        )
    if join_name(cluster.value) not in catalog.plans.names("CLUSTER"):
        hint = f"Use {one_of([*catalog.plans.names('CLUSTER')])}."
        message = f'cluster "{cluster.value}" does not exist'
        raise MissingError("SQ2313", message, cluster.span, name=cluster.value, hint=hint)
    return cluster.value


def show_create(statement: ast.ShowCreate, catalog: Catalog) -> Result:
    """Give an item's name and its CREATE text, which shows no literal of a secret, with REDACTED or without."""
    check_kind(statement)
    entry = find(catalog.reader(), statement.name, statement.kind)
    stored = catalog.stored(entry.name)
    if stored is None:
        text = to_sql(entry.statement)
    else:
        text = "\n".join(
            to_sql(_complete(each, stored.facts), redacted=catalog.registry.vocabulary)
            for each in parse(stored.create_sql)
        )
    name = entry.name.removesuffix(".")
    return Result(f"SHOW CREATE {statement.kind}", columns=("name", "create_sql"), rows=((name, text),))


def _complete(statement: ast.Statement, facts: logical.Facts) -> ast.Statement:
    return with_found_columns(statement, facts) if isinstance(statement, ast.CreateSource) else statement


def show_variable(statement: ast.ShowVariable, catalog: Catalog) -> Result:
    """Give a setting's value, or those of all."""
    if statement.name is None:
        rows = tuple((name, catalog.plans.setting(name)) for name in sorted(DEFAULTS))
        return Result("SHOW", columns=("name", "setting"), rows=rows)
    name = statement.name.value
    if name not in DEFAULTS:
        near = nearest(name, _SHOWABLE, cutoff=0.75)
        if near is not None:
            hint = f"Write SHOW {near.upper()}."
            raise SinkqlError("SQ2630", f'setting "{name}" does not exist', statement.name.span, hint=hint)
        raise unknown_setting(name, statement.name.span)
    return Result("SHOW", columns=(name,), rows=((catalog.plans.setting(name),),))


def _result(tag: str, table: Table) -> Result:
    return Result(tag, columns=table.columns, rows=table.rows)
