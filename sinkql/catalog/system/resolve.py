"""The names in a query over system relations → the views of the catalog file, and whose each column is.

A query as Postgres's tools write it → the same in what SinkQL plans, by rewriting its tree.
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

VIEWS = {each.view: each for each in RELATIONS.values()}
"""The system relations by the names of their views."""
_DIALECT = "materialize"
_SYSTEM = ("mz_catalog", "mz_internal", "pg_catalog", "information_schema")
_ALL = "SELECT schema_id, name FROM mz_relations lists what there is."
_NAMED = (exp.Table, exp.Subquery, exp.CTE)


def resolve(tree: exp.Query, syntax: Syntax) -> exp.Query:
    """Return the query over views, every column with its relation.

    Raises SQ2980 (another relation), SQ2202 (a relation that is not there), SQ2204, SQ2205 and SQ2222.
    """
    for part in tree.find_all(exp.Select):
        _name_outputs(part, syntax)
    _to_views(tree, syntax)
    return _qualified(tree, syntax)


def _name_outputs(select: exp.Select, syntax: Syntax) -> None:
    """Name unnamed outputs as any query does."""
    for output in list(select.expressions):
        star = isinstance(output, exp.Star) or (isinstance(output, exp.Column) and isinstance(output.this, exp.Star))
        if not star and not isinstance(output, exp.Column | exp.Alias):
            named = exp.alias_(output.copy(), output_name(syntax, output), quoted=True)
            named.meta.update(output.meta)
            output.replace(named)


def _qualified(tree: exp.Query, syntax: Syntax) -> exp.Query:
    """Return the tree with every column tied to its relation; raises SQ2204 for one that does not exist."""
    try:
        done = qualify(tree.copy(), dialect=_DIALECT, schema=_columns(), validate_qualify_columns=False)
    except OptimizeError as error:
        named = re.search(r"[Cc]olumn:? ['\"]*([^'\"\s]+)", str(error))
        name = named[1] if named else str(error)
        if name.isdigit():
            raise _no_position(tree, syntax, name) from error
        column = next((each for each in tree.find_all(exp.Column) if each.name == name), None)
        raise _unknown_column(tree, syntax, column, name) from error
    for scope in traverse_scope(done):
        for column in scope.unqualified_columns if isinstance(scope.expression, exp.Select) else ():
            raise _unknown_column(tree, syntax, column, column.name)
        if scope.external_columns and not scope.is_correlated_subquery:
            raise _unknown_column(tree, syntax, scope.external_columns[0], scope.external_columns[0].name)
    assert isinstance(done, exp.Query)
    return done


@cache
def _columns() -> MappingSchema:
    columns = {each.view: {column.name: "text" for column in each.columns} for each in RELATIONS.values()}
    return MappingSchema(columns, dialect=_DIALECT)


def _no_position(tree: exp.Query, syntax: Syntax, number: str) -> SinkqlError:
    terms = [each for each in tree.find_all(exp.Literal) if each.name == number and not each.is_string]
    term = next(
        (each for each in terms if isinstance(each.parent, exp.Ordered | exp.Group)), terms[0] if terms else tree
    )
    return SinkqlError("SQ2222", f"position {number} is not in the select list", syntax.span(term))


def _unknown_column(tree: exp.Query, syntax: Syntax, column: exp.Column | None, name: str) -> SinkqlError:
    if column is not None and column.table and not any(t.alias_or_name == column.table for t in tree.find_all(*_NAMED)):
        message = f'relation "{column.table}" is not in FROM'
        raise SinkqlError("SQ2202", message, _span(syntax, column.args["table"]), hint="Use a name that FROM gives.")
    used = [VIEWS[table.name] for table in tree.find_all(exp.Table) if table.name in VIEWS]
    holders = sum(name in relation.names for relation in used)
    span = _span(syntax, column.this if column is not None else None)
    if holders > 1 and column is not None and not column.table:
        hint = f"Name the relation: {used[0].name}.{name}."
        return SinkqlError("SQ2205", f'column "{name}" is ambiguous', span, hint=hint)
    choices = sorted({each for relation in used for each in relation.names})
    near = nearest(name, choices)
    hint = f'Did you mean "{near}"?' if near else f"The columns are {', '.join(choices)}."
    return SinkqlError("SQ2204", f'column "{name}" does not exist', span, hint=hint)


def _to_views(tree: exp.Query, syntax: Syntax) -> None:
    """Turn the names of system relations into those of the views in the file, and refuse all others."""
    views = {id(table) for table in tree.find_all(exp.Table) if not _of_query(table)}
    for table in [each for each in tree.find_all(exp.Table) if id(each) in views]:
        relation = _relation(table)
        if relation is None:
            raise _unknown_relation(table, syntax)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(relation.name)))
        table.set("this", exp.to_identifier(relation.view))
        table.set("db", None)
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)


def _relation(table: exp.Table) -> Relation | None:
    """Return the system relation that a name stands for, if it does."""
    name = (
        table.name if isinstance(table.this, exp.Identifier) and table.this.args.get("quoted") else table.name.lower()
    )
    schemas = (table.db.lower(),) if table.db else ON_PATH
    return next((RELATIONS[schema, name] for schema in schemas if (schema, name) in RELATIONS), None)


def _of_query(table: exp.Table) -> bool:
    """Tell whether a name stands for a WITH query of a SELECT around it."""
    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    node: exp.Expr | None = table
    while node is not None:
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With) and any(each.alias == table.name for each in with_.expressions):
            return True
        node = node.parent
    return False


def _unknown_relation(table: exp.Table, syntax: Syntax) -> SinkqlError:
    name, span = table.name, _span(syntax, table.this)
    relation = next((each for each in RELATIONS.values() if each.name == name.lower()), None)
    if relation is not None and not table.db:
        hint = f"Write {relation.schema}.{relation.name}."
        return SinkqlError("SQ2202", f'system relation "{name}" is not in search_path', span, hint=hint)
    if name.lower().startswith(("mz_", "pg_")) or table.db.lower() in _SYSTEM:
        near = nearest(name, tuple(each.name for each in RELATIONS.values()))
        found = next((each for each in RELATIONS.values() if each.name == near), None)
        hint = f"Did you mean {found.schema}.{found.name}?" if found else _ALL
        return SinkqlError(
            "SQ2202", f'system relation "{table.db + "." if table.db else ""}{name}" does not exist', span, hint=hint
        )
    shown = name or table.sql(_DIALECT)
    return NoFormError(
        "SQ2980",
        f'a query over both "{shown}" and system relations is not supported yet',
        span,
        hint="Query the system catalog by itself.",
    )


def _span(syntax: Syntax, node: Any) -> Span:
    """Return where a node with an identifier stands; all of the query for one without."""
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
    """Return the tree without what only Postgres has: schemas of functions and operators, its own collation."""
    for node in reversed(list(tree.walk())):  # what is inside comes before what holds it
        changed = _change(node)
        if changed is not node:
            changed._meta = {**node.meta, **changed.meta}  # its place is its own, if it has one
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
    """Return what OPERATOR(pg_catalog.~) and its like are."""
    sign = str(node.args["operator"]).rpartition(".")[2].strip()
    class_ = _MATCHES.get(sign.removeprefix("!"))
    if class_ is None:
        return node
    match_ = class_(this=node.this, expression=node.expression)
    match_.meta.update(node.meta)
    return exp.not_(match_) if sign.startswith("!") else match_
