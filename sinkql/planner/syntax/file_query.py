"""Find the files that a query names in FROM, and replace them with names."""

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
    """A path in a query, with its function and connection, if any, and its range in the text."""

    path: str
    function: str | None
    start: int
    end: int
    connection: ast.Name | None = None

    @property
    def relation(self) -> str:
        """Return the name that replaces the path."""
        return self.path if self.connection is None else f"{self.path} through {self.connection.text}"


def may_name_files(query: ast.Query, functions: Collection[str]) -> bool:
    """Return quickly whether the query may name files; parsing decides."""
    if functions and re.search(rf"(?i)\b({'|'.join(functions)})\b", query.text) is not None:
        return True
    strings = "'" in query.text or "$" in query.text
    return strings and re.search(r"(?i)\b(from|join)\b", query.text) is not None


def named_files(query: ast.Query, functions: Collection[str]) -> tuple[NamedFile, ...]:
    """Return the files in FROM: `'path'`, `function('path')` or `function('path', connection => name)`.

    Raises SQ2646 for other arguments.
    """
    try:
        lexemes = list(scan(query.text))
        places = read_strings(lexemes, functions)
    except (MistakeError, SinkqlError):
        return ()  # the parser reports the error
    return tuple(_named_file(query, lexemes[start:end]) for start, end in places)


def with_names(query: ast.Query, files: Sequence[NamedFile]) -> ast.Query:
    """Return the query with a name instead of each file."""
    pieces, edits, position = [], [], 0
    for file in files:
        name = quoted(file.relation)
        pieces += [query.text[position : file.start], name]
        edits.append(ast.Edit(file.start, file.end, len(name)))
        position = file.end
    return replace(query, text="".join([*pieces, query.text[position:]]), edits=(*query.edits, *edits))


def _named_file(query: ast.Query, lexemes: Sequence[Lexeme]) -> NamedFile:
    if len(lexemes) == 1:
        return NamedFile(lexemes[0].value, None, lexemes[0].start, lexemes[0].end)
    return _call(query, lexemes)


def _call(query: ast.Query, lexemes: Sequence[Lexeme]) -> NamedFile:
    function, start, end = lexemes[0].value, lexemes[0].start, lexemes[-1].end
    kinds = [lexeme.kind for lexeme in lexemes]
    if kinds[1:] == ["(", "STRING", ")"]:
        return NamedFile(lexemes[2].value, function, start, end)
    name = _name(query, lexemes[6:-1])
    if kinds[1:4] != ["(", "STRING", ","] or not _is_connection_argument(lexemes[4:6]) or name is None:
        raise SinkqlError(
            "SQ2646",
            f"{function} takes a path in single quotes, and a connection for files in S3",
            Span(query.span.start + start, query.span.start + end),
            hint=f"Write {function}('folder/*') or {function}('s3://bucket/folder', connection => name). For other "
            "forms of files, create a source from them.",
        )
    return NamedFile(lexemes[2].value, function, start, end, name)


def _is_connection_argument(lexemes: Sequence[Lexeme]) -> bool:
    return [lexeme.value or lexeme.kind for lexeme in lexemes] == ["connection", "=>"]


def _name(query: ast.Query, lexemes: Sequence[Lexeme]) -> ast.Name | None:
    """Return the name that the lexemes form, None if they are no name."""
    parts, dots = lexemes[::2], lexemes[1::2]
    words = all(part.kind in ("WORD", "QUOTED") for part in parts)
    if len(lexemes) % 2 == 0 or not words or any(dot.kind != "." for dot in dots):
        return None
    idents = tuple(ast.Ident(part.value, part.span.shifted(query.span.start)) for part in parts)
    return ast.Name(idents, Span(idents[0].span.start, idents[-1].span.end))
