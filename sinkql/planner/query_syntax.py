"""A query's text → sqlglot's tree, every node with the range of text it was written as, no meaning changed on the way.

sqlglot reads for translation: it renames functions, splits intervals and drops what the target lacks. The dialect here
turns that off: a call stays a call under the name it was written, an interval keeps its text, and types and strings are
taken from the text again. Whatever else sqlglot knows arrives as a node of its own class, which the planner refuses by
name unless it knows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokens import TokenType

from sinkql import ast
from sinkql.errors import SinkqlError, Span

_RANGE = "range"
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
    text, offset = query.text, query.span.start
    try:
        tokens = _DIALECT.tokenize(text)
        trees = _Parser(error_level=ErrorLevel.IMMEDIATE, dialect=_DIALECT).parse(tokens, text)
    except _MistakeError as mistake:
        raise _syntax_error(mistake, text, offset) from None
    except TokenError as mistake:
        start = getattr(mistake, "end", None) or len(text)
        raise SinkqlError(
            "SQ2201", "the query's text ends inside a string, name or comment", Span(offset + start - 1, offset + start)
        ) from None
    except RecursionError:
        raise SinkqlError("SQ2209", "the query is nested too deeply", query.span) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise SinkqlError("SQ2201", "expected a SELECT", Span(offset, offset + max(1, len(text.split(None, 1)[0]))))
    _spread(trees[0])
    return Syntax(trees[0], text, offset)


def _syntax_error(mistake: _MistakeError, text: str, offset: int) -> SinkqlError:
    token, message = mistake.token, str(mistake)
    found = f'"{token.text}"' if token else "end of query"
    span = (
        Span(offset + token.start, offset + token.end + 1)
        if token
        else Span(offset + len(text), offset + len(text) + 1)
    )
    expected = re.match(r"Expect(?:ing|ed) (.+?)(?: but got .*)?$", message, re.DOTALL)
    if expected:
        return SinkqlError("SQ2201", f"expected {expected[1]}, found {found}", span)
    return SinkqlError("SQ2201", f"unexpected {found}", span)


def _spread(root: Any) -> None:
    """Give each node the range of its own tokens and of all below it, children first."""
    nodes = list(root.walk(bfs=False))
    for node in reversed(nodes):
        if node._meta and "start" in node._meta:
            _widen(node, node._meta["start"], node._meta["end"] + 1)
        own = node._meta.get(_RANGE) if node._meta else None
        if own is not None and node.parent is not None:
            _widen(node.parent, *own)


_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)


def string_value(syntax: Syntax, node: Any) -> str | None:
    """Return the value of a string literal as it was written, '…' or E'…'; None for any other node or form."""
    written = syntax.written(node)
    if isinstance(node, exp.Literal) and node.is_string and written.startswith("'"):
        return written[1:-1].replace("''", "'")
    if isinstance(node, exp.ByteString) and written[:2].upper() == "E'":
        return _ESCAPE.sub(_unescape, written[2:-1])
    return None


def _unescape(match: re.Match[str]) -> str:
    if match[0] == "''":
        return "'"
    code = match[1] or match[2] or match[3]
    if code:
        return chr(int(code, 16))
    return chr(int(match[4], 8)) if match[4] else _ESCAPES.get(match[5], match[5])
