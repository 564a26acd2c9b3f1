"""A query's text → the same text with other names in it: those of its items in full, or those that they have now."""

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
_Edit = tuple[int, int, tuple[str, ...]]  # from, to, the parts of the name that goes there


def qualify_query(query: ast.Query, resolve: Resolve) -> ast.Query:
    """Write every item's name as the full name that `resolve` gives; the rest of the text stays, CTEs are not items."""
    syntax = parse(query)
    edits = [
        (*_place(_identifiers(table)), split_name(resolve(written_name(syntax, table))))
        for table in _tables(syntax.tree, frozenset())
    ]
    return _edited(query, edits)


def relations(query: ast.Query) -> tuple[ast.Name, ...]:
    """Return the names of a query that are no CTE's, as they were written; raises SQ2201."""
    syntax = parse(query)
    return tuple(written_name(syntax, table) for table in _tables(syntax.tree, frozenset()))


def rename_query(query: ast.Query, resolve: Resolve) -> ast.Query:
    """Rewrite every item's name in a query with full names, and what stands before columns by such a name."""
    syntax = parse(query)
    edits: list[_Edit] = []
    renamed: dict[int, tuple[str, ...]] = {}
    for table in _tables(syntax.tree, frozenset()):
        name = written_name(syntax, table)
        full = resolve(name)
        renamed[id(table)] = split_name(full)
        if full != qualified_name(*(part.value for part in name.parts)):
            edits.append((*_place(_identifiers(table)), split_name(full)))
    if edits:
        edits += [edit for column in syntax.tree.find_all(exp.Column) for edit in _of_column(column, renamed)]
    return _edited(query, edits)


def written_name(syntax: Syntax, table: Any) -> ast.Name:
    """Return the name that a table of a query has, as it was written."""
    parts = tuple(ast.Ident(identifier(part), syntax.span(part)) for part in _identifiers(table))
    return ast.Name(parts, Span(parts[0].span.start, parts[-1].span.end))


def _edited(query: ast.Query, edits: list[_Edit]) -> ast.Query:
    """Return the query with its names replaced; its plan is that of the text as it was."""
    pieces, done, at = [], [], 0
    for start, end, parts in sorted(edits):
        name = ".".join(_quoted(part) for part in parts)
        if name == query.text[start:end]:
            continue
        pieces += [query.text[at:start], name]
        done.append(ast.Edit(start, end, len(name)))
        at = end
    return replace(query, text="".join([*pieces, query.text[at:]]), edits=tuple(done))


def _tables(node: Any, named: frozenset[str]) -> list[Any]:
    """Return the tables that are items, leaving out the names that a WITH around them gives."""
    found: list[Any] = []
    with_ = node.args.get("with_") if isinstance(node, exp.Query) else None
    if with_ is not None:
        for each in with_.expressions:
            found += _tables(each.this, named)
            named |= {identifier(each.args["alias"].this)}
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        local = not node.args.get("db") and identifier(node.this) in named
        found += [] if local else [node]
    for child in node.iter_expressions():
        if child is not with_:
            found += _tables(child, named)
    return found


def _of_column(column: Any, renamed: dict[int, tuple[str, ...]]) -> list[_Edit]:
    """Return the edit of what stands before a column, where the nearest relation that it speaks of is renamed."""
    before = [column.args[part] for part in ("catalog", "db", "table") if column.args.get(part) is not None]
    written = tuple(identifier(part) for part in before)
    table = _relation(column, written) if before else None
    now = renamed.get(id(table)) if table is not None and not _alias(table) else None
    if now is None or now[-len(written) :] == written:
        return []
    return [(*_place(before), now[-len(written) :])]


def _relation(column: Any, written: tuple[str, ...]) -> Any | None:
    """Return the table whose columns `written.column` speaks of: of the innermost query around it that has one."""
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Select):
            from_ = node.args.get("from_")
            joined = [join.this for join in node.args.get("joins") or ()]
            for source in [from_.this, *joined] if from_ is not None else []:
                for each in _together(source):
                    if _goes_by(each, written):
                        return each
        node = node.parent
    return None


def _together(source: Any) -> list[Any]:
    """Return what goes by a name of its own: a relation and those that are joined to it within its place in FROM."""
    inner = source.this if isinstance(source, exp.Subquery) and _alias(source) is None else None
    own = _together(inner) if isinstance(inner, exp.Table | exp.Subquery) else [source]
    return [*own, *(each for join in source.args.get("joins") or () for each in _together(join.this))]


def _goes_by(source: Any, written: tuple[str, ...]) -> bool:
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


def _place(identifiers: list[Any]) -> tuple[int, int]:
    return identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1


def _quoted(part: str) -> str:
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", part) and part.upper() not in KEYWORDS
    return part if plain else quoted(part)
