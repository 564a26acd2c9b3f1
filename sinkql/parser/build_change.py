"""The trees of statements that change rows, and of transactions → ast."""

from __future__ import annotations

from lark import Token

from sinkql import ast
from sinkql.parser import tree
from sinkql.parser.tree import Node, child, children, ident, span, the_name, the_token, token, words


def insert(node: Node) -> ast.Insert:
    """Return the statement of an `insert` node."""
    columns, returning, query = child(node, "columns"), child(node, "returning"), token(node, "QUERY")
    return ast.Insert(
        table=the_name(node),
        query=ast.Query(str(query), span(query)) if query is not None else None,
        columns=tree.idents(columns) if columns is not None else (),
        returning=expression(the_token(returning, "EXPRESSIONS")) if returning is not None else None,
        span=span(node),
    )


def delete(node: Node) -> ast.Delete:
    """Return the statement of a `delete` node."""
    using = child(node, "using")
    return ast.Delete(
        table=the_name(node),
        alias=_alias(node),
        using=expression(the_token(using, "EXPRESSIONS")) if using is not None else None,
        where=_where(node),
        span=span(node),
    )


def transaction(node: Node) -> ast.Transaction:
    """Return the statement of a `begin`, `commit`, `rollback` or `set_transaction` node."""
    modes = child(node, "transaction_modes")
    return ast.Transaction(
        action="SET" if node.data == "set_transaction" else str(node.data).upper(),
        modes=tuple(_mode(each) for each in children(modes, "transaction_mode")) if modes is not None else (),
        chain=child(node, "chain") is not None,
        span=span(node),
    )


def _mode(node: Node) -> str:
    isolation = child(node, "isolation")
    return f"ISOLATION LEVEL {words(isolation)}" if isolation is not None else words(node)


def _alias(node: Node) -> ast.Ident | None:
    found = child(node, "alias")
    return ident(the_token(found, "NAME")) if found is not None else None


def _where(node: Node) -> ast.Expression | None:
    found = child(node, "row_condition")
    return expression(the_token(found, "CONDITION")) if found is not None else None


def expression(found: Token) -> ast.Expression:
    """Return the expression that a token holds as text."""
    return ast.Expression(str(found), span(found))
