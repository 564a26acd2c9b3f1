"""Resolve the names in a query over system relations to views of the catalog file, and columns to their relations.

It also rewrites the syntax that only Postgres tools use.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.schema import MappingSchema

from sinkql.catalog.system import ON_PATH, RELATIONS
from sinkql.catalog.system.relation import Relation
from sinkql.errors import NoFormError, SinkqlError, Span, nearest
from sinkql.planner.query.select import output_name
from sinkql.planner.syntax.sqlglot_tree import Syntax

VIEWS = {relation.view: relation for relation in RELATIONS.values()}
"""The system relations by the names of their views."""
_DIALECT = "materialize"
_SYSTEM = ("mz_catalog", "mz_internal", "pg_catalog", "information_schema")
_ALL = "Run SELECT schema_id, name FROM mz_relations to list all relations."
_NAMED = (exp.Table, exp.Subquery, exp.CTE)


def resolve(tree: exp.Query, syntax: Syntax) -> exp.Query:
    """Return the query over views, with each column qualified by its relation.

    Raises SQ2980 (another relation), SQ2202 (unknown relation), SQ2204, SQ2205 and SQ2222.
    """
    for part in tree.find_all(exp.Select):
        _name_outputs(part, syntax)
    _to_views(tree, syntax)
    return _qualify(tree, syntax)


def _name_outputs(select: exp.Select, syntax: Syntax) -> None:
    """Name unnamed outputs as in any query."""
    for output in list(select.expressions):
        star = isinstance(output, exp.Star) or (isinstance(output, exp.Column) and isinstance(output.this, exp.Star))
        if not star and not isinstance(output, exp.Column | exp.Alias):
            named = exp.alias_(output.copy(), output_name(syntax, output), quoted=True)
            named.meta.update(output.meta)
            output.replace(named)


def _qualify(tree: exp.Query, syntax: Syntax) -> exp.Query:
    """Return the tree with qualified columns; raise SQ2204 if a column does not exist."""
    try:
        done = qualify(tree.copy(), dialect=_DIALECT, schema=_columns(), validate_qualify_columns=False)
    except OptimizeError as error:
        match = re.search(r"[Cc]olumn:? ['\"]*([^'\"\s]+)", str(error))
        name = match[1] if match else str(error)
        if name.isdigit():
            raise _position_error(tree, syntax, name) from error
        column = next((candidate for candidate in tree.find_all(exp.Column) if candidate.name == name), None)
        raise _unknown_column_error(tree, syntax, column, name) from error
    for scope in traverse_scope(done):
        for column in scope.unqualified_columns if isinstance(scope.expression, exp.Select) else ():
            raise _unknown_column_error(tree, syntax, column, column.name)
        if scope.external_columns and not scope.is_correlated_subquery:
            raise _unknown_column_error(tree, syntax, scope.external_columns[0], scope.external_columns[0].name)
    assert isinstance(done, exp.Query)
    return done


@cache
def _columns() -> MappingSchema:
    columns = {
        system_relation.view: {column.name: "text" for column in system_relation.columns}
        for system_relation in RELATIONS.values()
    }
    return MappingSchema(columns, dialect=_DIALECT)


def _position_error(tree: exp.Query, syntax: Syntax, number: str) -> SinkqlError:
    terms = [term_ for term_ in tree.find_all(exp.Literal) if term_.name == number and not term_.is_string]
    term = next(
        (term_ for term_ in terms if isinstance(term_.parent, exp.Ordered | exp.Group)), terms[0] if terms else tree
    )
    return SinkqlError("SQ2222", f"position {number} is not in the select list", syntax.span(term))


def _unknown_column_error(tree: exp.Query, syntax: Syntax, column: exp.Column | None, name: str) -> SinkqlError:
    if column is not None and column.table and not any(t.alias_or_name == column.table for t in tree.find_all(*_NAMED)):
        message = f'relation "{column.table}" is not in FROM'
        raise SinkqlError("SQ2202", message, _span(syntax, column.args["table"]), hint="Use a name from FROM.")
    used = [VIEWS[table.name] for table in tree.find_all(exp.Table) if table.name in VIEWS]
    holders = sum(name in relation.names for relation in used)
    span = _span(syntax, column.this if column is not None else None)
    if holders > 1 and column is not None and not column.table:
        hint = f"Name the relation: {used[0].name}.{name}."
        return SinkqlError("SQ2205", f'column "{name}" is ambiguous', span, hint=hint)
    choices = sorted({column_name for relation in used for column_name in relation.names})
    near = nearest(name, choices)
    hint = f'Did you mean "{near}"?' if near else f"The columns are {', '.join(choices)}."
    return SinkqlError("SQ2204", f'column "{name}" does not exist', span, hint=hint)


def _to_views(tree: exp.Query, syntax: Syntax) -> None:
    """Replace the names of system relations by the names of their views, and refuse other names."""
    views = {id(table) for table in tree.find_all(exp.Table) if not _is_with_query(table)}
    for table in [named_table for named_table in tree.find_all(exp.Table) if id(named_table) in views]:
        relation = _relation(table)
        if relation is None:
            raise _unknown_relation_error(table, syntax)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(relation.name)))
        table.set("this", exp.to_identifier(relation.view))
        table.set("db", None)
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)


def _relation(table: exp.Table) -> Relation | None:
    """Return the system relation that a name refers to; None if it is not one."""
    name = (
        table.name if isinstance(table.this, exp.Identifier) and table.this.args.get("quoted") else table.name.lower()
    )
    schemas = (table.db.lower(),) if table.db else ON_PATH
    return next((RELATIONS[schema, name] for schema in schemas if (schema, name) in RELATIONS), None)


def _is_with_query(table: exp.Table) -> bool:
    """Return whether a name refers to a WITH query of an enclosing SELECT."""
    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    node: exp.Expr | None = table
    while node is not None:
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With) and any(with_query.alias == table.name for with_query in with_.expressions):
            return True
        node = node.parent
    return False


def _unknown_relation_error(table: exp.Table, syntax: Syntax) -> SinkqlError:
    name, span = table.name, _span(syntax, table.this)
    relation = next(
        (system_relation for system_relation in RELATIONS.values() if system_relation.name == name.lower()), None
    )
    if relation is not None and not table.db:
        hint = f"Write {relation.schema}.{relation.name}."
        return SinkqlError("SQ2202", f'system relation "{name}" is not in search_path', span, hint=hint)
    if name.lower().startswith(("mz_", "pg_")) or table.db.lower() in _SYSTEM:
        near = nearest(name, tuple(system_relation.name for system_relation in RELATIONS.values()))
        suggestion = next(
            (system_relation for system_relation in RELATIONS.values() if system_relation.name == near), None
        )
        hint = f"Did you mean {suggestion.schema}.{suggestion.name}?" if suggestion else _ALL
        return SinkqlError(
            "SQ2202", f'system relation "{table.db + "." if table.db else ""}{name}" does not exist', span, hint=hint
        )
    shown = name or table.sql(_DIALECT)
    return NoFormError(
        "SQ2980",
        f'a query over both "{shown}" and system relations is not supported yet',
        span,
        hint="Write a separate query for the system catalog.",
    )


def _span(syntax: Syntax, node: Any) -> Span:
    """Return the span of a node's identifier; the whole query if it has none."""
    identifier = node.find(exp.Identifier) if node is not None else None
    meta = identifier.meta if identifier is not None else {}
    if "start" not in meta:
        return Span(syntax.offset, syntax.offset + len(syntax.text))
    return Span(meta["start"], meta["end"] + 1).shifted(syntax.offset)


_SCHEMAS = ("pg_catalog", "mz_catalog", "mz_internal", "information_schema")
_WORDS = {
    exp.CurrentSchema: "current_schema", exp.CurrentUser: "current_user", exp.CurrentCatalog: "current_catalog",
    exp.SessionUser: "session_user",
}  # fmt: skip
_MATCHES: dict[str, type[exp.Expr]] = {"~": exp.RegexpLike, "~*": exp.RegexpILike}
_COLLATION = "default"


def without_postgres(tree: exp.Query) -> exp.Query:
    """Return the tree without Postgres-only syntax: schemas of functions and operators, and the default collation."""
    for node in reversed(list(tree.walk())):  # inner nodes first
        changed = _change(node)
        if changed is not node:
            changed._meta = {**node.meta, **changed.meta}  # the new node's position wins, if it has one
            node.replace(changed)
    return tree


def _change(node: Any) -> Any:
    match node:
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Anonymous() as call) if _system(schema):
            return call
        case exp.Collate() if node.expression.name.lower() == _COLLATION:
            return node.this
        case exp.Operator():
            return _operator(node)
        case exp.CurrentSchema() | exp.CurrentUser() | exp.CurrentCatalog() | exp.SessionUser():
            return exp.Anonymous(this=_WORDS[type(node)])
        case _:
            return node


def _system(schema: exp.Identifier) -> bool:
    return schema.name.lower() in _SCHEMAS


def _operator(node: Any) -> Any:
    """Return the expression for OPERATOR(pg_catalog.~) and similar operators."""
    sign = str(node.args["operator"]).rpartition(".")[2].strip()
    class_ = _MATCHES.get(sign.removeprefix("!"))
    if class_ is None:
        return node
    match_ = class_(this=node.this, expression=node.expression)
    match_.meta.update(node.meta)
    return exp.not_(match_) if sign.startswith("!") else match_
