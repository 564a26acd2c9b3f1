"""The tree of a statement, and access to its parts by name: children, tokens, spans."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import ast
from sinkql.errors import SinkqlError, Span

_MOST_PARTS = 3


class Token(str):
    """A terminal's text or value, and its span."""

    __slots__ = ("span", "type")

    type: str
    span: Span

    @classmethod
    def of(cls, type_: str, text: str, place: Span) -> Token:
        """Return the token of a terminal."""
        made = cls(text)
        made.type, made.span = type_, place
        return made


@dataclass(slots=True, eq=False)
class Node:
    """A rule of the grammar in the tree; `whole` is its span with brackets around it.

    Both spans are None for an empty node.
    """

    data: str
    children: list[Node | Token]
    place: Span | None = None
    whole: Span | None = None


def child(node: Node, name: str) -> Node | None:
    """Return the first child of that name, None if it is missing."""
    return next(iter(children(node, name)), None)


def the_child(node: Node, name: str) -> Node:
    """Return the child that the grammar demands."""
    return next(iter(children(node, name)))


def children(node: Node, *names: str) -> list[Node]:
    """Return the children of these names, in order."""
    return [each for each in node.children if isinstance(each, Node) and each.data in names]


def only(node: Node) -> Node:
    """Return the first child that is not a token."""
    return next(each for each in node.children if isinstance(each, Node))


def token(node: Node, terminal: str) -> Token | None:
    """Return the first token of that terminal, None if it is missing."""
    return next(iter(tokens(node, terminal)), None)


def the_token(node: Node, terminal: str) -> Token:
    """Return the token of a terminal that the grammar requires."""
    return next(iter(tokens(node, terminal)))


def tokens(node: Node, terminal: str) -> list[Token]:
    """Return the tokens of that terminal, in order."""
    return [each for each in node.children if isinstance(each, Token) and each.type == terminal]


def words(node: Node) -> str:
    """Return the keywords of a node, in upper case."""
    return " ".join(each.upper() for each in node.children if isinstance(each, Token))


def span(node: Node | Token) -> Span:
    """Return the span of a node, from its first to its last token."""
    place = node.span if isinstance(node, Token) else node.place
    if place is None:
        raise LookupError(node)
    return place


def query(found: Token) -> ast.Query:
    """Return the query, or the condition, that a token holds as text."""
    return ast.Query(str(found), span(found))


def ident(found: Token) -> ast.Ident:
    """Return the identifier of a NAME token."""
    return ast.Ident(str(found), span(found))


def expression(found: Token) -> ast.Expression:
    """Return the expression, or the list of expressions, of an EXPRESSION or EXPRESSIONS token."""
    return ast.Expression(str(found), span(found))


def idents(node: Node) -> tuple[ast.Ident, ...]:
    """Return all NAME tokens of a node."""
    return tuple(ident(each) for each in tokens(node, "NAME"))


def name(node: Node, most: int = _MOST_PARTS) -> ast.Name:
    """Return the item name of a `name` node. Raises SQ1022 for a name of more than `most` parts."""
    parts = idents(node)
    if len(parts) > most:
        raise SinkqlError(
            "SQ1022",
            f"name has {len(parts)} parts, at most {most} are allowed",
            span(node),
            hint="Write database.schema.item." if most == _MOST_PARTS else "Write database.schema.item.column.",
        )
    return ast.Name(parts, span(node))


def all_names(node: Node) -> tuple[ast.Name, ...]:
    """Return the names directly below a node, in order."""
    return tuple(name(each) for each in children(node, "name"))


def names(node: Node) -> tuple[ast.Name, ...]:
    """Return the list of names below a node."""
    return all_names(children(node, "names")[0])


def cascade(node: Node, *, unless_said: bool = False) -> bool:
    """Return whether CASCADE applies, by the `drop_rule` below a node; `unless_said` is the default."""
    rule = child(node, "drop_rule")
    return unless_said if rule is None else words(rule) == "CASCADE"


def child_name(node: Node, holder: str | None = None) -> ast.Name | None:
    """Return the name below a node, or below its child called `holder`."""
    inner = child(node, holder) if holder else node
    found = child(inner, "name") if inner is not None else None
    return name(found) if found is not None else None


def the_name(node: Node) -> ast.Name:
    """Return the name that the grammar requires below a node."""
    return name(children(node, "name")[0])


def cluster(node: Node) -> ast.Ident | None:
    """Return the cluster of IN CLUSTER."""
    found = child(node, "in_cluster")
    return ident(the_token(found, "NAME")) if found is not None else None
