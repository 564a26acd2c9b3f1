"""Complete a text at the cursor: keywords by the grammar, kinds of names, options, values.

The kinds of a name follow from the statement's outline before it: its keywords, with ? for names. Queries have a
separate parser, so inside a query the candidates follow from its clauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sinkql import keywords
from sinkql.errors import SinkqlError, UnclosedError
from sinkql.keywords import Keywords, Role
from sinkql.parser.read import automaton, lexer, reader
from sinkql.parser.read.automaton import Ahead
from sinkql.parser.read.lexer import Lexeme

NameKind = Literal[
    "SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "INDEX", "SINK",
    "RELATION", "EXPORTED", "COLUMN", "FUNCTION", "SETTING", "SCHEMA", "DATABASE", "DATA TYPE", "SECRET FUNCTION",
]  # fmt: skip
"""RELATION is any relation that can be queried, EXPORTED any relation that a sink can read."""

_ITEM = "SECRET|CONNECTION|CLUSTER|SOURCE|TABLE|MATERIALIZED VIEW|VIEW|INDEX|SINK|SCHEMA|DATABASE"
_NAMED = re.compile(
    rf"(?:DROP|ALTER|SHOW(?: REDACTED)? CREATE|COMMENT ON|VALIDATE|OPTIMIZE|EXPLAIN(?: .*)?) (?P<kind>{_ITEM})"
    r"(?: IF EXISTS)?(?: \? ,)*"
)
_CONNECTION = re.compile(r"CREATE .*(?:FROM|INTO|USING) (?P<kind>[A-Z0-9_ ]+?) CONNECTION")
_PLACES: tuple[tuple[str, tuple[NameKind, ...]], ...] = (
    (r".*(?:IN|SET) CLUSTER|ALTER CLUSTER \? SWAP WITH", ("CLUSTER",)),
    (r"CREATE SINK .*FROM|ALTER SINK .* SET FROM", ("EXPORTED",)),
    (r"CREATE SECRET .* (?:AS|\|\|)|ALTER SECRET \? AS", ("SECRET FUNCTION",)),
    (r".* SECRET", ("SECRET",)),
    (r"CREATE SINK .*(?:KEY|PARTITION BY|SORT BY) \((?: .* ,)?", ("COLUMN",)),
    (r"CREATE SINK .*PARTITION BY \((?: .* ,)? \? \((?: [^ ]+ ,)?", ("COLUMN",)),
    (r"CREATE (?:SOURCE|TABLE)(?: IF NOT EXISTS)? \? \((?: .*,)? \?", ("DATA TYPE",)),
    (r"CREATE TABLE .* FROM SOURCE|CREATE SUBSOURCE .* OF SOURCE|CREATE SINKS .* OF SOURCE", ("SOURCE",)),
    (r"CREATE (?:DEFAULT )?INDEX .*ON|SHOW INDEXES ON", ("MATERIALIZED VIEW",)),
    (r"SHOW (?:COLUMNS|FIELDS) (?:FROM|IN)|SUBSCRIBE(?: TO)?|COMMENT ON COLUMN", ("RELATION",)),
    (r"REPLAY ERRORS FROM|SHOW SUBSOURCES ON", ("SOURCE",)),
    (r"SHOW .*FROM", ("SCHEMA",)),
    (r"INSERT INTO|UPDATE|DELETE FROM", ("TABLE",)),
    (r"INSERT INTO \? \((?: \? ,)*|UPDATE \? SET", ("COLUMN",)),
    (r"(?:SET|SHOW|RESET|ALTER SYSTEM SET|ALTER SYSTEM RESET)(?: SESSION| LOCAL)?", ("SETTING",)),
)
_COMPILED = tuple((re.compile(pattern), kinds) for pattern, kinds in _PLACES)


def name_kinds(outline: str, words: Keywords) -> tuple[tuple[NameKind, ...], str | None]:
    """Return the possible kinds of a name after an outline, and the required type of a connection."""
    connection = _CONNECTION.fullmatch(outline)
    if connection is not None:
        # a kind of source may read through connections of several types
        return ("CONNECTION",), connection["kind"] if words.options("CONNECTION", connection["kind"]) else None
    for pattern, kinds in _COMPILED:
        if pattern.fullmatch(outline):
            return kinds, None
    named = _NAMED.fullmatch(outline)
    if named is not None:
        return _of_kind(named["kind"]), None
    return (), None


def _of_kind(kind: str) -> tuple[NameKind, ...]:
    match kind:
        case (
            "SECRET" | "CONNECTION" | "CLUSTER" | "SOURCE" | "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "INDEX" | "SINK"
            | "SCHEMA" | "DATABASE"
        ):  # fmt: skip
            return (kind,)
        case _:
            return ()


_QUERIES = ("QUERY", "CONDITION", "EXPRESSION", "EXPRESSIONS", "FROM_ITEMS")
_QUERY_STARTS = ("SELECT", "VALUES", "WITH")
_LABELS = ("LABEL", "OPTION_NAME")


@dataclass(frozen=True, slots=True)
class QueriedRelation:
    """A relation that a query reads: its name as written, and its alias."""

    name: str
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class OptionPlace:
    """The place of an option: `made` is the item after CREATE or ALTER, `kind` its kind in upper case.

    `behind_with` is true inside WITH (…), `taken` are the options already written. ALTER has no kind: `altered` is the
    item's name, and `named` is true if its options have no values. `format` is set inside a format's options.
    """

    item: str
    kind: str | None = None
    behind_with: bool = False
    written: tuple[str, ...] = ()
    altered: str | None = None
    named: bool = False
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates for the word under the cursor, which begins at `start`.

    `kinds` are kinds of names: kinds of items as in DROP, RELATION, COLUMN, FUNCTION, SETTING, SCHEMA, DATABASE, DATA
    TYPE. `connection` is the required type of a connection. `relations` are the relations whose columns are candidates;
    `qualifier` is the name before a dot; `kinds_of` is the role whose kinds of connectors are candidates. `options` are
    an option's labels, `value_of` the label whose value is typed.
    """

    start: int
    keywords: tuple[str, ...] = ()
    kinds: tuple[NameKind, ...] = ()
    connection: str | None = None
    kinds_of: Role | None = None
    options: OptionPlace | None = None
    value_of: tuple[OptionPlace, str] | None = None
    relations: tuple[QueriedRelation, ...] = ()
    qualifier: str | None = None


def candidates(text: str, cursor: int, words: Keywords) -> Candidates:
    """Return the candidates at the cursor; none after an error in the text before it, and none inside a comment."""
    lexemes, start, quoted = _before(text, cursor)
    if lexemes is None:
        return Candidates(cursor)
    walk = _Walk(text, cursor, start, lexemes, words)
    choices = walk.candidates()
    if quoted and choices.value_of is None:
        return Candidates(cursor)
    return choices


def _before(text: str, cursor: int) -> tuple[list[Lexeme] | None, int, bool]:
    """Return the lexemes of the statement before the word under the cursor, and the start of that word.

    An open string counts as the word under the cursor, and the third value is then true. Inside a comment, the lexemes
    are None.
    """
    lexemes: list[Lexeme] = []
    head = text[:cursor]
    try:
        for lexeme in lexer.scan(head):
            if lexeme.kind == ";":
                lexemes = []
            elif lexeme.kind != "END":
                lexemes.append(lexeme)
    except SinkqlError as error:
        if not isinstance(error, UnclosedError) or error.mark != "'" or error.span is None:
            return None, cursor, False
        return lexemes, error.span.start, True
    if head[lexemes[-1].end if lexemes else 0 :].strip() and _in_comment(head):
        return None, cursor, False
    if lexemes and lexemes[-1].end == cursor and lexemes[-1].kind == "WORD":
        return lexemes[:-1], lexemes[-1].start, False
    return lexemes, cursor, False


def _in_comment(head: str) -> bool:
    """Return whether a line comment reaches the cursor; it is then the only open construct in the text before."""
    return "--" in head.rpartition("\n")[2]


class _Walk:
    """Follows the grammar through a statement to the cursor."""

    def __init__(self, text: str, cursor: int, start: int, lexemes: list[Lexeme], words: Keywords) -> None:
        self._words = words
        self._kind: str | None = None
        self._text, self._cursor, self._start = text, cursor, start
        self._lexemes = [*lexemes, Lexeme("END", "", start, start)]
        self._outline: list[str] = []
        self._labels: list[list[str]] = [[]]
        self._opened: list[int] = []
        self._names: list[QueriedRelation] = []

    def candidates(self) -> Candidates:
        parser: Ahead = automaton.start(self._words)
        place = 0
        while self._lexemes[place].kind != "END":
            choices = self._of_many_words(parser, place)
            if choices is not None:
                return choices
            terminal, count = reader.next_terminal(parser, self._lexemes, place)
            if terminal in _QUERIES and place + count >= len(self._lexemes) - 1:
                return self._in_query(terminal, place)
            behind = parser.after(terminal)
            if behind is None:
                return Candidates(self._cursor)
            self._take(terminal, place, count)
            parser = behind
            place += count
        choices = self._of_many_words(parser, place)
        return choices if choices is not None else self._here(parser)

    def _of_many_words(self, parser: Ahead, place: int) -> Candidates | None:
        """Return the labels or kinds of several words that begin with the words from `place` to the cursor, if any."""
        rest = self._lexemes[place:-1]
        if any(lexeme.kind != "WORD" for lexeme in rest):
            return None
        begun = " ".join(lexeme.text.upper() for lexeme in rest)
        start = rest[0].start if rest else self._start
        label = next((terminal for terminal in _LABELS if terminal in parser.row and parser.takes(terminal)), None)
        if label is not None and _begins(begun, self._words.labels):
            return Candidates(start, self._keywords(parser) if not rest else (), options=self._options())
        role = self._role() if parser.row.keys() & {"KIND", "FORMAT_NAME"} else None
        if role is not None and _begins(begun, frozenset(self._words.kinds.get(role, {}))):
            return Candidates(start, self._keywords(parser) if not rest else (), kinds_of=role)
        return None

    def _take(self, terminal: str, place: int, count: int) -> None:
        """Add a token to the statement's outline."""
        lexemes = self._lexemes[place : place + count]
        match terminal:
            case "NAME":
                if self._outline[-2:] == ["?", "."]:
                    del self._outline[-2:]
                    self._names[-1:] = [QueriedRelation(f"{self._names[-1].name}.{lexemes[0].text}")]
                else:
                    self._names.append(QueriedRelation(lexemes[0].text))
                self._outline.append("?")
            case "LABEL" | "OPTION_NAME":
                self._labels[-1].append(" ".join(lexeme.text.upper() for lexeme in lexemes))
                self._outline.append("@")
            case "KIND" | "FORMAT_NAME":
                words = [lexeme.text.upper() for lexeme in lexemes]
                if self._role() in ("CONNECTION", "SOURCE", "SINK"):
                    self._kind = " ".join(words)
                self._outline.extend(words)
            case "LPAR" | "LSQB":
                self._outline.append(lexemes[0].kind)
                self._opened.append(len(self._outline))
                self._labels.append([])
            case "RPAR" | "RSQB":
                self._outline.append(lexemes[0].kind)
                if self._opened:
                    self._opened.pop()
                    self._labels.pop()
            case _ if terminal in automaton.keywords():
                self._outline.append(terminal)
            case _:
                self._outline.append(lexemes[0].kind if count == 1 else "…")

    def _role(self) -> Role | None:
        """Return the role of the kind that comes next."""
        match self._outline:
            case ["CREATE", "CONNECTION", *_, "TO" | "FOR"]:
                return "CONNECTION"
            case ["CREATE", "SOURCE", *_, "FROM"]:
                return "SOURCE"
            case ["CREATE", "SINK" | "SINKS", *_, "INTO"]:
                return "SINK"
            case [*_, "FORMAT"]:
                return "FORMAT"
            case [*_, "USING"]:
                return "CONNECTION"
        return None

    def _options(self) -> OptionPlace:
        outline = self._outline[: self._opened[-1] if self._opened else len(self._outline)]
        altered = self._names[0].name if outline[:1] == ["ALTER"] and self._names else None
        behind_with = outline[-2:] == ["WITH", "("]
        of_format = "FORMAT" in outline[:-1] and not behind_with
        return OptionPlace(
            outline[1] if len(outline) > 1 else "",
            self._kind,
            behind_with=behind_with,
            written=tuple(self._labels[-1]),
            altered=altered,
            named=outline[-2:] in (["RESET", "("], ["DROP", "("]),
            format=outline[outline.index("FORMAT") + 1] if of_format else None,
        )

    def _here(self, parser: Ahead) -> Candidates:
        expected = parser.expected()
        outline = " ".join(self._outline)
        kinds, connection = (
            name_kinds(outline, self._words) if "NAME" in expected and self._outline[-1:] != ["."] else ((), None)
        )
        value_of = None
        if self._outline and "STRING" in expected and self._labels[-1]:
            assigned = self._outline[-1] == "@" or self._outline[-2:] == ["@", "="]
            value_of = (self._options(), self._labels[-1][-1]) if assigned else None
        query: tuple[str, ...] = _QUERY_STARTS if "QUERY" in expected else ()
        if expected & {"CONDITION", "EXPRESSION", "EXPRESSIONS"}:
            inside = within_query((), whole=False)
            query, kinds = inside.keywords, (*kinds, *inside.kinds)
        return Candidates(
            self._start,
            tuple(sorted({*self._keywords(parser), *query})),
            kinds,
            connection,
            value_of=value_of,
            relations=self._sources() if "COLUMN" in kinds else (),
        )

    def _sources(self) -> tuple[QueriedRelation, ...]:
        """Return the name after the statement's FROM: the names are in the order of their marks in the outline."""
        marks = [place for place, mark in enumerate(self._outline) if mark == "?"]
        return tuple(
            name
            for mark, name in zip(marks, self._names, strict=True)
            if self._outline[mark - 1] == "FROM" or self._outline[:2] == ["CREATE", "INDEX"]
        )

    def _in_query(self, terminal: str, place: int) -> Candidates:
        begin = self._lexemes[place].start
        relations = tuple(QueriedRelation(*relation) for relation in relations_of(self._text[begin:]))
        within = within_query(self._lexemes[place:-1], whole=terminal == "QUERY")
        return Candidates(
            self._start,
            within.keywords,
            within.kinds,
            relations=relations if relations or terminal == "QUERY" else self._sources(),
            qualifier=within.qualifier,
        )

    def _keywords(self, parser: Ahead) -> tuple[str, ...]:
        """Return the possible keywords, each with the keywords that must follow it."""
        expected = parser.expected()
        if "LABEL" in expected:
            expected -= {"PARTITION_BY"}  # an option that only some kinds have
        runs = [keywords.RUNS[terminal] for terminal in expected & keywords.RUNS.keys()]
        for first in expected & automaton.keywords():
            run, ahead = [first], parser.after(first)
            while ahead is not None:
                following = ahead.expected()
                if len(following) != 1 or not following <= automaton.keywords():
                    break
                run.extend(following)
                ahead = ahead.after(*following)
            runs.append(" ".join(run))
        return tuple(sorted(runs))


def _begins(begun: str, names: Sequence[str] | frozenset[str]) -> bool:
    """Return whether some of the known words begin with these words."""
    return not begun or any(name.startswith(f"{begun} ") for name in names)


_BEFORE_RELATION = frozenset({"FROM", "JOIN"})
_CLAUSES = frozenset(
    {"SELECT", "FROM", "JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WITH", "VALUES"}
)
_AFTER_RELATION = (
    "AS", "CROSS JOIN", "FULL JOIN", "GROUP BY", "HAVING", "JOIN", "LEFT JOIN", "LIMIT", "ON", "ORDER BY", "RIGHT JOIN",
    "UNION", "UNION ALL", "USING", "WHERE",
)  # fmt: skip
_IN_EXPRESSION = (
    "ALL", "AND", "AS", "ASC", "BETWEEN", "CASE", "CAST", "DESC", "DISTINCT", "ELSE", "END", "EXISTS", "FALSE",
    "FILTER", "FROM", "GROUP BY", "HAVING", "ILIKE", "IN", "INTERVAL", "IS", "IS NOT NULL", "IS NULL", "LIKE", "LIMIT",
    "NOT", "NULL", "NULLS FIRST", "NULLS LAST", "OFFSET", "OR", "ORDER BY", "OVER", "PARTITION BY", "SELECT", "THEN",
    "TRUE", "UNION", "UNION ALL", "WHEN", "WHERE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InQuery:
    """The candidates at a place in a query; `qualifier` is the name before a dot."""

    keywords: tuple[str, ...]
    kinds: tuple[NameKind, ...]
    qualifier: str | None = None


def within_query(lexemes: Sequence[Lexeme], *, whole: bool) -> InQuery:
    """Return the candidates after the lexemes; `whole` is false for an expression, which has no clauses."""
    last = lexemes[-1] if lexemes else None
    clause = _clause(lexemes)
    in_from = whole and clause in _BEFORE_RELATION
    if last is not None and last.kind == ".":
        before = lexemes[-2] if len(lexemes) > 1 else None
        qualifier = before.value if before is not None and before.kind in ("WORD", "QUOTED") else None
        return InQuery((), ("RELATION",) if in_from else ("COLUMN",), qualifier)
    if in_from and last is not None:
        wants = last.keyword in _BEFORE_RELATION or last.kind in (",", "(")
        return InQuery(("SELECT",), ("RELATION",)) if wants else InQuery(_AFTER_RELATION, ())
    if last is not None and last.keyword in ("GROUP", "ORDER", "PARTITION"):
        return InQuery(("BY",), ())
    if last is not None and last.keyword == "AS":
        return InQuery((), ())
    return InQuery(_IN_EXPRESSION, ("COLUMN", "FUNCTION"))


def _clause(lexemes: Sequence[Lexeme]) -> str:
    """Return the clause at the end of the lexemes, outside of closed brackets."""
    depth = 0
    for lexeme in reversed(lexemes):
        if lexeme.kind == ")":
            depth += 1
        elif lexeme.kind == "(":
            depth = max(0, depth - 1)
        elif depth == 0 and lexeme.keyword in _CLAUSES:
            return lexeme.keyword
    return "SELECT"


def relations_of(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the name, as written, and the alias of each relation that a query reads, up to its semicolon."""
    lexemes: list[Lexeme] = []
    try:
        for lexeme in lexer.scan(text):
            if lexeme.kind == ";":
                break
            lexemes.append(lexeme)
    except SinkqlError:
        pass  # the lexemes before the error are enough
    place = 0
    while place < len(lexemes):
        place += 1
        if lexemes[place - 1].keyword in _BEFORE_RELATION:
            while True:
                name, alias, place = _relation(lexemes, place)
                if name:
                    yield name, alias
                if place >= len(lexemes) or lexemes[place].kind != "," or not name:
                    break
                place += 1


def _relation(lexemes: Sequence[Lexeme], place: int) -> tuple[str, str | None, int]:
    """Return the name at `place`, its alias, and the place after both."""
    parts = []
    while place < len(lexemes) and _names(lexemes[place]):
        parts.append(lexemes[place].text)
        place += 1
        if place >= len(lexemes) or lexemes[place].kind != ".":
            break
        place += 1
    if place < len(lexemes) and lexemes[place].keyword == "AS":
        place += 1
    alias = None
    if parts and place < len(lexemes) and _names(lexemes[place]):
        alias = lexemes[place].value
        place += 1
    return ".".join(parts), alias, place


def _names(lexeme: Lexeme) -> bool:
    return lexeme.kind == "QUOTED" or (lexeme.kind == "WORD" and lexeme.keyword not in keywords.QUERY)
