"""Rewrite the names in a CREATE statement: as full names for the catalog, or as new names after a rename."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sinkql import ast, logical
from sinkql.keywords import Keywords, OptionWords
from sinkql.planner.item.view import index_name
from sinkql.planner.name import qualified_name, resolve_schema, split_name
from sinkql.planner.subsource import stand_in


def qualify(statement: ast.Create, catalog: logical.CatalogReader) -> ast.Create:
    """Return the statement with full names and its cluster, without IF NOT EXISTS and VALIDATE.

    A word as the value of an option becomes a string unless it names an item.
    """
    return _rewrite(_with_texts(statement, catalog.words), _FullNames(catalog))


def rename(statement: ast.Create, names: Mapping[str, str], *, own_name: str | None = None) -> ast.Create:
    """Return a statement with full names in which the keys of `names` are replaced by their values.

    `own_name` is the full name of the created item, if it is not looked up in `names`.
    """
    return _rewrite(statement, _NewNames(names, own_name))


def mentions(statement: ast.Create) -> frozenset[str]:
    """Return the full names of all items that a statement with full names uses."""
    collector = _Collector()
    _rewrite(statement, collector)
    return frozenset(collector.names)


class _Names(Protocol):
    def item_name(self, name: ast.Name) -> tuple[str, ...]:
        """Return the parts of the name of the created item."""

    def own_schema(self, name: ast.Name) -> tuple[str, ...]:
        """Return the parts of the name of the created schema."""

    def own_cluster(self, cluster: ast.Ident) -> ast.Ident:
        """Return the name of the created cluster or database."""

    def own_index(self, statement: ast.CreateIndex, relation: ast.Name) -> ast.Ident:
        """Return the name of the created index, which is in the schema of its relation."""

    def used(self, name: ast.Name) -> str:
        """Return the full name of an item that the statement uses."""

    def exported(self, name: ast.Name) -> str:
        """Return the full name of the relation that a sink reads."""

    def cluster(self, cluster: ast.Ident | None) -> ast.Ident | None:
        """Return the cluster that the statement names, or the default cluster if it needs one."""

    def query(self, query: ast.Query) -> ast.Query:
        """Return a query with its names replaced."""


@dataclass(frozen=True, slots=True)
class _FullNames:
    catalog: logical.CatalogReader

    def item_name(self, name: ast.Name) -> tuple[str, ...]:
        return split_name(self.catalog.locate(name))

    def own_schema(self, name: ast.Name) -> tuple[str, ...]:
        return split_name(resolve_schema(name, self.catalog))

    def own_cluster(self, cluster: ast.Ident) -> ast.Ident:
        return cluster

    def own_index(self, statement: ast.CreateIndex, relation: ast.Name) -> ast.Ident:
        return statement.name or ast.Ident(split_name(index_name(statement, self.catalog))[-1], relation.span)

    def used(self, name: ast.Name) -> str:
        return self.catalog.resolve(name)

    def exported(self, name: ast.Name) -> str:
        return stand_in(self.used(name), self.catalog)

    def cluster(self, cluster: ast.Ident | None) -> ast.Ident | None:
        return cluster or ast.Ident(split_name(self.catalog.setting("cluster"))[0])

    def query(self, query: ast.Query) -> ast.Query:
        from sinkql.planner.query.rename import qualify_query  # loads sqlglot, which only queries need

        return qualify_query(query, self.used)


@dataclass(frozen=True, slots=True)
class _NewNames:
    names: Mapping[str, str]
    own_name: str | None

    def item_name(self, name: ast.Name) -> tuple[str, ...]:
        return split_name(self.own_name or self.used(name))

    def own_schema(self, name: ast.Name) -> tuple[str, ...]:
        return self.item_name(name)

    def own_cluster(self, cluster: ast.Ident) -> ast.Ident:
        return replace(cluster, value=self.item_name(_as_name(cluster))[0])

    def own_index(self, statement: ast.CreateIndex, relation: ast.Name) -> ast.Ident:
        assert statement.name is not None
        full = ast.Name((*statement.relation.parts[:-1], statement.name))
        return replace(statement.name, value=self.item_name(full)[-1])

    def used(self, name: ast.Name) -> str:
        full_name = qualified_name(*(part.value for part in name.parts))
        return self.names.get(full_name, full_name)

    def exported(self, name: ast.Name) -> str:
        return self.used(name)

    def cluster(self, cluster: ast.Ident | None) -> ast.Ident | None:
        return replace(cluster, value=split_name(self.used(_as_name(cluster)))[0]) if cluster is not None else None

    def query(self, query: ast.Query) -> ast.Query:
        from sinkql.planner.query.rename import rename_query  # loads sqlglot

        return rename_query(query, self.used)


@dataclass(slots=True)
class _Collector:
    names: list[str] = field(default_factory=list)

    def item_name(self, name: ast.Name) -> tuple[str, ...]:
        return tuple(part.value for part in name.parts)

    def own_schema(self, name: ast.Name) -> tuple[str, ...]:
        return self.item_name(name)

    def own_cluster(self, cluster: ast.Ident) -> ast.Ident:
        return cluster

    def own_index(self, statement: ast.CreateIndex, relation: ast.Name) -> ast.Ident:
        assert statement.name is not None
        return statement.name

    def used(self, name: ast.Name) -> str:
        self.names.append(qualified_name(*(part.value for part in name.parts)))
        return self.names[-1]

    def exported(self, name: ast.Name) -> str:
        return self.used(name)

    def cluster(self, cluster: ast.Ident | None) -> ast.Ident | None:
        if cluster is not None:
            self.used(_as_name(cluster))
        return cluster

    def query(self, query: ast.Query) -> ast.Query:
        from sinkql.planner.query.rename import rename_query  # loads sqlglot

        return rename_query(query, self.used)


def _rewrite(statement: ast.Create, names: _Names) -> ast.Create:
    match statement:
        case ast.CreateSecret():
            return replace(statement, name=_own_name(statement.name, names), if_not_exists=False)
        case ast.CreateConnection():
            return replace(
                statement,
                name=_own_name(statement.name, names),
                options=_options(statement.options, names),
                validate=None,
                if_not_exists=False,
            )
        case ast.CreateCluster():
            return replace(statement, name=names.own_cluster(statement.name), if_not_exists=False)
        case ast.CreateSource():
            return replace(
                statement,
                name=_own_name(statement.name, names),
                options=_options(statement.options, names),
                connection=_optional_name(statement.connection, names.used),
                cluster=names.cluster(statement.cluster) if statement.cluster else None,
                format=_schema(statement.format, names),
                key_format=_schema(statement.key_format, names),
                with_options=_options(statement.with_options, names),
                check=_check(statement.check, names),
                if_not_exists=False,
            )
        case ast.CreateView():
            return replace(
                statement,
                name=_own_name(statement.name, names),
                query=names.query(statement.query),
                cluster=names.cluster(statement.cluster) if statement.materialized else None,
                if_not_exists=False,
                or_replace=False,
            )
        case ast.CreateSink():
            return replace(
                statement,
                name=_own_name(statement.name, names) if statement.name else None,
                relation=_name(split_name(names.exported(statement.relation)), statement.relation),
                connection=_name(split_name(names.used(statement.connection)), statement.connection),
                using=_using(statement.using, names),
                options=_options(statement.options, names),
                cluster=names.cluster(statement.cluster),
                format=_schema(statement.format, names),
                key_format=_schema(statement.key_format, names),
                with_options=_options(statement.with_options, names),
                if_not_exists=False,
            )
        case ast.CreateTable():
            return replace(statement, name=_own_name(statement.name, names), if_not_exists=False)
        case ast.CreateDatabase():
            return replace(statement, name=names.own_cluster(statement.name), if_not_exists=False)
        case ast.CreateSchema():
            return replace(statement, name=_name(names.own_schema(statement.name), statement.name), if_not_exists=False)
        case ast.CreateTableFrom():
            return replace(
                statement,
                name=_own_name(statement.name, names),
                source=_optional_name(statement.source, names.used),
                with_options=_options(statement.with_options, names),
                check=_check(statement.check, names),
                if_not_exists=False,
            )
        case ast.CreateProgress():
            return replace(
                statement,
                name=_own_name(statement.name, names),
                source=_name(split_name(names.used(statement.source)), statement.source),
                if_not_exists=False,
            )
        case ast.CreateIndex():
            relation = _name(split_name(names.used(statement.relation)), statement.relation)
            index = names.own_index(statement, relation)
            return replace(statement, name=index, relation=relation, cluster=None, if_not_exists=False)


def _schema(format_: ast.Format | None, names: _Names) -> ast.Format | None:
    """Return a format with a registry schema, whose options may document a relation and its columns."""
    if format_ is None or format_.schema is None:
        return format_
    schema = format_.schema
    options = tuple(_doc_option(option, names) for option in schema.options)
    return replace(
        format_, schema=replace(schema, connection=_optional_name(schema.connection, names.used), options=options)
    )


def _doc_option(option: ast.Option, names: _Names) -> ast.Option:
    """Return DOC ON TYPE relation, or DOC ON COLUMN relation.column, with full names."""
    if not (isinstance(option.value, ast.Phrase) and isinstance(option.value.value, ast.Word)):
        return option
    name = option.value.value.name
    column = name.parts[-1:] if option.name.endswith("COLUMN") else ()
    if len(name.parts) == len(column):
        return option  # planning raises the error
    relation = ast.Name(name.parts[: len(name.parts) - len(column)], name.span)
    full = _name((*split_name(names.exported(relation)), *(part.value for part in column)), name)
    return replace(option, value=replace(option.value, value=replace(option.value.value, name=full)))


def _check(check: ast.Check | None, names: _Names) -> ast.Check | None:
    """Return the check of a webhook; a secret without an alias keeps its name in the check as alias."""
    if check is None:
        return None
    inputs = [
        replace(input_, secret=_optional_name(input_.secret, names.used), alias=input_.alias or input_.secret.parts[-1])
        if input_.secret is not None
        else input_
        for input_ in check.inputs
    ]
    return replace(check, inputs=tuple(inputs))


def _as_name(ident: ast.Ident) -> ast.Name:
    return ast.Name((ident,), ident.span)


def _name(parts: tuple[str, ...], written: ast.Name) -> ast.Name:
    return ast.Name(tuple(ast.Ident(part, written.span) for part in parts), written.span)


def _own_name(name: ast.Name, names: _Names) -> ast.Name:
    return _name(names.item_name(name), name)


def _optional_name(name: ast.Name | None, used: Callable[[ast.Name], str]) -> ast.Name | None:
    return _name(split_name(used(name)), name) if name is not None else None


def _using(using: ast.Using | None, names: _Names) -> ast.Using | None:
    if using is None:
        return None
    return replace(using, connection=_name(split_name(names.used(using.connection)), using.connection))


def _with_texts(statement: ast.Create, words: Keywords) -> ast.Create:
    """Return the statement with a value for each option, and strings for words that are not item names.

    The types of the options decide. The printed statement then needs no connector to be read.
    """
    match statement:
        case ast.CreateConnection():
            return replace(statement, options=_as_texts(statement.options, words.options("CONNECTION", statement.kind)))
        case ast.CreateSource():
            definitions = words.options("SOURCE", statement.kind)
            return replace(
                statement,
                options=_as_texts(statement.options, definitions),
                with_options=_as_texts(statement.with_options, definitions),
                format=_format(statement.format, words),
            )
        case ast.CreateSink():
            definitions = words.options("SINK", statement.kind)
            return replace(
                statement,
                options=_as_texts(statement.options, definitions),
                with_options=_as_texts(statement.with_options, definitions),
                format=_format(statement.format, words),
            )
        case _:
            return statement


def _format(format_: ast.Format | None, words: Keywords) -> ast.Format | None:
    return (
        replace(format_, options=_as_texts(format_.options, words.options("FORMAT", format_.name))) if format_ else None
    )


def _as_texts(options: tuple[ast.Option, ...], words: OptionWords | None) -> tuple[ast.Option, ...]:
    references = words.references if words is not None else frozenset()
    return tuple(replace(option, value=_text(option, references)) for option in options)


def _text(option: ast.Option, references: frozenset[str]) -> ast.Value:
    match option.value:
        case None:
            return ast.Boolean(True, option.span)
        case ast.Word(name=name) if option.name not in references:
            return ast.Text(name.value, option.value.span)
        case value:
            return value


def _options(options: tuple[ast.Option, ...], names: _Names) -> tuple[ast.Option, ...]:
    return tuple(_option(option, names) for option in options)


def _option(option: ast.Option, names: _Names) -> ast.Option:
    match option.value:
        case ast.Word() as word:
            return replace(option, value=replace(word, name=_name(split_name(names.used(word.name)), word.name)))
        case ast.SecretRef() as secret:
            return replace(option, value=_secret(secret, names))
        case ast.Concat() as concat:
            parts = tuple(_secret(part, names) if isinstance(part, ast.SecretRef) else part for part in concat.parts)
            return replace(option, value=replace(concat, parts=parts))
        case ast.Phrase() as phrase:
            return replace(option, value=_tunnel(phrase, names))
        case ast.Sequence(items=items) as sequence:
            through = tuple(_tunnel(item, names) if isinstance(item, ast.Phrase) else item for item in items)
            return replace(option, value=replace(sequence, items=through))
        case _:
            return option


def _tunnel(phrase: ast.Phrase, names: _Names) -> ast.Phrase:
    """Return `'host:9092' USING SSH TUNNEL name` with the connection's full name."""
    then = phrase.then
    if then is None or not then.words.startswith("USING") or not isinstance(then.value, ast.Word):
        return phrase
    name = then.value.name
    full = replace(then.value, name=_name(split_name(names.used(name)), name))
    return replace(phrase, then=replace(then, value=full))


def _secret(secret: ast.SecretRef, names: _Names) -> ast.SecretRef:
    return replace(secret, name=_name(split_name(names.used(secret.name)), secret.name))
