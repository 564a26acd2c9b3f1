"""A CREATE statement as written → the same with every name in full: what the catalog stores and SHOW CREATE prints."""

from __future__ import annotations

from dataclasses import replace

from sinkql import ast, logical
from sinkql.planner.later import later
from sinkql.planner.name import split_name

_NAMES_OF_ITEMS = ("AWS CONNECTION", "GCP CONNECTION")


def qualify(statement: ast.Create, catalog: logical.CatalogReader) -> ast.Create:
    """Return the statement with full names and the cluster it runs in; IF NOT EXISTS and VALIDATE are for once."""
    match statement:
        case ast.CreateSecret():
            return replace(statement, name=_full(statement.name, catalog), if_not_exists=False)
        case ast.CreateConnection():
            return replace(
                statement,
                name=_full(statement.name, catalog),
                options=_options(statement.options, catalog),
                validate=None,
                if_not_exists=False,
            )
        case ast.CreateCluster():
            return replace(statement, if_not_exists=False)
        case ast.CreateSource():
            return replace(
                statement,
                name=_full(statement.name, catalog),
                options=_options(statement.options, catalog),
                connection=_maybe(statement.connection, catalog),
                with_options=_options(statement.with_options, catalog),
                if_not_exists=False,
            )
        case ast.CreateView():
            from sinkql.planner.query import qualify_query  # sqlglot loads only where there is a query

            return replace(
                statement,
                name=_full(statement.name, catalog),
                query=qualify_query(statement.query, catalog),
                cluster=_cluster(statement.cluster, catalog) if statement.materialized else None,
                if_not_exists=False,
                or_replace=False,
            )
        case ast.CreateSink():
            return replace(
                statement,
                name=_maybe(statement.name, catalog),
                relation=_full(statement.relation, catalog),
                connection=_full(statement.connection, catalog),
                aws_connection=_maybe(statement.aws_connection, catalog),
                options=_options(statement.options, catalog),
                cluster=_cluster(statement.cluster, catalog),
                with_options=_options(statement.with_options, catalog),
                if_not_exists=False,
            )
        case ast.CreateDatabase() | ast.CreateSchema() | ast.CreateTable() | ast.CreateIndex():
            raise later(statement)


def _full(name: ast.Name, catalog: logical.CatalogReader) -> ast.Name:
    parts = split_name(catalog.resolve(name))
    return ast.Name(tuple(ast.Ident(part, name.span) for part in parts), name.span)


def _maybe(name: ast.Name | None, catalog: logical.CatalogReader) -> ast.Name | None:
    return _full(name, catalog) if name is not None else None


def _cluster(cluster: ast.Ident | None, catalog: logical.CatalogReader) -> ast.Ident:
    return cluster or ast.Ident(split_name(catalog.setting("cluster"))[0])


def _options(options: tuple[ast.Option, ...], catalog: logical.CatalogReader) -> tuple[ast.Option, ...]:
    return tuple(_option(option, catalog) for option in options)


def _option(option: ast.Option, catalog: logical.CatalogReader) -> ast.Option:
    match option.value:
        case ast.Word() as word if option.name in _NAMES_OF_ITEMS:
            return replace(option, value=replace(word, name=_full(word.name, catalog)))
        case ast.SecretRef() as secret:
            return replace(option, value=_secret(secret, catalog))
        case ast.Concat() as concat:
            parts = tuple(_secret(part, catalog) if isinstance(part, ast.SecretRef) else part for part in concat.parts)
            return replace(option, value=replace(concat, parts=parts))
        case _:
            return option


def _secret(secret: ast.SecretRef, catalog: logical.CatalogReader) -> ast.SecretRef:
    return replace(secret, name=_full(secret.name, catalog))
