"""A query's text → sqlglot's tree, every node with the range of text it was written as, no meaning changed on the way.

sqlglot reads for translation: it renames functions, splits intervals and drops what the target lacks. The dialect here
turns that off: a call stays a call under the name it was written, an interval keeps its text, and types and strings are
taken from the text again. Whatever else sqlglot knows arrives as a node of its own class, which the planner refuses by
name unless it knows it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokens import TokenType

from sinkql import ast
from sinkql.errors import SinkqlError, Span, too_deep
from sinkql.planner.query_complaint import complaint

MAX_TOKENS = 200_000
"""How many a query may have: planning takes seconds at that."""
_RANGE = "range"
_MAX_FRAMES = 5000
"""Python's calls within calls: sqlglot takes 35 of them for a bracket in a bracket, and the parser allows 100 of those.

A thread's stack of 8 MB holds eight times as many.
"""
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
# the syntax of these is not that of a call; all others are calls like any
_SPECIAL = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM")
# methods that begin at the first token of the node they return: what the range of a node is taken from
_RANGED = (
    "_parse_expression", "_parse_disjunction", "_parse_conjunction", "_parse_equality", "_parse_comparison",
    "_parse_range", "_parse_bitwise", "_parse_term", "_parse_factor", "_parse_unary", "_parse_type", "_parse_types",
    "_parse_function_call", "_parse_primary", "_parse_column_ops", "_parse_interval", "_parse_table", "_parse_select",
    "_parse_join", "_parse_group", "_parse_with", "_parse_cte", "_parse_limit", "_parse_order", "_parse_lambda",
)  # fmt: skip


class _MistakeError(ParseError):  # type: ignore[misc]  # sqlglot publishes no types
    def __init__(self, message: str, token: Any) -> None:
        super().__init__(message)
        self.token = token


class _Parser(PostgresParser):  # type: ignore[misc]  # sqlglot publishes no types
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: PostgresParser.FUNCTION_PARSERS[name] for name in _SPECIAL}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{name: PostgresParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE")},
        "SOME": PostgresParser.NO_PAREN_FUNCTION_PARSERS["ANY"],
        "ALL": lambda self: self.expression(exp.All(this=self._parse_bitwise())),
    }
    LAMBDAS: ClassVar[dict[Any, Any]] = {}
    JSON_OPERATORS: ClassVar[dict[Any, Any]] = {
        token: lambda self, this, key, build=build: self.expression(build(this=this, expression=key))
        for token, build in (
            (TokenType.ARROW, exp.JSONExtract),
            (TokenType.DARROW, exp.JSONExtractScalar),
            (TokenType.HASH_ARROW, exp.JSONBExtract),
            (TokenType.DHASH_ARROW, exp.JSONBExtractScalar),
            (TokenType.PLACEHOLDER, exp.JSONBContainsTopKey),
        )
    }

    def raise_error(self, message: str, token: Any = None) -> None:
        # what was expected is missing where the parser is; sqlglot names the token before
        raise _MistakeError(message, self._curr if message.startswith("Expect") else token or self._curr)

    def _parse_csv(self, parse_method: Callable[[], Any], sep: Any = TokenType.COMMA) -> list[Any]:
        first = parse_method()
        items = [] if first is None else [first]
        while self._curr and self._curr.token_type == sep:
            if len(items) == 0:
                self.raise_error(f"Unexpected {self._curr.text}")
            self._advance()
            item = parse_method()
            if item is None:
                self.raise_error("Unexpected")  # a comma at the end, which sqlglot overlooks
            items.append(item)
        return items

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        first = self._index
        join = super()._parse_join(*args, **kwargs)
        if join is None and self._index > first:
            self.raise_error("Unexpected")  # the same after a relation in FROM
        return join

    def _parse_group(self, *args: Any, **kwargs: Any) -> Any:
        group = super()._parse_group(*args, **kwargs)
        if group is not None and not any(group.args.values()):
            self.raise_error("Unexpected")  # nothing after GROUP BY
        return group

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        if self._curr.token_type != TokenType.INTERVAL or self._next.token_type != TokenType.STRING:
            return None
        self._advance(2)
        text = self.expression(exp.Literal.string(self._prev.text), token=self._prev)
        unit = self._unit()
        if unit and self._match_text_seq("TO"):
            unit = f"{unit} TO {self._unit()}"
        return self.expression(exp.Interval(this=text, unit=exp.Var(this=unit) if unit else None))

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        if isinstance(this, exp.Expr) and not alias:
            _widen(this, self._prev.end, self._prev.end + 1)  # a call ends before its FILTER or OVER
        return super()._parse_window(this, alias)

    def _parse_between(self, this: Any) -> Any:
        symmetric = True if self._match_text_seq("SYMMETRIC") else None
        if symmetric is None and self._match_text_seq("ASYMMETRIC"):
            symmetric = False
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("Expected AND")  # which sqlglot does not ask for
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise(), symmetric=symmetric))

    def _parse_case(self) -> Any:
        if self._match(TokenType.DOT, advance=False):
            return super()._parse_case()
        operand, ifs, default = self._parse_disjunction(), [], None
        while self._match(TokenType.WHEN):
            condition = self._parse_disjunction()
            if not self._match(TokenType.THEN):
                self.raise_error("Expected THEN")  # which sqlglot does not ask for
            ifs.append(self.expression(exp.If(this=condition, true=self._parse_disjunction())))
        if self._match(TokenType.ELSE):
            default = self._parse_disjunction()
        if not self._match(TokenType.END):
            self.raise_error("Expected END")
        return self.expression(exp.Case(this=operand, ifs=ifs, default=default))

    def _parse_primary(self, *args: Any, **kwargs: Any) -> Any:
        first, second = self._curr, self._next
        strings = first and second and first.token_type == second.token_type == TokenType.STRING
        if strings and "\n" not in self.sql[first.end + 1 : second.start]:
            self.raise_error("Unexpected", second)  # strings go on in another line, not in the same
        return super()._parse_primary(*args, **kwargs)

    def _unit(self) -> str | None:
        if not self._curr or self._curr.text.upper() not in _UNITS:
            return None
        self._advance()
        return str(self._prev.text.upper())


def _ranged(name: str) -> Any:
    inner = getattr(_Parser, name)

    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = self._index
        node = inner(self, *args, **kwargs)
        if isinstance(node, exp.Expr) and self._index > first:
            _widen(node, self._tokens[first].start, self._tokens[self._index - 1].end + 1)
        return node

    return parse


def _widen(node: Any, start: int, end: int) -> None:
    known = node.meta.get(_RANGE)
    node.meta[_RANGE] = (min(start, known[0]), max(end, known[1])) if known else (start, end)


for _name in _RANGED:
    setattr(_Parser, _name, _ranged(_name))


class _SinkqlQuery(Postgres):  # type: ignore[misc]  # sqlglot publishes no types
    Parser = _Parser


_DIALECT = _SinkqlQuery()
_ORDERED = ("where", "group", "having", "order", "limit", "offset")
_WANTED = {")": '")"', "(": '"("', "table name": "a relation", "END after CASE": "END"}
KEYWORDS = frozenset(word for word in Postgres.Tokenizer.KEYWORDS if word.isalpha())


@dataclass(frozen=True, slots=True)
class Syntax:
    """Hold a query's tree and text; `offset` is where the text starts in the user's file."""

    tree: Any
    text: str
    offset: int

    def span(self, node: Any) -> Span:
        """Return the span of a node in the user's file; the whole query's where the node has no place."""
        start, end = node.meta.get(_RANGE) or (0, len(self.text))
        return Span(start + self.offset, end + self.offset)

    def written(self, node: Any) -> str:
        """Return the text that a node was written as."""
        start, end = node.meta.get(_RANGE) or (0, 0)
        return self.text[start:end]


def parse(query: ast.Query) -> Syntax:
    """Parse a SELECT; raises SinkqlError (SQ2201) where it is not one."""
    sys.setrecursionlimit(max(_MAX_FRAMES, sys.getrecursionlimit()))
    text, offset = query.text, query.span.start
    tokens: list[Any] = []
    try:
        tokens = _DIALECT.tokenize(text)
        if len(tokens) > MAX_TOKENS:
            hint = "Split it into views."
            raise SinkqlError("SQ2227", f"a query has at most {MAX_TOKENS:,} words and signs", query.span, hint=hint)
        _refuse_braces(tokens)
        trees = _read(tokens, text)
    except _MistakeError as mistake:
        raise _syntax_error(mistake, tokens, text, offset) from None
    except TokenError as mistake:
        start = getattr(mistake, "end", None) or len(text)
        raise SinkqlError(
            "SQ2201", "the query's text ends inside a string, name or comment", Span(offset + start - 1, offset + start)
        ) from None
    except RecursionError:
        raise too_deep(query.span) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise SinkqlError("SQ2201", "expected a SELECT", Span(offset, offset + max(1, len(text.split(None, 1)[0]))))
    return Syntax(trees[0], text, offset)


def _read(tokens: list[Any], text: str) -> list[Any]:
    trees = _Parser(error_level=ErrorLevel.IMMEDIATE, dialect=_DIALECT).parse(tokens, text)
    for tree in trees:
        if tree is not None:
            _spread(tree)
            for select in tree.find_all(exp.Select):
                _check_order(select, tokens)
    return list(trees)


def _check_order(select: Any, tokens: list[Any]) -> None:
    """Refuse clauses in another order than that of SQL, which sqlglot takes in any."""
    before = None
    for name in _ORDERED:
        clause = select.args.get(name)
        if clause is None or _RANGE not in clause.meta:
            continue
        if before is not None and clause.meta[_RANGE][0] < before.meta[_RANGE][0]:
            raise _MistakeError("Unexpected", _keyword(before, tokens))
        before = clause


def _keyword(clause: Any, tokens: list[Any]) -> Any:
    """Return the token that a clause begins with: its range may begin behind it."""
    word = clause.key.upper()
    start = clause.meta[_RANGE][0]
    return [each for each in tokens if each.start <= start and each.text.upper().startswith(word)][-1]


def _refuse_braces(tokens: list[Any]) -> None:
    brace = next((each for each in tokens if each.token_type == TokenType.L_BRACE), None)
    if brace is not None:
        raise _MistakeError("Unexpected", brace)  # which sqlglot takes for a struct


def _syntax_error(mistake: _MistakeError, tokens: list[Any], text: str, offset: int) -> SinkqlError:
    stuck = tokens.index(mistake.token) if mistake.token else len(tokens)
    expected = re.match(r"Expect(?:ing|ed) (.+?)(?: but got .*)?$", str(mistake), re.DOTALL)
    wanted = None if expected is None else _WANTED.get(expected[1], expected[1])
    return complaint(tokens, stuck, text, offset, expected=wanted, attempt=_attempt)


def _attempt(text: str) -> int | None:
    """Return where a text is no query, None if it is one."""
    try:
        trees = _read(_DIALECT.tokenize(text), text)
    except _MistakeError as mistake:
        return int(mistake.token.start) if mistake.token else len(text)
    except (TokenError, RecursionError):
        return 0
    return None if len(trees) == 1 and isinstance(trees[0], exp.Query | exp.Values) else 0


def _spread(root: Any) -> None:
    """Give each node the range of its own tokens and of all below it, children first."""
    nodes = list(root.walk(bfs=False))
    for node in reversed(nodes):
        if node._meta and "start" in node._meta:
            _widen(node, node._meta["start"], node._meta["end"] + 1)
        own = node._meta.get(_RANGE) if node._meta else None
        if own is not None and node.parent is not None:
            _widen(node.parent, *own)
