"""Tree of what stands after CREATE SECRET … AS → ast."""

from __future__ import annotations

from sinkql import ast, words
from sinkql.errors import SinkqlError, nearest
from sinkql.parser import value
from sinkql.parser.tree import Node, children, span, the_token


def secret_value(node: Node) -> ast.SecretValue:
    """Return the value below a statement's node. Raises SQ1024 for an unknown function, SQ1025 for wrong arguments."""
    found = children(node, "text", "joined", "call")[0]
    if found.data == "joined":
        return ast.Joined(tuple(_part(each) for each in children(found, "text", "call")), span(found))
    return _part(found)


def _part(node: Node) -> ast.Text | ast.Call:
    return value.text(node) if node.data == "text" else _call(node)


def _call(node: Node) -> ast.Call:
    function = the_token(node, "NAME")
    arguments = tuple(value.text(each) for each in children(node, "text"))
    if function not in words.SECRET_FUNCTIONS:
        near = nearest(function, tuple(words.SECRET_FUNCTIONS))
        raise SinkqlError(
            "SQ1024",
            f'there is no secret function "{function}"',
            span(function),
            hint=f"Did you mean {near}?" if near else f"They are {', '.join(words.SECRET_FUNCTIONS)}.",
        )
    names = words.SECRET_FUNCTIONS[function]
    counts = (1, 2) if function == "aws_secret" else (len(names),)
    if len(arguments) not in counts:
        wanted = "one string" if counts == (1,) else f"{' or '.join(str(count) for count in counts)} strings"
        shown = ", ".join(f"'{name}'" for name in names)
        raise SinkqlError(
            "SQ1025",
            f"{function} takes {wanted}, not {len(arguments)}",
            span(node),
            hint=f"Write {function}({shown}).",
        )
    return ast.Call(str(function), arguments, span(node))
