"""The golden commands `parse` and `print`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sinkql import ast, parser
from sinkql.errors import Span
from sinkql.printer import to_sql
from support.keywords import WORDS

_WIDTH = 110


def parse(text: str) -> str:
    """Return the statements as trees; check that spans nest, and that parsing is the inverse of printing."""
    statements = parser.parse(text, WORDS)
    for statement in statements:
        check_spans(statement, text, Span(0, len(text)))
        assert parser.parse(to_sql(statement), WORDS) == (statement,)
    return "\n".join(line for statement in statements for line in _lines("", statement))


def print_sql(text: str, *, redacted: bool) -> str:
    """Return the canonical text of the statements."""
    return "\n".join(to_sql(statement, redacted=WORDS if redacted else None) for statement in parser.parse(text, WORDS))


def check_spans(node: object, text: str, around: Span) -> None:
    """Check that each node has a span with text in it, within the span of its parent."""
    if isinstance(node, tuple):
        for each in node:
            check_spans(each, text, around)
    if not dataclasses.is_dataclass(node) or isinstance(node, Span):
        return
    span = getattr(node, "span", around)
    assert around.start <= span.start < span.end <= around.end, (node, span, around)
    assert text[span.start : span.end] == text[span.start : span.end].strip(), (node, span)
    if isinstance(node, ast.Query):
        assert text[span.start : span.end] == node.text
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Span):
            assert span.start <= value.start < value.end <= span.end, (node, field.name)
        check_spans(value, text, span)


def _lines(indent: str, node: object) -> Iterator[str]:
    """Yield a node as one line if it fits, else its fields below its name."""
    whole = _inline(node)
    if len(indent + whole) <= _WIDTH and "\n" not in whole:
        yield indent + whole
        return
    if isinstance(node, ast.Query):
        yield from (f"{indent}{line}".rstrip() for line in node.text.splitlines())
        return
    if isinstance(node, tuple):
        for each in node:
            yield from _lines(indent, each)
        return
    yield indent + type(node).__name__
    for name, value in _fields(node):
        line = f"{indent}  {name}: {_inline(value)}"
        if len(line) <= _WIDTH and "\n" not in line:
            yield line
        else:
            yield f"{indent}  {name}:"
            yield from _lines(indent + "    ", value)


def _inline(node: object) -> str:
    match node:
        case ast.Name(parts=parts):
            return ".".join(_inline(part) for part in parts)
        case ast.Ident(value=value):
            return value if value.isidentifier() and value == value.lower() else f'"{value}"'
        case ast.Query(text=text):
            return f"Query {text}"
        case ast.Text(value=value):
            return repr(value)
        case ast.Option(name=name, value=value):
            return name if value is None else f"{name} = {_inline(value)}"
        case tuple():
            return f"[{', '.join(_inline(each) for each in node)}]"
        case ast.Number(text=text):
            return text
        case ast.Boolean(value=truth):
            return str(truth).upper()
        case ast.Word(name=name):
            return f"Word {_inline(name)}"
        case str() | bool() | int() | None:
            return repr(node)
    fields = ", ".join(f"{name}: {_inline(value)}" for name, value in _fields(node))
    return f"{type(node).__name__}({fields})" if fields else type(node).__name__


def _fields(node: object) -> Iterator[tuple[str, object]]:
    """Yield the fields with information: no spans, no defaults."""
    assert dataclasses.is_dataclass(node)
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.compare and not isinstance(value, Span) and value != field.default:
            yield field.name, value
