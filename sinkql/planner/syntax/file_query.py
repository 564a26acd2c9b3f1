"""A query that names files in FROM → the files, and the query with a name in the place of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.keywords import quoted
from sinkql.parser.read.lexer import Lexeme, scan
from sinkql.planner.syntax.grammar.select import read_strings
from sinkql.planner.syntax.grammar.tokens import MistakeError


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A path in a query: the function around it, if any, with its connection, and the stretch of the text."""

    path: str
    function: str | None
    start: int
    end: int
    connection: ast.Name | None = None

    @property
    def relation(self) -> str:
        """Return the name that stands for the path."""
        return self.path if self.connection is None else f"{self.path} through {self.connection.text}"


def may_name_files(query: ast.Query, functions: Collection[str]) -> bool:
    """Tell at little cost whether it is worth a closer look."""
    if functions and re.search(rf"(?i)\b({'|'.join(functions)})\b", query.text) is not None:
        return True
    strings = "'" in query.text or "$" in query.text
    return strings and re.search(r"(?i)\b(from|join)\b", query.text) is not None


def named_files(query: ast.Query, functions: Collection[str]) -> tuple[NamedFile, ...]:
    """Return what stands in FROM as `'path'`, `function('path')` or `function('path', connection => name)`.

    Raises SQ2646 for other arguments.
    """
    try:
        lexemes = list(scan(query.text))
        places = read_strings(lexemes, functions)
    except (MistakeError, SinkqlError):
        return ()  # the parser tells what is wrong
    return tuple(_named(query, lexemes[start:end]) for start, end in places)


def with_names(query: ast.Query, files: Sequence[NamedFile]) -> ast.Query:
    """Return the query with a name in the place of each file."""
    pieces, edits, at = [], [], 0
    for file in files:
        name = quoted(file.relation)
        pieces += [query.text[at : file.start], name]
        edits.append(ast.Edit(file.start, file.end, len(name)))
        at = file.end
    return replace(query, text="".join([*pieces, query.text[at:]]), edits=(*query.edits, *edits))


def _named(query: ast.Query, lexemes: Sequence[Lexeme]) -> NamedFile:
    if len(lexemes) == 1:
        return NamedFile(lexemes[0].value, None, lexemes[0].start, lexemes[0].end)
    return _call(query, lexemes)


def _call(query: ast.Query, lexemes: Sequence[Lexeme]) -> NamedFile:
    function, start, end = lexemes[0].value, lexemes[0].start, lexemes[-1].end
    kinds = [each.kind for each in lexemes]
    if kinds[1:] == ["(", "STRING", ")"]:
        return NamedFile(lexemes[2].value, function, start, end)
    name = _name(query, lexemes[6:-1])
    if kinds[1:4] != ["(", "STRING", ","] or not _says_connection(lexemes[4:6]) or name is None:
        raise SinkqlError(
            "SQ2646",
            f"{function} takes a path in single quotes, and for files in S3 a connection",
            Span(query.span.start + start, query.span.start + end),
            hint=f"Write {function}('folder/*') or {function}('s3://bucket/folder', connection => name). For other "
            "forms of files, create a source from them.",
        )
    return NamedFile(lexemes[2].value, function, start, end, name)


def _says_connection(lexemes: Sequence[Lexeme]) -> bool:
    return [each.value or each.kind for each in lexemes] == ["connection", "=>"]


def _name(query: ast.Query, lexemes: Sequence[Lexeme]) -> ast.Name | None:
    """Return the name that the lexemes are, None where they are none."""
    parts, dots = lexemes[::2], lexemes[1::2]
    words = all(each.kind in ("WORD", "QUOTED") for each in parts)
    if len(lexemes) % 2 == 0 or not words or any(each.kind != "." for each in dots):
        return None
    idents = tuple(ast.Ident(each.value, each.span.shifted(query.span.start)) for each in parts)
    return ast.Name(idents, Span(idents[0].span.start, idents[-1].span.end))
