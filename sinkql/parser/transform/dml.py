"""Transform the trees of CREATE TABLE, INDEX, SCHEMA and DATABASE, and of statements that change rows."""

from __future__ import annotations

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser.read import tree
from sinkql.parser.read.tree import Node, child, children, ident, span, the_name, the_token, token
from sinkql.parser.transform import value
from sinkql.parser.transform.create import envelope, formats, includes, pushed, type_name

_KINDS = {
    "nullable": "NULL",
    "default_value": "DEFAULT",
    "primary": "PRIMARY KEY",
    "unique": "UNIQUE",
    "references": "REFERENCES",
    "check": "CHECK",
    "foreign": "FOREIGN KEY",
}
_SCHEMA_PARTS = 2


def table(node: Node) -> ast.CreateTable:
    """Return the statement of a `create_table` node."""
    parts = children(node, "table_parts")[0]
    return ast.CreateTable(
        name=the_name(node),
        columns=tuple(column(each) for each in children(parts, "table_column")),
        constraints=tuple(_table_constraint(each) for each in children(parts, "table_constraint")),
        with_options=with_or_empty(node),
        temporary=child(node, "temporary") is not None,
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
    )


def table_from(node: Node) -> ast.CreateTableFrom:
    """Return the statement of a `create_table_from` node."""
    names = [tree.name(each) for each in children(node, "name")]
    parts, untyped, origin = child(node, "table_parts"), child(node, "columns"), child(node, "pushed")
    if origin is not None:
        format_, include, check = pushed(origin)
        return ast.CreateTableFrom(
            names[0],
            None,
            format=format_,
            include=include,
            check=check,
            with_options=value.with_options(origin),
            kind=str(the_token(origin, "KIND")),
            if_not_exists=child(node, "if_not_exists") is not None,
            span=span(node),
        )
    columns = tuple(column(each) for each in children(parts, "table_column")) if parts is not None else ()
    if untyped is not None:
        columns = tuple(ast.ColumnDef(each, span=each.span) for each in tree.idents(untyped))
    key_format, value_format = formats(node)
    envelope_, inline_errors = envelope(node)
    return ast.CreateTableFrom(
        names[0],
        names[1],
        reference=tree.child_name(node, "reference_option"),
        columns=columns,
        constraints=tuple(_table_constraint(each) for each in children(parts, "table_constraint"))
        if parts is not None
        else (),
        format=value_format,
        key_format=key_format,
        include=includes(node),
        envelope=envelope_,
        inline_errors=inline_errors,
        with_options=value.with_options(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
    )


def subsource(node: Node) -> ast.CreateTableFrom | ast.CreateProgress:
    """Return the statement of a `create_subsource` node."""
    name, source = (tree.name(each) for each in children(node, "name"))
    if child(node, "of_progress") is not None:
        return ast.CreateProgress(name, source, child(node, "if_not_exists") is not None, span=span(node))
    return ast.CreateTableFrom(
        name,
        source,
        reference=tree.child_name(node, "reference_option"),
        subsource=True,
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
    )


def index(node: Node) -> ast.CreateIndex:
    """Return the statement of a `create_index` node."""
    name, key = token(node, "NAME"), child(node, "index_key")
    return ast.CreateIndex(
        relation=the_name(node),
        name=ident(name) if name is not None else None,
        key=tuple(tree.expression(each) for each in tree.tokens(key, "EXPRESSION")) if key is not None else None,
        cluster=tree.cluster(node),
        with_options=with_or_empty(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
    )


def database(node: Node) -> ast.CreateDatabase:
    """Return the statement of a `create_database` node."""
    return ast.CreateDatabase(ident(the_token(node, "NAME")), child(node, "if_not_exists") is not None, span(node))


def schema(node: Node) -> ast.CreateSchema:
    """Return the statement of a `create_schema` node; raises SQ1022 for a name of more than two parts."""
    name = the_name(node)
    if len(name.parts) > _SCHEMA_PARTS:
        raise SinkqlError(
            "SQ1022",
            f"schema name has {len(name.parts)} parts, at most {_SCHEMA_PARTS} are allowed",
            name.span,
            hint="Write database.schema.",
        )
    return ast.CreateSchema(name, child(node, "if_not_exists") is not None, span(node))


def with_or_empty(node: Node) -> tuple[ast.Option, ...]:
    """Return the options of a WITH whose brackets may be empty."""
    found = child(node, "with_or_empty")
    return value.with_options(found) if found is not None else ()


def column(node: Node) -> ast.ColumnDef:
    """Return the column of a `table_column` node."""
    rules = [(each, _rule(each)) for each in children(node, "column_constraint")]
    return ast.ColumnDef(
        name=ident(the_token(node, "NAME")),
        type=type_name(children(node, "type")[0]),
        not_null=any(rule.data == "not_null" for _, rule in rules),
        collation=tree.child_name(node, "collation"),
        constraints=tuple(_column_constraint(each, rule) for each, rule in rules if rule.data != "not_null"),
        span=span(node),
    )


def _column_constraint(node: Node, rule: Node) -> ast.ColumnConstraint:
    referenced = child(rule, "columns")
    return ast.ColumnConstraint(
        _KINDS[rule.data],
        name=_constraint_name(node),
        expression=_expression(rule),
        table=tree.child_name(rule),
        referenced=tree.idents(referenced) if referenced is not None else (),
        span=span(node),
    )


def _table_constraint(node: Node) -> ast.TableConstraint:
    rule = _rule(node)
    columns, references = child(rule, "columns"), child(rule, "references")
    return ast.TableConstraint(
        _KINDS[rule.data],
        columns=tree.idents(columns) if columns is not None else (),
        name=_constraint_name(node),
        expression=_expression(rule),
        table=the_name(references) if references is not None else None,
        referenced=tree.idents(children(references, "columns")[0]) if references is not None else (),
        span=span(node),
    )


def _rule(node: Node) -> Node:
    return children(node, "not_null", *_KINDS)[0]


def _constraint_name(node: Node) -> ast.Ident | None:
    found = child(node, "constraint_name")
    return ident(the_token(found, "NAME")) if found is not None else None


def _expression(rule: Node) -> ast.Expression | None:
    found = token(rule, "EXPRESSION")
    return tree.expression(found) if found is not None else None


def insert(node: Node) -> ast.Insert:
    """Return the statement of an `insert` node."""
    columns, returning, query = child(node, "columns"), child(node, "returning"), token(node, "QUERY")
    return ast.Insert(
        table=the_name(node),
        query=tree.query(query) if query is not None else None,
        columns=tree.idents(columns) if columns is not None else (),
        returning=tree.expression(the_token(returning, "EXPRESSIONS")) if returning is not None else None,
        span=span(node),
    )


def update(node: Node) -> ast.Update:
    """Return the statement of an `update` node."""
    return ast.Update(
        table=the_name(node),
        assignments=tuple(_assignment(each) for each in children(node, "assignment")),
        alias=_alias(node),
        where=_where(node),
        span=span(node),
    )


def _assignment(node: Node) -> ast.Assignment:
    assigned = tree.expression(the_token(node, "EXPRESSION"))
    return ast.Assignment(ident(the_token(node, "NAME")), assigned, span(node))


def delete(node: Node) -> ast.Delete:
    """Return the statement of a `delete` node."""
    using = child(node, "using")
    return ast.Delete(
        table=the_name(node),
        alias=_alias(node),
        using=tree.expression(the_token(using, "EXPRESSIONS")) if using is not None else None,
        where=_where(node),
        span=span(node),
    )


def _alias(node: Node) -> ast.Ident | None:
    found = child(node, "alias")
    return ident(the_token(found, "NAME")) if found is not None else None


def _where(node: Node) -> ast.Expression | None:
    found = child(node, "row_condition")
    return tree.expression(the_token(found, "CONDITION")) if found is not None else None
