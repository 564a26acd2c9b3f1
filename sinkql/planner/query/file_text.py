"""A query that names files in FROM → the files, and the query with a name in the place of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.vocabulary import quoted


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
    words = "|".join(functions)
    return re.search(rf"(?i)\b(from|join)\s*'|\b({words})\s*\(", query.text) is not None


def named_files(query: ast.Query, functions: Collection[str]) -> tuple[NamedFile, ...]:
    """Return what stands in FROM as `'path'`, `function('path')` or `function('path', connection => name)`.

    Raises SQ2646 for other arguments.
    """
    from sqlglot import TokenError, tokenize

    try:
        tokens = tokenize(query.text, "postgres")
    except TokenError:
        return ()  # the parser tells what is wrong
    return tuple(_found(query, tokens, functions))


def with_names(query: ast.Query, files: Sequence[NamedFile]) -> ast.Query:
    """Return the query with a name in the place of each file."""
    pieces, edits, at = [], [], 0
    for file in files:
        name = quoted(file.relation)
        pieces += [query.text[at : file.start], name]
        edits.append(ast.Edit(file.start, file.end, len(name)))
        at = file.end
    return replace(query, text="".join([*pieces, query.text[at:]]), edits=(*query.edits, *edits))


def _found(query: ast.Query, tokens: Sequence[Any], functions: Collection[str]) -> Iterator[NamedFile]:
    inside: list[bool] = [True]  # whether this bracket is a query's, and not a function's: EXTRACT(day FROM '…')
    in_from: list[bool] = [False]
    for at, token in enumerate(tokens):
        word = token.text.upper()
        match token.token_type.name:
            case "L_PAREN":
                queries = at + 1 < len(tokens) and tokens[at + 1].text.upper() in ("SELECT", "WITH", "(")
                nested = in_from[-1] and tokens[at - 1].text.upper() in ("FROM", "JOIN", ",", "(")
                inside.append(queries or nested)
                in_from.append(nested and not queries)
            case "R_PAREN" if len(inside) > 1:
                inside.pop()
                in_from.pop()
            case "FROM" if inside[-1] and tokens[at - 1].text.upper() != "DISTINCT":
                in_from[-1] = True
            case "SELECT" | "WHERE" | "ON" | "USING" | "GROUP_BY" | "ORDER_BY" | "LIMIT" | "HAVING" | "UNION":
                in_from[-1] = False
            case "JOIN":
                in_from[-1] = True
        before = tokens[at - 1].text.upper() if at else ""
        if not in_from[-1] or before not in ("FROM", "JOIN", ",", "("):
            continue
        if token.token_type.name == "STRING":
            yield NamedFile(token.text, None, token.start, token.end + 1)
        elif word.lower() in functions and at + 1 < len(tokens) and tokens[at + 1].token_type.name == "L_PAREN":
            yield _call(query, tokens[at:], word.lower())


def _call(query: ast.Query, tokens: Sequence[Any], function: str) -> NamedFile:
    end = next((at for at, token in enumerate(tokens) if token.token_type.name == "R_PAREN"), len(tokens) - 1)
    kinds = [token.token_type.name for token in tokens[: end + 1]]
    if kinds[1:] == ["L_PAREN", "STRING", "R_PAREN"]:
        return NamedFile(tokens[2].text, function, tokens[0].start, tokens[end].end + 1)
    name = _name(query, tokens[6:end])
    if kinds[1:4] != ["L_PAREN", "STRING", "COMMA"] or not _says_connection(tokens[4:6]) or name is None:
        raise SinkqlError(
            "SQ2646",
            f"{function} takes a path in single quotes, and for files in S3 a connection",
            Span(query.span.start + tokens[0].start, query.span.start + tokens[end].end + 1),
            hint=f"Write {function}('folder/*') or {function}('s3://bucket/folder', connection => name). For other "
            "forms of files, create a source from them.",
        )
    return NamedFile(tokens[2].text, function, tokens[0].start, tokens[end].end + 1, name)


def _says_connection(tokens: Sequence[Any]) -> bool:
    return [token.text.lower() for token in tokens] == ["connection", "=>"]


def _name(query: ast.Query, tokens: Sequence[Any]) -> ast.Name | None:
    """Return the name that the tokens are, None where they are none."""
    parts, dots = tokens[::2], tokens[1::2]
    words = all(
        _is_quoted(each) or (_text(query, each) == each.text and each.text[:1].isidentifier()) for each in parts
    )
    if len(tokens) % 2 == 0 or not words or any(token.text != "." for token in dots):
        return None
    idents = []
    for token in parts:
        span = Span(query.span.start + token.start, query.span.start + token.end + 1)
        idents.append(ast.Ident(token.text if _is_quoted(token) else token.text.lower(), span))
    return ast.Name(tuple(idents), Span(idents[0].span.start, idents[-1].span.end))


def _text(query: ast.Query, token: Any) -> str:  # sqlglot's
    return query.text[token.start : token.end + 1]


def _is_quoted(token: Any) -> bool:  # sqlglot's
    return bool(token.token_type.name == "IDENTIFIER")
