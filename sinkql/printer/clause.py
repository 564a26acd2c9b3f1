"""Parts of statements → their canonical text: names, values, options, lines of clauses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sinkql import ast, keywords

_WIDTH = 100
_DOC_ON = ("DOC ON TYPE", "DOC ON COLUMN")
_PLAIN = re.compile(rf"(?!.*[{keywords.ODD_CHARACTERS}]){keywords.PLAIN_NAME}", re.DOTALL)


def line(*parts: object) -> str:
    """Put the parts that are text on one line; anything else is a part that is not there."""
    return " ".join(part for part in parts if isinstance(part, str) and part)


def clauses(head: str, *following: object) -> str:
    """Put each clause that is text on a line of its own, below the head."""
    return "\n  ".join([head, *(clause for clause in following if isinstance(clause, str) and clause)])


def bracketed(parts: Iterable[str]) -> str:
    """Put parts into brackets, each on its own line if they are too long for one."""
    found = list(parts)
    joined = ", ".join(found)
    if len(joined) <= _WIDTH and "\n" not in joined:
        return f"({joined})"
    return "(\n    " + ",\n    ".join(found) + "\n  )"


def options(given: tuple[ast.Option, ...]) -> str:
    """Return options in brackets, nothing for none."""
    return bracketed(_option(each) for each in given) if given else ""


def with_clause(given: tuple[ast.Option, ...]) -> str:
    """Return WITH and its options, nothing for none."""
    return f"WITH {options(given)}" if given else ""


def _option(option: ast.Option) -> str:
    if option.value is None:
        return option.name
    if option.name.endswith(_DOC_ON):
        return f"{option.name} {value(option.value)}"
    return f"{option.name} = {value(option.value)}"


def in_cluster(cluster: ast.Ident | None) -> str:
    """Return IN CLUSTER, nothing for none."""
    return f"IN CLUSTER {ident(cluster)}" if cluster is not None else ""


def idents(given: tuple[ast.Ident, ...]) -> str:
    """Return a list of columns in brackets."""
    return f"({', '.join(ident(each) for each in given)})"


def name(given: ast.Name) -> str:
    """Return a name, its parts quoted where they need it."""
    return ".".join(ident(part) for part in given.parts)


def ident(given: ast.Ident, taken: frozenset[str] = frozenset()) -> str:
    """Return an identifier; in quotes if it would read as something else, `taken` words among them."""
    found = given.value
    plain = _PLAIN.fullmatch(found) and found == found.lower() and found.upper() not in keywords.QUOTED | taken
    if plain:
        return found
    return keywords.quoted(found)


def text(given: str) -> str:
    """Return a string literal."""
    return "'" + given.replace("'", "''") + "'"


def assigned(given: ast.Value | None) -> str:
    """Return what stands after SET x =."""
    match given:
        case None:
            return "DEFAULT"
        case ast.Sequence(items=items):
            return ", ".join(value(item) for item in items)
        case _:
            return value(given)


def value(given: ast.Value) -> str:
    """Return an option's value."""
    match given:
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
            return phrase(given)
        case ast.Expression(text=written):
            return written


def phrase(given: ast.Phrase) -> str:
    """Return a value with its keywords, its options and what follows it."""
    match given.value:
        case None:
            written = ""
        case ast.Interval(text=interval) if given.words == "EVERY":
            written = text(interval)
        case other:
            written = value(other)
    return line(given.words, written, options(given.options), given.then and phrase(given.then))


def secret(given: ast.SecretValue) -> str:
    """Return what stands after CREATE SECRET … AS."""
    match given:
        case ast.Text(value=written):
            return text(written)
        case ast.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(text(argument.value) for argument in arguments)})"
        case ast.Joined(parts=parts):
            return " || ".join(secret(each) for each in parts)
