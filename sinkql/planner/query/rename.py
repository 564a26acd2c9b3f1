"""Rewrite the item names in a query's text: as full names, or as their names after a rename."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sinkql import ast
from sinkql.errors import Span
from sinkql.keywords import quoted
from sinkql.planner.name import qualified_name, split_name
from sinkql.planner.query.scope import identifier
from sinkql.planner.syntax.sqlglot_tree import KEYWORDS, Syntax, parse

Resolve = Callable[[ast.Name], str]
"""A function that maps a name in the text to a full name."""
_Edit = tuple[int, int, tuple[str, ...]]  # start, end, the parts of the new name


def qualify_query(query: ast.Query, resolve: Resolve) -> ast.Query:
    """Write every item's name as the full name that `resolve` returns.

    The rest of the text does not change, and names of CTEs are not items.
    """
    syntax = parse(query)
    edits = [
        (*_text_range(_identifiers(table)), split_name(resolve(written_name(syntax, table))))
        for table in _tables(syntax.tree, frozenset())
    ]
    return _apply_edits(query, edits)


def relations(query: ast.Query) -> tuple[ast.Name, ...]:
    """Return the names of a query's items, without CTEs, in the spelling of the text; raise SQ2201."""
    syntax = parse(query)
    return tuple(written_name(syntax, table) for table in _tables(syntax.tree, frozenset()))


def rename_query(query: ast.Query, resolve: Resolve) -> ast.Query:
    """Rename items in a query with full names, and the qualifiers of columns that use these names."""
    syntax = parse(query)
    edits: list[_Edit] = []
    renamed: dict[int, tuple[str, ...]] = {}
    for table in _tables(syntax.tree, frozenset()):
        name = written_name(syntax, table)
        full = resolve(name)
        renamed[id(table)] = split_name(full)
        if full != qualified_name(*(part.value for part in name.parts)):
            edits.append((*_text_range(_identifiers(table)), split_name(full)))
    if edits:
        edits += [edit for column in syntax.tree.find_all(exp.Column) for edit in _edit_qualifier(column, renamed)]
    return _apply_edits(query, edits)


def written_name(syntax: Syntax, table: Any) -> ast.Name:
    """Return the name of a table in a query, in the spelling of the text."""
    parts = tuple(ast.Ident(identifier(part), syntax.span(part)) for part in _identifiers(table))
    return ast.Name(parts, Span(parts[0].span.start, parts[-1].span.end))


def _apply_edits(query: ast.Query, edits: list[_Edit]) -> ast.Query:
    """Return the query with its names replaced; its plan remains that of the original text."""
    pieces, applied, position = [], [], 0
    for start, end, parts in sorted(edits):
        name = ".".join(_quote_if_needed(part) for part in parts)
        if name == query.text[start:end]:
            continue
        pieces += [query.text[position:start], name]
        applied.append(ast.Edit(start, end, len(name)))
        position = end
    return replace(query, text="".join([*pieces, query.text[position:]]), edits=tuple(applied))


def _tables(node: Any, ctes: frozenset[str]) -> list[Any]:
    """Return the tables that are items, without the names that a WITH around them defines."""
    tables: list[Any] = []
    with_ = node.args.get("with_") if isinstance(node, exp.Query) else None
    if with_ is not None:
        for expression in with_.expressions:
            tables += _tables(expression.this, ctes)
            ctes |= {identifier(expression.args["alias"].this)}
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        local = not node.args.get("db") and identifier(node.this) in ctes
        tables += [] if local else [node]
    for child in node.iter_expressions():
        if child is not with_:
            tables += _tables(child, ctes)
    return tables


def _edit_qualifier(column: Any, renamed: dict[int, tuple[str, ...]]) -> list[_Edit]:
    """Return the edit of a column's qualifier if the nearest relation with that name is renamed."""
    identifiers = [column.args[part] for part in ("catalog", "db", "table") if column.args.get(part) is not None]
    written = tuple(identifier(part) for part in identifiers)
    table = _find_relation(column, written) if identifiers else None
    new_name = renamed.get(id(table)) if table is not None and not _alias(table) else None
    if new_name is None or new_name[-len(written) :] == written:
        return []
    return [(*_text_range(identifiers), new_name[-len(written) :])]


def _find_relation(column: Any, written: tuple[str, ...]) -> Any | None:
    """Return the table of `written.column`: the one in the innermost enclosing query that has the name."""
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Select):
            from_ = node.args.get("from_")
            joined = [join.this for join in node.args.get("joins") or ()]
            for source in [from_.this, *joined] if from_ is not None else []:
                for named in _named_sources(source):
                    if _has_name(named, written):
                        return named
        node = node.parent
    return None


def _named_sources(source: Any) -> list[Any]:
    """Return the relations of a FROM item that have a name: the item, and the relations joined inside it."""
    inner = source.this if isinstance(source, exp.Subquery) and _alias(source) is None else None
    first = _named_sources(inner) if isinstance(inner, exp.Table | exp.Subquery) else [source]
    return [*first, *(named for join in source.args.get("joins") or () for named in _named_sources(join.this))]


def _has_name(source: Any, written: tuple[str, ...]) -> bool:
    alias = _alias(source)
    if alias is not None:
        return written == (alias,)
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return False
    return tuple(identifier(part) for part in _identifiers(source))[-len(written) :] == written


def _alias(source: Any) -> str | None:
    alias = source.args.get("alias")
    return identifier(alias.this) if alias is not None and alias.this is not None else None


def _identifiers(table: Any) -> list[Any]:
    return [table.args[part] for part in ("catalog", "db", "this") if table.args.get(part) is not None]


def _text_range(identifiers: list[Any]) -> tuple[int, int]:
    return identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1


def _quote_if_needed(part: str) -> str:
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", part) and part.upper() not in KEYWORDS
    return part if plain else quoted(part)
