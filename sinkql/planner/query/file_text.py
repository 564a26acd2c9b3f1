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
    """A path in a query: the function around it, if any, and the stretch of the text that names it."""

    path: str
    function: str | None
    start: int
    end: int


def may_name_files(query: ast.Query, functions: Collection[str]) -> bool:
    """Tell at little cost whether it is worth a closer look."""
    words = "|".join(functions)
    return re.search(rf"(?i)\b(from|join)\s*'|\b({words})\s*\(", query.text) is not None


def named_files(query: ast.Query, functions: Collection[str]) -> tuple[NamedFile, ...]:
    """Return what stands in FROM as `'path'` or `function('path')`; raises SQ2646 for other arguments."""
    from sqlglot import TokenError, tokenize

    try:
        tokens = tokenize(query.text, "postgres")
    except TokenError:
        return ()  # the parser tells what is wrong
    return tuple(_found(query, tokens, functions))


def with_names(query: ast.Query, files: Sequence[NamedFile]) -> ast.Query:
    """Return the query with each file as a name, which is its path."""
    pieces, edits, at = [], [], 0
    for file in files:
        name = quoted(file.path)
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
            yield _call(query, tokens[at : at + 4], word.lower())


def _call(query: ast.Query, tokens: Sequence[Any], function: str) -> NamedFile:
    kinds = [token.token_type.name for token in tokens]
    if kinds[1:] != ["L_PAREN", "STRING", "R_PAREN"]:
        start, end = query.span.start + tokens[0].start, query.span.start + tokens[-1].end + 1
        raise SinkqlError(
            "SQ2646",
            f"{function} takes one argument, a path in single quotes",
            Span(start, end),
            hint=f"Write {function}('folder/*'). For other forms of files, create a source from them.",
        )
    return NamedFile(tokens[2].text, function, tokens[0].start, tokens[-1].end + 1)
