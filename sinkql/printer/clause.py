"""Print the parts of statements: names, values, options, lines of clauses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sinkql import ast, keywords

_WIDTH = 100
_DOC_ON = ("DOC ON TYPE", "DOC ON COLUMN")
_PLAIN = re.compile(rf"(?!.*[{keywords.ODD_CHARACTERS}]){keywords.PLAIN_NAME}", re.DOTALL)


def line(*parts: object) -> str:
    """Join the parts that are text on one line, and ignore the rest."""
    return " ".join(part for part in parts if isinstance(part, str) and part)


def clauses(head: str, *following: object) -> str:
    """Write each clause that is text on a separate line below the head."""
    return "\n  ".join([head, *(clause for clause in following if isinstance(clause, str) and clause)])


def bracketed(parts: Iterable[str]) -> str:
    """Put parts in brackets, each on a separate line if one line is too short for them."""
    items = list(parts)
    joined = ", ".join(items)
    if len(joined) <= _WIDTH and "\n" not in joined:
        return f"({joined})"
    return "(\n    " + ",\n    ".join(items) + "\n  )"


def options(options_: tuple[ast.Option, ...]) -> str:
    """Return options in brackets; an empty text without options."""
    return bracketed(_option(option) for option in options_) if options_ else ""


def with_clause(options_: tuple[ast.Option, ...]) -> str:
    """Return WITH and its options; an empty text without options."""
    return f"WITH {options(options_)}" if options_ else ""


def _option(option: ast.Option) -> str:
    if option.value is None:
        return option.name
    if option.name.endswith(_DOC_ON):
        return f"{option.name} {value(option.value)}"
    return f"{option.name} = {value(option.value)}"


def in_cluster(cluster: ast.Ident | None) -> str:
    """Return IN CLUSTER, an empty text without a cluster."""
    return f"IN CLUSTER {ident(cluster)}" if cluster is not None else ""


def idents(columns: tuple[ast.Ident, ...]) -> str:
    """Return a list of columns in brackets."""
    return f"({', '.join(ident(column) for column in columns)})"


def name(full_name: ast.Name) -> str:
    """Return a name, its parts quoted if necessary."""
    return ".".join(ident(part) for part in full_name.parts)


def ident(identifier: ast.Ident, reserved: frozenset[str] = frozenset()) -> str:
    """Return an identifier, in quotes if it is a keyword or one of the `taken` words."""
    written = identifier.value
    plain = (
        _PLAIN.fullmatch(written) and written == written.lower() and written.upper() not in keywords.QUOTED | reserved
    )
    if plain:
        return written
    return keywords.quoted(written)


def text(content: str) -> str:
    """Return a string literal."""
    return "'" + content.replace("'", "''") + "'"


def assigned(setting: ast.Value | None) -> str:
    """Return the text after SET x =."""
    match setting:
        case None:
            return "DEFAULT"
        case ast.Sequence(items=items):
            return ", ".join(value(item) for item in items)
        case _:
            return value(setting)


def value(node: ast.Value) -> str:
    """Return an option's value."""
    match node:
        case ast.Text(value=written):
            return text(written)
        case ast.Number(text=written):
            return written
        case ast.Boolean(value=truth):
            return str(truth).upper()
        case ast.Null():
            return "NULL"
        case ast.Interval(text=written):
            return f"INTERVAL {text(written)}"
        case ast.Hex(digits=digits):
            return f"X'{digits}'"
        case ast.SecretRef(name=secret_name):
            return f"SECRET {name(secret_name)}"
        case ast.Word(name=word):
            return name(word)
        case ast.Concat(parts=parts):
            return " || ".join(value(part) for part in parts)
        case ast.Sequence(items=items):
            return f"({', '.join(value(item) for item in items)})"
        case ast.Map(entries=entries):
            return f"MAP[{', '.join(f'{text(entry.key)} => {value(entry.value)}' for entry in entries)}]"
        case ast.Phrase():
            return phrase(node)
        case ast.Expression(text=written):
            return written


def phrase(node: ast.Phrase) -> str:
    """Return a value with its keywords, its options and the next phrase."""
    match node.value:
        case None:
            written = ""
        case ast.Interval(text=interval) if node.words == "EVERY":
            written = text(interval)
        case other:
            written = value(other)
    return line(node.words, written, options(node.options), node.then and phrase(node.then))


def secret(node: ast.SecretValue) -> str:
    """Return the text after CREATE SECRET … AS."""
    match node:
        case ast.Text(value=written):
            return text(written)
        case ast.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(text(argument.value) for argument in arguments)})"
        case ast.Joined(parts=parts):
            return " || ".join(secret(part) for part in parts)
