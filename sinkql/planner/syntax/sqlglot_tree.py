"""Parse a query's text into sqlglot's tree; each node has its range in the text, and no meaning is changed.

sqlglot reads for translation: it renames functions, splits intervals and drops what its target lacks. The dialect here
turns that off. A call keeps its name, an interval keeps its text, and types and strings come from the text. All other
forms become nodes of their classes, which the planner refuses by name unless it supports them.

sqlglot keeps the case of words, and a comment between two words can change their meaning. So it reads an equivalent
text with words in one case, no comments and plain strings. Each word has the same position in both texts.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokens import TokenType

from sinkql import ast
from sinkql.errors import SinkqlError, Span, UnclosedError, too_deep
from sinkql.parser.read.lexer import Lexeme, scan
from sinkql.planner.syntax.cross_check import PLAIN, first_mismatch
from sinkql.planner.syntax.grammar.select import read as read_forms
from sinkql.planner.syntax.grammar.tokens import RESERVED, ForeignError, Form, MistakeError
from sinkql.planner.syntax.syntax_error import complaint, keyword_as_label

COMPARISONS: dict[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
MAX_LEXEMES = 200_000
"""The maximum number of lexemes in a query; planning takes seconds at this size."""
_CACHE_KEY = "syntax"
RANGE = "range"
_MAX_FRAMES = 5000
"""The recursion limit: sqlglot needs 35 Python frames per nested bracket, and the parser allows 100 brackets.

A thread's stack of 8 MB holds eight times as many frames.
"""
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
# functions with special syntax; all others are ordinary calls
_SPECIAL = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM")
# methods that begin at the first token of the node that they return, which gives the range of the node
_RANGED_METHODS = (
    "_parse_expression", "_parse_disjunction", "_parse_conjunction", "_parse_equality", "_parse_comparison",
    "_parse_range", "_parse_bitwise", "_parse_term", "_parse_factor", "_parse_unary", "_parse_type", "_parse_types",
    "_parse_function_call", "_parse_primary", "_parse_column_ops", "_parse_interval", "_parse_table", "_parse_select",
    "_parse_join", "_parse_group", "_parse_with", "_parse_cte", "_parse_limit", "_parse_order", "_parse_lambda",
    "_parse_table_sample", "_parse_unary",
)  # fmt: skip


def row_values(node: Any) -> list[Any] | None:
    """Return the values of a row constructor, (a, b) or ROW(a, b), None for other nodes."""
    row = node.unnest()
    if isinstance(row, exp.Tuple):
        return list(row.expressions)
    named = isinstance(row, exp.Anonymous) and isinstance(row.this, str) and row.this.lower() == "row"
    return list(row.expressions) if named else None


class _MistakeError(ParseError):  # type: ignore[misc]  # sqlglot publishes no types
    def __init__(self, message: str, token: Any) -> None:
        super().__init__(message)
        self.token: Any = None if token is None or token.token_type == TokenType.SENTINEL else token


class _UnreadError(_MistakeError):
    """The text is a query by the grammar, but sqlglot cannot read it."""


class _ForeignError(_MistakeError):
    """The text is not a query, and no word added or removed would repair it."""

    def __init__(self, error: SinkqlError, token: Any) -> None:
        super().__init__("Unexpected", token)
        self.error = error


class _Parser(PostgresParser):  # type: ignore[misc]  # sqlglot publishes no types
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: PostgresParser.FUNCTION_PARSERS[name] for name in _SPECIAL}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{name: PostgresParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE")},
        "SOME": PostgresParser.NO_PAREN_FUNCTION_PARSERS["ANY"],
        "ALL": lambda self: self.expression(exp.All(this=self._parse_bitwise())),
    }
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **PostgresParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self.expression(exp.Paren(this=self._parse_unary())),
        # like all operators without a level, ~ has a lower precedence than arithmetic
        TokenType.RLIKE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_term())),
    }
    LAMBDAS: ClassVar[dict[Any, Any]] = {
        token: lambda self, names: self.expression(
            exp.Kwarg(this=exp.to_identifier(names[0].name.lower()), expression=self._parse_disjunction())
        )
        for token in (TokenType.FARROW, TokenType.COLON_EQ)
    }
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
        # the expected token is missing at the parser's position; sqlglot names the token before
        raise _MistakeError(message, self._curr if message.startswith("Expect") else token or self._curr)

    def _warn_unsupported(self) -> None:
        pass  # the error says that the text is no query; no log is needed

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        if self._ahead("MAP", TokenType.L_BRACKET):
            self._advance(2)
            return self._map()
        if self._ahead("EXISTS", TokenType.L_PAREN) and not self._begins_query(self._index + 2):
            self._advance()  # sqlglot reads EXISTS before parentheses or VALUES as a function call
            return self.expression(exp.Exists(this=self._parse_primary()))
        return super()._parse_function_call(*args, **kwargs)

    def _begins_query(self, place: int) -> bool:
        return place < len(self._tokens) and self._tokens[place].token_type in (TokenType.SELECT, TokenType.WITH)

    def _ahead(self, word: str, sign: Any) -> bool:
        """Return whether a word followed by a sign is next."""
        first, second = self._curr, self._next
        if first is None or second is None or first.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            return False
        return bool(first.text.upper() == word and second.token_type == sign)

    def _record_type(self) -> Any:
        """Read record(name type, …)."""
        self._advance()
        depth = 0
        while self._curr:
            depth += (self._curr.token_type == TokenType.L_PAREN) - (self._curr.token_type == TokenType.R_PAREN)
            self._advance()
            if depth == 0:
                break
        while self._match(TokenType.LIST) or self._match_pair(TokenType.L_BRACKET, TokenType.R_BRACKET):
            pass
        return self.expression(exp.DataType(this=exp.DType.USERDEFINED, kind="record"))

    def _map(self) -> Any:
        """Read the entries of MAP[key => value, …]."""
        entries = [] if self._match(TokenType.R_BRACKET, advance=False) else self._parse_csv(self._entry)
        if not self._match(TokenType.R_BRACKET):
            self.raise_error('Expected "]"')
        keys, values = ([entry[place] for entry in entries] for place in (0, 1))
        return self.expression(exp.Map(keys=exp.Array(expressions=keys), values=exp.Array(expressions=values)))

    def _entry(self) -> tuple[Any, Any]:
        key = self._parse_disjunction()
        if not self._match(TokenType.FARROW):
            self.raise_error('Expected "=>"')
        return key, self._parse_disjunction()

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        if self._curr.token_type != TokenType.INTERVAL or self._next.token_type != TokenType.STRING:
            return None
        self._advance(2)
        text = self.expression(exp.Literal.string(self._prev.text), token=self._prev)
        unit = self._unit()
        if unit and self._match_text_seq("TO"):
            unit = f"{unit} TO {self._unit()}"
        return self.expression(exp.Interval(this=text, unit=exp.Var(this=unit) if unit else None))

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        if self._ahead("RECORD", TokenType.L_PAREN):
            return self._record_type()
        type_ = super()._parse_types(*args, **kwargs)
        if not isinstance(type_, exp.DataType) or self._prev.token_type != TokenType.R_BRACKET:
            return type_
        while self._match(TokenType.LIST):  # sqlglot reads arrays of lists, but no lists of arrays
            type_ = exp.DataType(this=exp.DType.LIST, expressions=[type_], nested=True)
            while self._match(TokenType.L_BRACKET):
                self._match(TokenType.R_BRACKET)
                type_ = exp.DataType(this=exp.DType.ARRAY, expressions=[type_], nested=True)
        return type_

    def _parse_in(self, *args: Any, **kwargs: Any) -> Any:
        in_ = super()._parse_in(*args, **kwargs)
        _widen(in_, self._prev.end, self._prev.end + 1)  # the closing parenthesis belongs to no child
        items = in_.expressions
        if len(items) == 1 and isinstance(items[0], exp.Values):
            in_.set("expressions", None)
            in_.set("query", exp.Subquery(this=items[0]))
        return in_

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        if isinstance(this, exp.Expr) and not alias:
            _widen(this, self._prev.end, self._prev.end + 1)  # a call ends before its FILTER or OVER
        window = super()._parse_window(this, alias)
        if isinstance(window, exp.Window) and isinstance(window.this, exp.Filter):
            read = self._tokens[: self._index]
            over = next(place for place, token in enumerate(read[::-1], 1) if token.token_type == TokenType.OVER)
            _widen(window.this, read[-over - 1].end, read[-over - 1].end + 1)
        return window

    def _parse_bracket(self, this: Any = None) -> Any:
        if isinstance(this, exp.Bracket):
            _widen(this, self._prev.end, self._prev.end + 1)  # x[1] of x[1][2] ends with its bracket
        return super()._parse_bracket(this)

    def _parse_between(self, this: Any) -> Any:
        symmetric = True if self._match_text_seq("SYMMETRIC") else None
        if symmetric is None and self._match_text_seq("ASYMMETRIC"):
            symmetric = False
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("Expected AND")  # sqlglot does not require it
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise(), symmetric=symmetric))

    def _parse_case(self) -> Any:
        if self._match(TokenType.DOT, advance=False):
            return super()._parse_case()
        operand, ifs, default = self._parse_disjunction(), [], None
        while self._match(TokenType.WHEN):
            condition = self._parse_disjunction()
            if not self._match(TokenType.THEN):
                self.raise_error("Expected THEN")  # sqlglot does not require it
            ifs.append(self.expression(exp.If(this=condition, true=self._parse_disjunction())))
        if self._match(TokenType.ELSE):
            default = self._parse_disjunction()
        if not self._match(TokenType.END):
            self.raise_error("Expected END")
        return self.expression(exp.Case(this=operand, ifs=ifs, default=default))

    def _parse_primary(self, *args: Any, **kwargs: Any) -> Any:
        first, second = self._curr, self._next
        if first and second and first.token_type == second.token_type == TokenType.STRING:
            self.raise_error("Unexpected", second)  # strings continued on the next line are one token already
        return super()._parse_primary(*args, **kwargs)

    def _parse_escape(self, this: Any) -> Any:
        if not self._match(TokenType.ESCAPE):
            return this
        return self.expression(exp.Escape(this=this, expression=self._parse_bitwise()))

    def _unit(self) -> str | None:
        unit = str(self._curr.text.upper()).removesuffix("S") if self._curr else ""
        if unit not in _UNITS:
            return None
        self._advance()
        return unit


def _with_range(name: str) -> Any:
    inner = getattr(_Parser, name)

    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = self._index
        node = inner(self, *args, **kwargs)
        if isinstance(node, exp.Expr) and self._index > first:
            _widen(node, self._tokens[first].start, self._tokens[self._index - 1].end + 1)
        return node

    return parse


def _widen(node: Any, start: int, end: int) -> None:
    present = node.meta.get(RANGE)
    node.meta[RANGE] = (min(start, present[0]), max(end, present[1])) if present else (start, end)


for _name in _RANGED_METHODS:
    setattr(_Parser, _name, _with_range(_name))


class _SinkqlQuery(Postgres):  # type: ignore[misc]  # sqlglot publishes no types
    INDEX_OFFSET = 0  # keep subscripts as written
    Parser = _Parser


_DIALECT = _SinkqlQuery()
_BEFORE_STRING = frozenset(
    {"UINT2", "UINT4", "UINT8", "MZ_TIMESTAMP", "MZ_ACLITEM", "ZONE", "PRECISION", "VARYING", "ESCAPE"}
)
"""Words before a string that sqlglot reads as names: types of Materialize, and the ends of other forms."""
RECURSION = "If the number of levels is known, join once for each level, and combine the levels with UNION ALL."
_UNSUPPORTED = {
    "RECURSIVE": ("SQ2924", "recursive queries are not supported yet", RECURSION),
    "OPTIONS": ("SQ2933", "the clause OPTIONS is not supported yet", "Leave it out."),
}
_EXPECTED_TEXTS = {")": '")"', "(": '"("', "table name": "a relation", "END after CASE": "END"}
KEYWORDS = frozenset(word for word in Postgres.Tokenizer.KEYWORDS if word.isalpha())


@dataclass(frozen=True, slots=True)
class Syntax:
    """A query's tree, text and tokens; `offset` is the start of the text in the user's file.

    `spelled` is the text without comments and with words in capitals, for comparisons.
    """

    tree: Any
    text: str
    offset: int
    tokens: tuple[Any, ...] = ()
    spelled: str = ""

    def span(self, node: Any) -> Span:
        """Return the span of a node in the user's file, or that of the whole query if the node has no range."""
        start, end = node.meta.get(RANGE) or (0, len(self.text))
        return Span(start + self.offset, end + self.offset)

    def written(self, node: Any) -> str:
        """Return the text of a node, for messages and strings."""
        start, end = node.meta.get(RANGE) or (0, 0)
        return self.text[start:end]

    def words(self, node: Any) -> str:
        """Return the text of a node without comments, and with words in capitals."""
        start, end = node.meta.get(RANGE) or (0, 0)
        return self.spelled[start:end]

    def signs(self, node: Any) -> tuple[tuple[Any, str], ...]:
        """Return the tokens of a node: equal texts have equal tokens."""
        start, end = node.meta.get(RANGE) or (0, 0)
        first = bisect_left(self.tokens, start, key=lambda token: token.start)
        last = bisect_left(self.tokens, end, key=lambda token: token.start)
        return tuple((token.token_type, token.text) for token in self.tokens[first:last])

    def from_word(self, node: Any, *words: str) -> Span:
        """Return the span of a node starting at a keyword, which is in the node or the last before it."""
        span = self.span(node).shifted(-self.offset)
        starts = [token.start for token in self.tokens if _first_word(token) in words and token.start < span.end]
        inside = [start for start in starts if start >= span.start]
        start = min(inside) if inside else max(starts, default=span.start)
        return Span(start, max(span.end, start + 1)).shifted(self.offset)


def _first_word(token: Any) -> str | None:
    """Return the first word of a keyword token, None for strings and quoted names."""
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or not token.text.strip():
        return None
    return str(token.text.upper().split()[0])


def parse(query: ast.Query) -> Syntax:
    """Parse a SELECT and cache its tree; raise SQ2201 if the text is not a SELECT.

    The tree must not be changed.
    """
    syntax: Syntax | None = query.made.get(_CACHE_KEY)
    if syntax is None:
        syntax = query.made[_CACHE_KEY] = _parse(query)
    return syntax


def _parse(query: ast.Query) -> Syntax:
    sys.setrecursionlimit(max(_MAX_FRAMES, sys.getrecursionlimit()))
    text, offset = query.text, query.span.start
    tokens: list[Any] = []
    plain = ""
    try:
        lexemes = list(islice(scan(text), MAX_LEXEMES + 2))  # with END
        if len(lexemes) > MAX_LEXEMES + 1:
            hint = "Split it into views."
            raise SinkqlError(
                "SQ1029", f"the query has more than {MAX_LEXEMES:,} words and signs", query.span, hint=hint
            )
        plain = spelled(text, lexemes)
        tokens = plain_strings(_DIALECT.tokenize(plain), text)
        trees = _read(tokens, lexemes, text)
    except _ForeignError as mistake:
        error, span = mistake.error, mistake.error.span
        raise SinkqlError(
            error.code, error.message, span.shifted(offset) if span else query.span, hint=error.hint
        ) from None
    except _UnreadError as mistake:
        raise _unread_error(mistake, tokens, text, offset) from None
    except _MistakeError as mistake:
        raise _syntax_error(mistake, tokens, text, offset) from None
    except TokenError as mistake:
        raise _unterminated(getattr(mistake, "end", None) or len(text), offset) from None
    except UnclosedError:
        raise _unterminated(len(text), offset) from None
    except RecursionError:
        raise too_deep(query.span) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise SinkqlError("SQ2201", "expected a SELECT", Span(offset, offset + max(1, len(text.partition(" ")[0]))))
    _unbracket(trees[0])
    return Syntax(trees[0], text, offset, tuple(tokens), plain)


def _unterminated(end: int, offset: int) -> SinkqlError:
    message = "unterminated string, quoted name or comment in the query"
    return SinkqlError("SQ2201", message, Span(offset + end - 1, offset + end))


def _read(tokens: list[Any], lexemes: list[Lexeme], text: str) -> list[Any]:
    """Return sqlglot's trees of a query; the grammar goes first, since it finds the position of an error best."""
    forms = _forms(tokens, lexemes)
    trees = _parsed_by_sqlglot(tokens, text)
    for tree in trees:
        if tree is not None:
            _set_ranges(tree)
    _cross_check(trees, forms, tokens, text)
    return trees


def _parsed_by_sqlglot(tokens: list[Any], text: str) -> list[Any]:
    # agg(ALL x) is agg(x); the grammar allows ALL after a parenthesis nowhere else
    kinds = [None, *(token.token_type for token in tokens)]
    plain = [token for before, token in zip(kinds, tokens, strict=False) if not _all_of_call(before, token)]
    try:
        return list(_Parser(error_level=ErrorLevel.IMMEDIATE, dialect=_DIALECT).parse(plain, text))
    except _MistakeError as mistake:
        raise _UnreadError(str(mistake), mistake.token) from None
    except RecursionError:
        raise
    except Exception:  # sqlglot fails on an unknown form
        error = SinkqlError("SQ2215", "this form is not supported", Span(0, max(1, len(text.rstrip()))))
        raise _ForeignError(error, tokens[0] if tokens else None) from None


def _all_of_call(before: Any, token: Any) -> bool:
    return bool(token.token_type == TokenType.ALL and before == TokenType.L_PAREN)


def _forms(tokens: list[Any], lexemes: list[Lexeme]) -> tuple[Form, ...]:
    """Return the forms of a query; raise _MistakeError if the text is not a query."""
    try:
        return read_forms(lexemes)
    except ForeignError as mistake:
        raise _ForeignError(mistake.error, _token(tokens, mistake.start)) from None
    except MistakeError as mistake:
        message = f"Expected {mistake.expected}" if mistake.expected else "Unexpected"
        raise _MistakeError(message, _token(tokens, mistake.start)) from None


def _cross_check(trees: list[Any], forms: tuple[Form, ...], tokens: list[Any], text: str) -> None:
    """Compare the tree with the text; raise an error if sqlglot reads the text differently than Postgres."""
    if len(trees) != 1 or trees[0] is None:
        return
    other = first_mismatch(trees[0], forms, text, lambda node: node.meta.get(RANGE) or (0, 0))
    if other is not None:
        raise _ForeignError(_misread_error(other, text), _token(tokens, other.start))


def _token(tokens: list[Any], start: int) -> Any:
    """Return the token at or after a position, None at the end."""
    return next((token for token in tokens if token.end >= start), None)


def _syntax_error(mistake: _MistakeError, tokens: list[Any], text: str, offset: int) -> SinkqlError:
    stuck = tokens.index(mistake.token) if mistake.token else len(tokens)
    expected = re.match(r"Expect(?:ing|ed) (.+?)(?: but got .*)?$", str(mistake), re.DOTALL)
    wanted = None if expected is None else _EXPECTED_TEXTS.get(expected[1], expected[1])
    return complaint(tokens, stuck, text, offset, expected=wanted, reserved=RESERVED, attempt=_attempt)


def _unread_error(mistake: _UnreadError, tokens: list[Any], text: str, offset: int) -> SinkqlError:
    """Return the error for a query of the grammar that sqlglot cannot read."""
    if _is_string_after_name(mistake, tokens):
        return _syntax_error(mistake, tokens, text, offset)
    token = mistake.token
    if token is not None:
        label = keyword_as_label(tokens, tokens.index(token), text, offset, attempt=_attempt)
        if label is not None:
            return label
    span = Span(token.start, token.end + 1) if token else Span(0, max(1, len(text.rstrip())))
    unread = ("SQ2215", "this form is not supported yet", None)
    code, message, hint = _UNSUPPORTED.get(token.text.upper() if token else "", unread)
    return SinkqlError(code, message, span.shifted(offset), hint=hint)


def _is_string_after_name(mistake: _MistakeError, tokens: list[Any]) -> bool:
    """Return whether sqlglot fails at a string after a name that is no type; the grammar has no list of types."""
    stuck = tokens.index(mistake.token) if mistake.token else 0
    if not stuck or mistake.token.token_type != TokenType.STRING:
        return False
    before = tokens[stuck - 1]
    if stuck > 2 and tokens[stuck - 2].token_type == TokenType.DOT:
        return bool(tokens[stuck - 3].text.lower() != "pg_catalog")  # a column with any name
    return before.token_type == TokenType.VAR and before.text.upper() not in _BEFORE_STRING


def _misread_error(form: Form, text: str) -> SinkqlError:
    """Return the error for words that sqlglot groups differently than Postgres."""
    span = Span(form.start, form.end)
    if form.kind in PLAIN:
        called = re.fullmatch(r"((?:current|local)_?\w+)\s*\(\s*\)", text[form.start : form.end], re.IGNORECASE)
        hint = f"Write {called[1]}, without parentheses." if called else None
        return SinkqlError("SQ2215", "this form is not supported", span, hint=hint)
    hint = "Put parentheses around each part, as in (a + b) || c."
    return SinkqlError("SQ2215", "the order of operations here needs parentheses", span, hint=hint)


def _attempt(text: str) -> int | None:
    """Return the position where a text stops being a query, None if it is one."""
    try:
        lexemes = list(scan(text))
        trees = _read(plain_strings(_DIALECT.tokenize(spelled(text, lexemes)), text), lexemes, text)
    except _MistakeError as mistake:
        return int(mistake.token.start) if mistake.token else len(text)
    except (TokenError, SinkqlError, RecursionError):
        return 0
    return None if len(trees) == 1 and isinstance(trees[0], exp.Query | exp.Values) else 0


def _set_ranges(root: Any) -> None:
    """Fold names to lower case, and set each node's range to include its tokens and its children."""
    nodes = list(root.walk(bfs=False))
    for node in reversed(nodes):
        if isinstance(node, exp.Identifier) and not node.args.get("quoted"):
            node.args["this"] = str(node.this).lower()
        if node._meta and "start" in node._meta:
            _widen(node, node._meta["start"], node._meta["end"] + 1)
        range_ = node._meta.get(RANGE) if node._meta else None
        if range_ is not None and node.parent is not None:
            _widen(node.parent, *range_)


def _unbracket(root: Any) -> None:
    """Remove parentheses that only express the shape of the tree."""
    for paren in list(root.find_all(exp.Paren)):
        inner, parent = paren.this, paren.parent
        field = isinstance(parent, exp.Dot | exp.Bracket) and paren.arg_key == "this"  # (r).f and (a[1:2])[1]
        compared = type(inner) in COMPARISONS and type(parent) in COMPARISONS
        if not field and not compared:
            _replace_node(inner, paren)


def _replace_node(inner: Any, paren: Any) -> None:
    """Replace parentheses by the node inside; sqlglot's `replace` walks a whole list each time."""
    parent, key, index = paren.parent, paren.arg_key, paren.index
    if parent is None or key is None:
        paren.replace(inner)
        return
    if index is None:
        parent.args[key] = inner
    else:
        parent.args[key][index] = inner
    inner.parent, inner.arg_key, inner.index = parent, key, index
    paren.parent = None


def string_value(syntax: Syntax, node: Any) -> str | None:
    """Return the value of a string literal '…' or E'…', None for other nodes."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    return literal_value(syntax.written(node))


_PLAIN = re.compile(r"'((?:[^']|'')*)'(?!\s*')")
"""A string without a prefix that does not continue on the next line."""
_BETWEEN = re.compile(r"[^\r\n]")
"""Characters between words that become blanks; line ends remain."""
_STRINGS = (TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)


def spelled(text: str, lexemes: Iterable[Lexeme]) -> str:
    """Return a text of the same length with keywords and unquoted names in capitals, and blanks for comments.

    Letters outside of ASCII remain: no keyword has them, and their capitals may have several characters.
    """
    pieces, position = [], 0
    for lexeme in lexemes:
        pieces.append(_BETWEEN.sub(" ", text[position : lexeme.start]))
        word = text[lexeme.start : lexeme.end]
        pieces.append(_capitals(word) if lexeme.kind == "WORD" else word)
        position = lexeme.end
    return "".join([*pieces, _BETWEEN.sub(" ", text[position:])])


def _capitals(word: str) -> str:
    return (
        word.upper() if word.isascii() else "".join(letter.upper() if letter.isascii() else letter for letter in word)
    )


def literal_value(written: str) -> str | None:
    """Return the value of a string literal '…' or E'…', None for any other text."""
    string = _string_at(written, 0)
    return string[0] if string is not None and string[1] == len(written) else None


def plain_strings(tokens: list[Any], text: str) -> list[Any]:
    """Return the tokens with continued strings joined; E'…' and $$…$$ become ordinary strings."""
    joined: list[Any] = []
    end = 0
    for token in tokens:
        if token.start < end:
            continue  # a continuation of the string before
        string = _string_at(text, token.start) if token.token_type in _STRINGS else None
        if token.token_type == TokenType.RLIKE and token.text.isalpha():  # an ordinary name: the operator is ~
            joined.append(type(token)(TokenType.VAR, token.text, token.line, token.col, token.start, token.end))
            continue
        if string is None:
            joined.append(token)
            continue
        value, end = string
        place = token.line, token.col, token.start, end - 1
        joined.append(type(token)(TokenType.STRING, value, *place, token.comments))
    return joined


def _string_at(text: str, start: int) -> tuple[str, int] | None:
    """Return the value and the end of the string at `start`, None if there is no string."""
    plain = _PLAIN.match(text, start)
    if plain is not None:
        return plain[1].replace("''", "'"), plain.end()
    lexeme = next(scan(text, start))
    return (lexeme.value, lexeme.end) if lexeme.kind == "STRING" else None
