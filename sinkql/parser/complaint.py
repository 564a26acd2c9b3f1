"""A token that cannot stand where it stands → the error that says what was expected, what was found, and the fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sinkql import words
from sinkql.errors import SinkqlError, line_and_column, nearest
from sinkql.parser import grammar
from sinkql.parser.clause import empty_brackets, misplaced, stands_later
from sinkql.parser.habit import habit
from sinkql.parser.lexical import Lexeme
from sinkql.parser.refusal import refusal
from sinkql.parser.repair import STATEMENT_STARTS, Reading, Repair, find_repair
from sinkql.parser.shape import shape

_LIMIT = 6
_DESCRIBED = {
    "NAME": "a name",
    "LABEL": "an option",
    "OPTION_NAME": "an option",
    "KIND": "a connection type",
    "STRING": "a string",
    "NUMBER": "a number",
    "CONDITION": "a condition",
    "EXPRESSIONS": "an expression",
    "QUERY": "SELECT",
    "EXPRESSION": "an expression",
    **words.RUNS,
}
_DESCRIBED_FIX: dict[tuple[str, ...], str] = {
    ("name",): "a name",
    ("'…'",): "a value",
    ("TO", "name"): '"=" and a value',
}
_VALUE = frozenset({"NAME", "STRING", "NUMBER"})
_VALUE_PARTS = (
    _VALUE
    | {"TRUE", "FALSE", "NULL", "INTERVAL", "MAP", "DEAD", "MINUS", "SECRET", "LPAR", "LSQB"}
    | {"HEX", "FOR", "ON", "AT", "EVERY", "MATCHING"}
)
_QUERY_STARTS = ("SELECT", "VALUES", "WITH")


@dataclass(frozen=True, slots=True)
class Stuck:
    """Hold a statement that cannot be read on at the lexeme `place`, and how to read it in another way."""

    lexemes: Sequence[Lexeme]
    place: int
    text: str
    reading: Reading


def complaint(stuck: Stuck) -> SinkqlError:
    """Return the error for the lexeme that cannot stand there: a form of another system, or a mistake."""
    lexemes, place = stuck.lexemes, stuck.place
    foreign = habit(lexemes, place) or refusal(lexemes, place)
    if foreign is not None:
        return foreign
    expected = stuck.reading.expected(place)
    found = lexemes[place]
    if place and "$END" in expected and _begins_statement(stuck):
        return _no_semicolon(stuck)
    repair = find_repair(lexemes, place, stuck.reading)
    if (
        repair is not None
        and repair.removed
        and repair.place < place
        and lexemes[repair.place].keyword in grammar.keywords()
    ):
        # a keyword that could stand there is what was meant
        repair = None if lexemes[repair.place].keyword in stuck.reading.expected(repair.place) else repair
    if repair is not None and repair.place < place and repair.inserted:
        # a misspelt keyword that was read as a name, or one that stands where a name is missing
        found, expected = lexemes[repair.place], stuck.reading.expected(repair.place)
    message = f"expected {_listed(expected)}, found {_found(found)}"
    hint = _hint(stuck, repair, found, expected)
    if found.kind in ("END", ";"):
        return SinkqlError("SQ1002", message, found.span, detail=_still_open(lexemes[:place], stuck.text), hint=hint)
    if found.keyword in words.RESERVED and "NAME" in expected and _renames(repair):
        hint = f'Write it in quotes to use it as a name: "{found.value}".'
        return SinkqlError("SQ1004", message, found.span, hint=hint)
    code = "SQ1001" if place else "SQ1003"
    return SinkqlError(code, message, found.span, hint=hint)


def _renames(repair: Repair | None) -> bool:
    return repair is None or (repair.removed == 1 and repair.inserted == ("name",))


def _begins_statement(stuck: Stuck) -> bool:
    """Say whether a statement begins in a line of its own where one should have ended."""
    lexemes, place = stuck.lexemes, stuck.place
    line_break = "\n" in stuck.text[lexemes[place - 1].end : lexemes[place].start]
    return lexemes[place].keyword in STATEMENT_STARTS and (line_break or lexemes[place].keyword in ("CREATE", "DROP"))


def _no_semicolon(stuck: Stuck) -> SinkqlError:
    before, found = stuck.lexemes[stuck.place - 1], stuck.lexemes[stuck.place]
    line, _ = line_and_column(stuck.text, before.start)
    return SinkqlError(
        "SQ1005",
        f'";" is missing before {found.keyword}',
        found.span,
        hint=f'End the statement before it with ";", after {_found(before)} in line {line}.',
    )


def _listed(expected: frozenset[str]) -> str:
    rest = set(expected)
    described = []
    if rest >= _VALUE:
        rest -= _VALUE_PARTS
        described.append("a value")
    shown = {_DESCRIBED.get(terminal, terminal) for terminal in rest & (grammar.keywords() | _DESCRIBED.keys())}
    described += sorted(shown, key=lambda word: (word.isupper(), word))
    names = {terminal: symbol for symbol, terminal in grammar.symbols().items()}
    described += sorted(f'"{names[terminal]}"' for terminal in rest if terminal in names)
    if "$END" in rest:
        described.append('";"')
    if len(described) > _LIMIT:
        return ", ".join(described[:_LIMIT]) + ", …"
    return " or ".join([", ".join(described[:-1]), described[-1]] if len(described) > 1 else described)


def _found(lexeme: Lexeme) -> str:
    match lexeme.kind:
        case "END":
            return "the end of the input"
        case "STRING" | "HEX":
            # not what is in it: it may be a secret
            return "a string"
        case "WORD" if lexeme.keyword in grammar.keywords() | words.RESERVED:
            return lexeme.keyword
        case "QUOTED" | "NUMBER" | "PARAMETER":
            return lexeme.text
        case _:
            return f'"{lexeme.text}"'


def _still_open(lexemes: Sequence[Lexeme], text: str) -> str | None:
    """Return which bracket waits for its end, if one does."""
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


def _hint(stuck: Stuck, repair: Repair | None, found: Lexeme, expected: frozenset[str]) -> str | None:
    """Return the fix: the change that lets the statement be read on, else a word that looks like it, else the form."""
    lexemes, place, reading = stuck.lexemes, stuck.place, stuck.reading
    if (
        found.kind == "."
        and lexemes[place - 1].kind in ("WORD", "QUOTED")
        and lexemes[place + 1].kind in ("WORD", "QUOTED")
    ):
        return f"The name has no dot here: write {lexemes[place + 1].text} alone."
    if repair is None or not repair.inserted or (len(expected) > 1 and repair.inserted[0] not in grammar.symbols()):
        other = misplaced(lexemes, place, reading) if found is lexemes[place] else None
        if other is None and (repair is None or not repair.inserted):
            other = empty_brackets(lexemes, place, reading)
        if other is not None:
            return other
    if repair is not None and not _vague(found, repair):
        return _change(stuck, repair)
    if found.kind == "WORD" and found.keyword not in grammar.keywords():
        choices = sorted(expected & grammar.keywords()) + [each for each in _QUERY_STARTS if "QUERY" in expected]
        near = nearest(found.text, choices)
        if near is not None:
            return f"Did you mean {near}?"
    return _too_early(stuck, expected) or shape(stuck.lexemes)


def _vague(found: Lexeme, repair: Repair) -> bool:
    """Say whether a change lets the statement be read on in a way that hardly anybody means."""
    match repair.inserted:
        case ("HEADERS" | "WHERE" | "AT",):
            return True
        case ("WITH",):
            return found.kind != "("
        case (".",):
            return found.kind == ","
    return False


def _change(stuck: Stuck, repair: Repair) -> str:
    found, following = stuck.lexemes[repair.place], stuck.lexemes[min(repair.place + 1, len(stuck.lexemes) - 1)]
    match repair.inserted:
        case ():
            before = f" before {_named(following)}" if repair.place < stuck.place else ""
            return f"Leave out {_named(found)}{before}."
        case ("(", ")") if repair.removed:
            more = "" if repair.removed == 1 else " …"
            return f"Put it in brackets: ({'…' if found.kind == 'STRING' else found.text}{more})."
        case ("AS", *_) if stands_later(stuck.lexemes, stuck.place, "AS"):
            return f"Leave out {_found(found)} …: AS follows here."
        case (keyword, *_) if keyword.isalpha() and stands_later(stuck.lexemes, stuck.place, keyword):
            return f"{keyword} … stands before {_found(found)} …, not after it."
    written = _DESCRIBED_FIX.get(repair.inserted) or " ".join(_quoted(each) for each in repair.inserted)
    if repair.removed:
        word = found.kind == "WORD" and nearest(found.text, [repair.inserted[0]]) is not None
        return f"Did you mean {written}?" if word else f"Write {written} instead of {_named(found)}."
    if found.kind in ("END", ";"):
        return f"Add {written}."
    return f"Write {written} before {_named(found)}."


def _too_early(stuck: Stuck, expected: frozenset[str]) -> str | None:
    """Return which clause should stand before the one that is found, if it stands behind it."""
    found = stuck.lexemes[stuck.place]
    later = next(
        (
            each
            for each in ("FROM", "INTO", "TO", "AS")
            if each in expected and stands_later(stuck.lexemes, stuck.place, each)
        ),
        None,
    )
    return f"{later} … stands before {_found(found)} …, not after it." if later and found.keyword else None


def _named(lexeme: Lexeme) -> str:
    return "the string" if lexeme.kind in ("STRING", "HEX") else _found(lexeme)


def _quoted(written: str) -> str:
    return written if written[0].isalpha() or written[0] == "'" else f'"{written}"'
