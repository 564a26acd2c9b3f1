"""Transform the trees of values, options, and secrets' values."""

from __future__ import annotations

import re
from dataclasses import replace

from sinkql import ast, keywords
from sinkql.errors import SinkqlError, Span, nearest, one_of
from sinkql.parser.read import tree
from sinkql.parser.read.tree import Node, child, children, only, span, the_name, the_token, token, words

_LOWER_CASE = "CATALOG TYPE"
_BARE_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*")
_PHRASES = {
    "phrase": "",
    "phrase_for": "FOR",
    "phrase_on_commit": "ON COMMIT",
    "phrase_at_creation": "AT CREATION",
    "phrase_at": "AT",
    "phrase_every": "EVERY",
    "phrase_on_refresh": "ON REFRESH",
    "phrase_on_hydration": "ON HYDRATION",
    "phrase_matching": "MATCHING",
    "aligned": "ALIGNED TO",
}
_OF_CONNECTIONS = {"USERNAME": "USER"}
_NO_VALUES = ("options", "through", "aligned")


def options(node: Node | None) -> tuple[ast.Option, ...]:
    """Return the options of an `options` or `bare_options` node; none without a node."""
    return tuple(option(each) for each in children(node, "option")) if node is not None else ()


def any_options(node: Node) -> tuple[ast.Option, ...]:
    """Return the options below a node, in brackets or without."""
    return options(child(node, "options") or child(node, "bare_options"))


def connection_options(options: tuple[ast.Option, ...]) -> tuple[ast.Option, ...]:
    """Return the options of a connection under their canonical names, for instance USER for USERNAME."""
    return tuple(replace(each, name=connection_option(each.name)) for each in options)


def connection_option(name: str) -> str:
    """Return the canonical name of a connection's option that has several names."""
    return _OF_CONNECTIONS.get(name, name)


def with_options(node: Node) -> tuple[ast.Option, ...]:
    """Return the options of the node's WITH clause."""
    found = child(node, "with_options")
    return any_options(found) if found is not None else ()


def validate(options: tuple[ast.Option, ...]) -> bool | None:
    """Return the value of WITH (VALIDATE = …); raises SQ1023 for anything else in a connection's WITH."""
    found = None
    for option in options:
        if option.name != "VALIDATE":
            raise _not_validate(f"connections have no WITH option {option.name}", option.name_span)
        if found is not None:
            raise _not_validate("VALIDATE is given twice", option.name_span)
        match option.value:
            case None:
                found = True
            case ast.Boolean(value=written):
                found = written
            case other:
                raise _not_validate("VALIDATE takes true or false", other.span)
    return found


def _not_validate(message: str, place: Span) -> SinkqlError:
    return SinkqlError("SQ1023", message, place, hint="Write WITH (VALIDATE = false).")


def option(node: Node) -> ast.Option:
    """Return the option of a node."""
    label = the_token(node, "LABEL")
    found = next((value(each) for each in node.children if isinstance(each, Node)), None)
    if label == _LOWER_CASE and isinstance(found, ast.Text):
        # the case of its words has no meaning; one spelling makes equal statements equal
        found = replace(found, value=found.value.lower())
    return ast.Option(str(label), found, span(node), span(label))


def value(node: Node) -> ast.Value:
    """Return the value of a `value` node of the grammar."""
    match node.data:
        case "text":
            return text(node)
        case "number":
            return number(node)
        case "boolean":
            return ast.Boolean(words(node) == "TRUE", span(node))
        case "null":
            return ast.Null(span(node))
        case "interval":
            return _interval(node)
        case "secret_ref":
            return ast.SecretRef(the_name(node), span(node))
        case "word":
            return ast.Word(the_name(node), span(node))
        case "dead_letter":
            return ast.Text("DEAD LETTER", span(node))
        case "concat":
            return concat(node)
        case "hex":
            found = the_token(node, "HEX")
            return ast.Hex(str(found)[2:-1], span(node))
        case "sequence":
            return ast.Sequence(tuple(value(each) for each in node.children if isinstance(each, Node)), span(node))
        case "map":
            return ast.Map(tuple(_entry(each) for each in children(node, "entry")), span(node))
    return phrase(node)


def phrase(node: Node) -> ast.Phrase:
    """Return the phrase of a `phrase` or `through` node of the grammar."""
    parts = [each for each in node.children if isinstance(each, Node) and each.data not in _NO_VALUES]
    written = next((_phrase_value(part) for part in parts), None)
    expression = token(node, "EXPRESSION")
    then = next(iter(children(node, "through", "aligned")), None)
    return ast.Phrase(
        _PHRASES[node.data] if node.data != "through" else f"USING {the_token(node, 'KIND')}",
        tree.expression(expression) if expression is not None else written,
        options(child(node, "options")),
        phrase(then) if then is not None else None,
        span(node),
    )


def _phrase_value(node: Node) -> ast.Value:
    return _interval(node) if node.data == "every" else value(node)


def text(node: Node) -> ast.Text:
    """Return the string of a `text` node."""
    return ast.Text(str(the_token(node, "STRING")), span(node))


def number(node: Node) -> ast.Number:
    """Return the number of a `number` node, with its sign."""
    found = the_token(node, "NUMBER")
    negative = span(node).start < span(found).start
    return ast.Number(f"-{found}" if negative else str(found), span(node))


def concat(node: Node) -> ast.Concat:
    """Return the strings and secrets of a `concat` node."""
    parts = tuple(value(each) for each in node.children if isinstance(each, Node))
    return ast.Concat(tuple(part for part in parts if isinstance(part, ast.Text | ast.SecretRef)), span(node))


def _interval(node: Node) -> ast.Interval:
    """Return an interval; a lone number counts the last of its units, other texts name their units themselves."""
    written = str(the_token(node, "STRING"))
    units = children(node, "unit")
    if units and _BARE_NUMBER.fullmatch(written):
        written = f"{written.strip()} {words(units[-1]).lower()}"
    return ast.Interval(written, span(node))


def _entry(node: Node) -> ast.MapEntry:
    return ast.MapEntry(str(the_token(node, "STRING")), value(only(node)))


def secret_value(node: Node) -> ast.SecretValue:
    """Return the value below a statement's node. Raises SQ1024 for an unknown function, SQ1025 for wrong arguments."""
    found = children(node, "text", "joined", "call")[0]
    if found.data == "joined":
        return ast.Joined(tuple(_secret_part(each) for each in children(found, "text", "call")), span(found))
    return _secret_part(found)


def _secret_part(node: Node) -> ast.Text | ast.Call:
    return text(node) if node.data == "text" else _secret_call(node)


def _secret_call(node: Node) -> ast.Call:
    function = the_token(node, "NAME")
    arguments = tuple(text(each) for each in children(node, "text"))
    if function not in keywords.SECRET_FUNCTIONS:
        near = nearest(function, tuple(keywords.SECRET_FUNCTIONS))
        raise SinkqlError(
            "SQ1024",
            f'secret function "{function}" does not exist',
            span(function),
            hint=f"Did you mean {near}?" if near else f"They are {', '.join(keywords.SECRET_FUNCTIONS)}.",
        )
    names = keywords.SECRET_FUNCTIONS[function]
    counts = (1, 2) if function == "aws_secret" else (len(names),)
    if len(arguments) not in counts:
        wanted = "one string" if counts == (1,) else f"{one_of([str(count) for count in counts])} strings"
        shown = ", ".join(f"'{name}'" for name in names)
        raise SinkqlError(
            "SQ1025",
            f"{function} takes {wanted}, not {len(arguments)}",
            span(node),
            hint=f"Write {function}({shown}).",
        )
    return ast.Call(str(function), arguments, span(node))
