"""The error for an unexpected token: the expected and the found token, and the fix.

A missing quote turns strings inside out: they begin where they should end, up to the end of the text. An error after
an unclosed string is therefore reported at that string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sinkql import keywords
from sinkql.errors import SinkqlError, Span, UnclosedError, UnexpectedWordError, line_and_column, nearest, one_of
from sinkql.parser.hint.other_dialects import statement_hint
from sinkql.parser.read import automaton, lexer
from sinkql.parser.read.lexer import Lexeme
from sinkql.parser.read.reader import Reading, StuckError

_LIMIT = 6
_DESCRIBED = {
    "NAME": "a name",
    "LABEL": "an option",
    "OPTION_NAME": "an option",
    "KIND": "the kind of a connector",
    "FORMAT_NAME": "a format",
    "STRING": "a string",
    "NUMBER": "a number",
    "CONDITION": "a condition",
    "EXPRESSIONS": "an expression",
    "QUERY": "SELECT",
    "EXPRESSION": "an expression",
    **keywords.RUNS,
}
_VALUE = frozenset({"NAME", "STRING", "NUMBER"})
_VALUE_PARTS = (
    _VALUE
    | {"TRUE", "FALSE", "NULL", "INTERVAL", "MAP", "DEAD", "MINUS", "SECRET", "LPAR", "LSQB"}
    | {"HEX", "FOR", "ON", "AT", "EVERY", "MATCHING"}
)
_QUERY_STARTS = ("SELECT", "VALUES", "WITH")
_STATEMENT_STARTS = frozenset(
    {
        "ALTER", "BEGIN", "COMMENT", "COMMIT", "CREATE", "DELETE", "DROP", "EXPLAIN", "INSERT", "ROLLBACK", "SELECT",
        "SET", "SHOW", "SUBSCRIBE", "UPDATE", "VALIDATE",
    }
)  # fmt: skip

FORMS = {
    "CREATE SECRET": "CREATE SECRET name AS env_var('NAME');",
    "CREATE CONNECTION": "CREATE CONNECTION name TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '…');",
    "CREATE CLUSTER": "CREATE CLUSTER name (SIZE = 'local[2]');",
    "CREATE SOURCE": "CREATE SOURCE name (column type, …) FROM FILES (PATH = '…') FORMAT JSON;",
    "CREATE TABLE": "CREATE TABLE name (column type, …);",
    "CREATE VIEW": "CREATE VIEW name AS SELECT …;",
    "CREATE OR REPLACE VIEW": "CREATE OR REPLACE VIEW name AS SELECT …;",
    "CREATE MATERIALIZED VIEW": "CREATE MATERIALIZED VIEW name IN CLUSTER name AS SELECT …;",
    "CREATE SINK": (
        "CREATE SINK name FROM relation INTO ICEBERG CATALOG CONNECTION name (NAMESPACE = '…', TABLE = '…') "
        "KEY (column) MODE UPSERT WITH (COMMIT INTERVAL = '10s');"
    ),
    "DROP": "DROP SINK name;",
    "INSERT": "INSERT INTO table (column, …) VALUES (…);",
    "UPDATE": "UPDATE table SET column = value WHERE …;",
    "DELETE": "DELETE FROM table WHERE …;",
    "CREATE ;": "CREATE TABLE name (column type, …); or CREATE VIEW name AS SELECT …;",
    "ALTER ;": "ALTER SINK name SET (COMMIT INTERVAL = '10s');",
    "ALTER SINK": "ALTER SINK name SET (COMMIT INTERVAL = '10s');",
    "COMMENT": "COMMENT ON TABLE name IS 'text';",
    "SHOW": "SHOW SINKS; or SHOW CREATE SINK name;",
    "SET": "SET name = value;",
    "SET TIME ZONE": "SET TIME ZONE 'UTC';",
    "ALTER SYSTEM": "ALTER SYSTEM SET name = value;",
    "ALTER CONNECTION": "ALTER CONNECTION name SET (option = value);",
    "EXPLAIN": "EXPLAIN PHYSICAL PLAN FOR SINK name;",
}
_EARLY = ("FROM", "INTO", "TO", "AS")
_CLAUSES = 12
_LONGEST = 40
_DEPTH = {"(": 1, "[": 1, ")": -1, "]": -1}


def syntax_error(stuck: StuckError) -> SinkqlError:
    """Return the error for the unexpected lexeme: a form of another dialect, or a mistake."""
    lexemes, place = stuck.lexemes, stuck.place
    foreign = statement_hint(lexemes, place)
    if foreign is not None:
        return foreign
    expected = stuck.reading.expected(place)
    unexpected = lexemes[place]
    if place and "$END" in expected and _begins_statement(stuck):
        return _no_semicolon(stuck)
    kind = stuck.reading.unknown_kind(lexemes, place)
    if kind:
        return _no_connection(stuck, kind) or _no_kind(
            stuck, " ".join(word.text for word in kind), Span(kind[0].start, kind[-1].end)
        )
    if _taken_for_name(stuck, expected):
        place -= 1
        expected, unexpected = stuck.reading.expected(place), lexemes[place]
        return UnexpectedWordError(
            "SQ1001", f"expected {_listed(expected)}, found {_described(unexpected)}", unexpected.span
        )
    message = f"expected {_listed(expected)}, found {_described(unexpected)}"
    if unexpected.kind in ("END", ";"):
        return UnexpectedWordError(
            "SQ1002",
            message,
            unexpected.span,
            detail=_still_open(lexemes[:place], stuck.text),
            hint=_form(lexemes, place),
        )
    if _names(stuck, expected):
        hint = f'Write it in quotes to use it as a name: "{unexpected.value}".'
        return SinkqlError("SQ1004", message, unexpected.span, hint=hint)
    code = "SQ1001" if place else "SQ1003"
    return UnexpectedWordError(code, message, unexpected.span, hint=_hint(stuck, expected))


def _no_connection(stuck: StuckError, words: Sequence[Lexeme]) -> SinkqlError | None:
    """Return the error for a word other than CONNECTION after a kind; None if the words begin with no kind."""
    for count in range(len(words) - 1, 0, -1):
        kind, other = " ".join(word.text for word in words[:count]), words[count]
        if stuck.reading.knows_kind(kind):
            near = nearest(other.text, ["CONNECTION"]) is not None
            hint = "Did you mean CONNECTION?" if near else f"Write {kind.upper()} CONNECTION {other.text}."
            return UnexpectedWordError(
                "SQ1001", f"expected CONNECTION, found {_described(other)}", other.span, hint=hint
            )
    return None


def _no_kind(stuck: StuckError, written: str, place: Span) -> SinkqlError:
    near = stuck.reading.near_kind(written)
    hint = f"Did you mean {near}?" if near else _form(stuck.lexemes, stuck.place)
    return UnexpectedWordError("SQ1001", f'expected {_DESCRIBED["KIND"]}, found "{written}"', place, hint=hint)


def _names(stuck: StuckError, expected: frozenset[str]) -> bool:
    """Return whether the unexpected word is a keyword where a name is expected, so that quotes fix it."""
    lexemes, place = stuck.lexemes, stuck.place
    unexpected = lexemes[place]
    if unexpected.keyword not in keywords.RESERVED or "NAME" not in expected:
        return False
    quoted = Lexeme("QUOTED", f'"{unexpected.value}"', unexpected.start, unexpected.end, unexpected.value)
    return stuck.reading.reach([*lexemes[:place], quoted, *lexemes[place + 1 :]], place) > place + 1


def _taken_for_name(stuck: StuckError, expected: frozenset[str]) -> bool:
    """Return whether the preceding keyword was read as a name, because the name before it is missing."""
    before = stuck.lexemes[stuck.place - 1].keyword if stuck.place else None
    return before in automaton.keywords() and before in expected and stuck.reading.expected(stuck.place - 1) >= {"NAME"}


def _begins_statement(stuck: StuckError) -> bool:
    """Return whether a statement begins on a new line where the previous one should have ended."""
    lexemes, place = stuck.lexemes, stuck.place
    line_break = "\n" in stuck.text[lexemes[place - 1].end : lexemes[place].start]
    return lexemes[place].keyword in _STATEMENT_STARTS and (line_break or lexemes[place].keyword in ("CREATE", "DROP"))


def _no_semicolon(stuck: StuckError) -> SinkqlError:
    before, unexpected = stuck.lexemes[stuck.place - 1], stuck.lexemes[stuck.place]
    line, _ = line_and_column(stuck.text, before.start)
    return UnexpectedWordError(
        "SQ1005",
        f'";" is missing before {unexpected.keyword}',
        unexpected.span,
        hint=f'End the statement before it with ";", after {_described(before)} in line {line}.',
    )


def _listed(expected: frozenset[str]) -> str:
    rest = set(expected)
    if "LABEL" in rest:
        rest -= {"PARTITION_BY"}  # one of the options
    described = []
    if rest >= _VALUE:
        rest -= _VALUE_PARTS
        described.append("a value")
    shown = {_DESCRIBED.get(terminal, terminal) for terminal in rest & (automaton.keywords() | _DESCRIBED.keys())}
    described += sorted(shown, key=lambda word: (word.isupper(), word))
    names = {terminal: symbol for symbol, terminal in automaton.symbols().items()}
    signs = sorted(f'"{names[terminal]}"' for terminal in rest if terminal in names)
    if "$END" in rest:
        signs.append('";"')
    if len(described) + len(signs) > _LIMIT:  # a missing bracket or comma is the hardest to see
        first = [sign for sign in signs if sign not in ('"."', '";"')]
        return one_of([*(*first, *described)[:_LIMIT], "…"])
    return one_of([*described, *signs]) if described or signs else ""


def _described(lexeme: Lexeme) -> str:
    match lexeme.kind:
        case "END":
            return "the end of the input"
        case "STRING" | "HEX":
            # without its text, which may be a secret
            return "a string"
        case "WORD" if lexeme.keyword in automaton.keywords() | keywords.RESERVED:
            return lexeme.keyword
        case "QUOTED" | "NUMBER" | "PARAMETER":
            return lexeme.text
        case _:
            return f'"{lexeme.text}"'


def _still_open(lexemes: Sequence[Lexeme], text: str) -> str | None:
    """Return the bracket that is not closed, if any."""
    still_open: list[Lexeme] = []
    for lexeme in lexemes:
        if lexeme.kind in ("(", "["):
            still_open.append(lexeme)
        elif lexeme.kind in (")", "]") and still_open:
            still_open.pop()
    if not still_open:
        return None
    line, column = line_and_column(text, still_open[-1].start)
    return f'the "{still_open[-1].kind}" in line {line}, column {column} is still open'


def _hint(stuck: StuckError, expected: frozenset[str]) -> str | None:
    """Return the fix: the correct keyword, the correct place of a clause, else the form of the statement."""
    lexemes, place, reading = stuck.lexemes, stuck.place, stuck.reading
    unexpected = lexemes[place]
    if (
        unexpected.kind == "."
        and lexemes[place - 1].kind in ("WORD", "QUOTED")
        and lexemes[place + 1].kind in ("WORD", "QUOTED")
    ):
        return f"This name cannot be qualified: write {lexemes[place + 1].text} alone."
    if unexpected.kind == "WORD" and unexpected.keyword not in automaton.keywords():
        choices = sorted(expected & automaton.keywords()) + [start for start in _QUERY_STARTS if "QUERY" in expected]
        near = nearest(unexpected.text, choices)
        if near is not None:
            return f"Did you mean {near}?"
    return _misplaced(lexemes, place, reading) or _empty_brackets(lexemes, place, reading) or _form(lexemes, place)


def _misplaced(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> str | None:
    """Return the hint for a clause in the wrong place: the clause that it goes before, or that it is a duplicate."""
    keyword = lexemes[place].keyword
    if keyword not in automaton.keywords():
        return None
    clauses = [
        token_place
        for token_place in reading.token_places()[2:]
        if lexemes[token_place].keyword in automaton.keywords()
    ]
    readable = [clause for clause in clauses[-_CLAUSES:] if keyword in reading.expected(clause)]
    for at in reversed(readable):
        if keyword != lexemes[at].keyword and _moves(lexemes, place, at, reading):
            return f"{keyword} … goes before {lexemes[at].keyword} …, not after it."
    outside = set(_outside(lexemes[:place]))
    if lexemes[place - 1].keyword != keyword and any(
        lexemes[at].keyword == keyword and at in outside for at in readable
    ):
        return f"{keyword} … is already there: keep one of them."
    for at in _outside(lexemes[place:]):
        later = lexemes[place + at].keyword
        if later in _EARLY and later in reading.expected(place) and _moves(lexemes, place + at, place, reading):
            return f"{later} … goes before {keyword} …, not after it."
    return None


def _empty_brackets(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> str | None:
    """Return the hint for empty brackets: mostly to remove them, and the word before them."""
    if lexemes[place].kind == ")" and lexemes[place - 1].kind == ",":
        return 'Leave out "," before ")".'
    if lexemes[place].kind != ")" or lexemes[place - 1].kind != "(":
        return None
    if [lexeme.keyword for lexeme in lexemes[:2]] == ["CREATE", "SINK"]:  # its brackets are required
        return "Write an option between the brackets."
    start = place - 2 if lexemes[place - 2].keyword == "WITH" else place - 1
    if reading.reach([*lexemes[:start], *lexemes[place + 1 :]], start) == start:
        return None
    return f"Leave out {'WITH ' if start < place - 1 else ''}()."


def _moves(lexemes: Sequence[Lexeme], place: int, at: int, reading: Reading) -> bool:
    """Return whether the statement parses with the clause at `place` moved before the clause at `at`."""
    depth = 0
    for end in range(place + 1, min(place + _LONGEST, len(lexemes))):
        depth += _DEPTH.get(lexemes[end - 1].kind, 0)
        if depth < 0:
            break
        if depth == 0:
            moved = [*lexemes[:at], *lexemes[place:end], *lexemes[at:place], *lexemes[end:]]
            reached = reading.reach(moved, at)
            if moved[reached - 1].kind in ("END", ";"):
                return True
    return False


def _outside(lexemes: Sequence[Lexeme]) -> Iterator[int]:
    """Yield the indexes of the lexemes outside of brackets."""
    depth = 0
    for place, lexeme in enumerate(lexemes):
        depth += _DEPTH.get(lexeme.kind, 0)
        if depth == 0:
            yield place


def _form(lexemes: Sequence[Lexeme], place: int) -> str | None:
    """Return the hint with the statement's form; None if the lexemes before `place` do not begin one."""
    for count in (3, 2, 1):
        form = FORMS.get(" ".join(lexeme.keyword or ";" for lexeme in lexemes[:count]))
        if form is not None:
            return f"The form is {form}" if count >= place or _begins_so(lexemes[:place], form) else None
    return None


def _begins_so(lexemes: Sequence[Lexeme], form: str) -> bool:
    """Return whether a statement begins with the words of a longer form."""
    words = re.findall(r"\w+|\S", form)
    if len(words) <= len(lexemes) or words[len(lexemes)] == ";":
        return False
    for word, lexeme in zip(words, lexemes, strict=False):
        named = word.islower() and (lexeme.kind == "QUOTED" or lexeme.keyword not in automaton.keywords())
        if not named and word != (lexeme.keyword or lexeme.kind):
            return False
    return True


_SWALLOWED = re.compile(r"\n[ \t]*\w|;[ \t]*\n")
_WORD_BEFORE = re.compile(r"[\w./:-]+\Z")
_BEGINNING = re.compile(r"[^\s,;)]+")


def at_unclosed_string(error: SinkqlError, text: str) -> SinkqlError:
    """Return the error at an unclosed string before `error`, or else `error`."""
    if not _may_stand_behind(error) or error.span is None:
        return error
    never_closed = isinstance(error, UnclosedError)
    for lexeme in _before(error, text):
        word = _WORD_BEFORE.search(text, max(0, lexeme.start - 80), lexeme.start)
        if word is not None and lexeme.text[0] == "'":
            return _never_begun(word)
        if _inside_out(lexeme, text, alone=never_closed):
            beginning = _BEGINNING.match(text, lexeme.start)
            assert beginning is not None
            return lexer.unclosed(lexeme.text[0], Span(lexeme.start, min(beginning.end(), lexeme.end)))
    if isinstance(error, UnclosedError) and error.mark == "'":
        word = _WORD_BEFORE.search(text, max(0, error.span.start - 80), error.span.start)
        if word is not None and text[error.span.start] == "'":
            return _never_begun(word)
    return error


def _may_stand_behind(error: SinkqlError) -> bool:
    """Return whether a missing quote further up may have caused the error."""
    match error:
        case UnexpectedWordError():
            return True
        case UnclosedError():
            return error.mark in ("'", '"')
        case _:
            return False


def _never_begun(word: re.Match[str]) -> SinkqlError:
    return SinkqlError(
        "SQ1007",
        f'a quote is missing before "{word[0]}"',
        Span(*word.span()),
        hint=f"Write '{word[0]}': a string has a quote on both sides.",
    )


def _before(error: SinkqlError, text: str) -> list[Lexeme]:
    """Return the strings and quoted names of the error's statement before the error."""
    texts: list[Lexeme] = []
    if error.span is None:
        return texts
    try:
        for lexeme in lexer.scan(text):
            if lexeme.start > error.span.start:
                break
            if lexeme.kind == ";" and lexeme.end <= error.span.start:
                texts.clear()
            if lexeme.kind in ("STRING", "QUOTED") and lexeme.text[0] in ("'", '"'):
                texts.append(lexeme)
    except SinkqlError:
        pass
    return texts


def _inside_out(lexeme: Lexeme, text: str, *, alone: bool) -> bool:
    """Return whether a string extends over the text that should follow it."""
    after = text[lexeme.end : lexeme.end + 1]
    if after.isalnum() or after == "_":
        return True
    inside = lexeme.text[1:-1].rstrip()
    ends_open = len(inside) > 1 and inside.endswith(("=", "(", ",", ";"))
    return alone and (ends_open or _SWALLOWED.search(inside) is not None)
