"""The trees of statements that change rows, of transactions and of SUBSCRIBE → ast."""

from __future__ import annotations

from sinkql import ast
from sinkql import words as vocabulary
from sinkql.errors import SinkqlError
from sinkql.parser import tree, value
from sinkql.parser.tree import Node, child, children, ident, span, the_name, the_token, token, words


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


def subscribe(node: Node) -> ast.Subscribe:
    """Return the statement of a `subscribe` node. Raises SQ1021 for an output that is given twice."""
    outputs = children(node, "output_envelope", "output_order")
    if len(outputs) > 1:
        raise SinkqlError("SQ1021", "the output is given twice", span(outputs[1]), hint="Keep one of them.")
    query, as_of, up_to = token(node, "QUERY"), child(node, "as_of"), child(node, "up_to")
    return ast.Subscribe(
        relation=tree.query(query) if query is not None else the_name(node),
        output=_output(outputs[0]) if outputs else None,
        options=value.with_options(node),
        as_of=tree.expression(the_token(as_of, "EXPRESSION")) if as_of is not None else None,
        at_least=as_of is not None and child(as_of, "at_least") is not None,
        up_to=tree.expression(the_token(up_to, "EXPRESSION")) if up_to is not None else None,
        span=span(node),
    )


def _output(node: Node) -> ast.Expression:
    if node.data == "output_order":
        return ast.Expression(f"WITHIN TIMESTAMP ORDER BY {the_token(node, 'EXPRESSIONS')}", span(node))
    form, columns = words(children(node, "change_form")[0]), tree.idents(children(node, "columns")[0])
    key = ", ".join(_quoted(column.value) for column in columns)
    return ast.Expression(f"ENVELOPE {form} (KEY ({key}))", span(node))


def _quoted(name: str) -> str:
    plain = name.isascii() and name.isidentifier() and name.islower() and name.upper() not in vocabulary.QUOTED
    return name if plain else '"' + name.replace('"', '""') + '"'


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
    return tree.expression(the_token(found, "CONDITION")) if found is not None else None
