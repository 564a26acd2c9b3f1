"""Split text into lexemes (words, quoted names, strings, numbers, symbols), and decode names and strings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from sinkql import keywords
from sinkql.errors import SinkqlError, Span, UnclosedError, UnexpectedCharacterError
from sinkql.regex_repeat import RepeatedPattern

MAX_DEPTH = 100
MAX_LEXEMES = 250_000
"""The maximum number of lexemes in a statement: a longer text is hardly a statement, and would take minutes."""
_BYTE_ORDER_MARK = "\ufeff"
# Excludes ASCII and lists no upper bound: a range up to the last character takes forty times as long to compile.
_CHARACTER = r"[^\x00-@\[-^`{-\x7f]"
_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\r\n\f\v]+)
  | (?P<line_comment>--[^\r\n]*)
  | (?P<comment>/\*)
  | (?P<escaped>[eE]')
  | (?P<hex>[xX]')
  | (?P<string>')
  | (?P<quoted>")
  | (?P<dollar>\$(?:{_CHARACTER}[^\x00-/:-@\[-^`{{-\x7f]*)?\$)
  | (?P<parameter>\$[0-9]+)
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<word>{_CHARACTER}[^\x00-#%-/:-@\[-^`{{-\x7f]*)
  | (?P<symbol>::|:=|=>|[=*()\[\]{{}},;.:])
  | (?P<operator>[-+/<>~!@\#%^&|`?][-+*/<>=~!@\#%^&|`?]*)
    """,
    re.VERBOSE,
)
_COMMENT_START = re.compile(r"--[^\r\n]*|/\*")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_PLAIN = RepeatedPattern(r"[^']+|''")
_ESCAPED = RepeatedPattern(r"[^'\\]+|''|\\.")
_QUOTED = RepeatedPattern(r'[^"]+|""')
_NOT_ALLOWED = re.compile("[\0\ud800-\udfff]")
_CHARACTER_HINTS = {
    "‘’‚‛′´": "Write a straight quote: '.",
    "“”„‟″«»": "Write straight quotes: ' around strings, \" around names.",
    "–—−‐‑‒": "Write - (and -- for a comment).",
    "，；（）＝": "Write the ASCII character that looks like it.",
    "$": "Write the value, or :name and sinkql exec -v name=value.",
    "\\": "Backslash commands only work in the shell: run sinkql shell, or use SHOW, as in SHOW SOURCES.",
}
_TYPESET = re.compile(f"[{keywords.ODD_CHARACTERS}]")

CONTINUED = re.compile(r"[ \t\f\v]*[\r\n][ \t\r\n\f\v]*'")
"""The text between a string and its continuation, up to the opening quote."""


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token; `kind` is WORD, QUOTED, STRING, HEX, NUMBER, PARAMETER, END, or the symbol itself."""

    kind: str
    text: str
    start: int
    end: int
    value: str = ""

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)

    @property
    def keyword(self) -> str:
        """Return a word in upper case, as keywords are spelled; empty for any other lexeme."""
        return self.text.upper() if self.kind == "WORD" and self.text.isascii() else ""


def check_characters(text: str) -> None:
    """Refuse NUL and lone surrogates, which no text may contain. Raises SQ1016."""
    found = _NOT_ALLOWED.search(text)
    if found:
        raise UnexpectedCharacterError(
            "SQ1016",
            f"invalid character U+{ord(found[0]):04X}",
            Span(*found.span()),
            hint="Remove the character, and save the file as UTF-8.",
        )


def scan(text: str, start: int = 0) -> Iterator[Lexeme]:
    """Yield the lexemes from `start`, with an END at last. Raises SQ1011 to SQ1019 for invalid text, SQ1029."""
    at, end, count = start, len(text), 0
    if at == 0 and text.startswith(_BYTE_ORDER_MARK):
        at = 1
    open_at: list[int] = []
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unexpected(text, at)
        group = found.lastgroup
        if group == "space" or group == "line_comment":
            at = found.end()
            continue
        if group == "comment":
            at = _comment_end(text, at)
            continue
        lexeme = _lexeme(text, found)
        _follow_depth(lexeme, open_at)
        count = 0 if lexeme.kind == ";" else count + 1
        if count > MAX_LEXEMES:
            raise too_long(lexeme.span, MAX_LEXEMES)
        yield lexeme
        at = lexeme.end
    yield Lexeme("END", "", len(text.rstrip()), len(text.rstrip()))


def comments(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of the comments between two lexemes."""
    while (found := _COMMENT_START.search(text, start, end)) is not None:
        start = _comment_end(text, found.start()) if found[0] == "/*" else found.end()
        yield Span(found.start(), start)


def too_long(span: Span, most: int) -> SinkqlError:
    """Return the error for a statement of more than `most` lexemes."""
    hint = "Split it into several statements."
    return SinkqlError("SQ1029", f"the statement has more than {most:,} words and signs", span, hint=hint)


def _follow_depth(lexeme: Lexeme, open_at: list[int]) -> None:
    """Count the open brackets, so that neither this parser nor the parser of queries runs out of stack."""
    match lexeme.kind:
        case "(" | "[" | "{":
            open_at.append(lexeme.start)
        case ")" | "]" | "}":
            if open_at:
                open_at.pop()
        case ";":
            open_at.clear()
    if len(open_at) > MAX_DEPTH:
        raise SinkqlError(
            "SQ1019",
            f"brackets are nested more than {MAX_DEPTH} levels deep",
            lexeme.span,
            hint="Split the query into views.",
        )


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        # finditer finds no overlapping marks, so the three characters of "/*/" are one mark
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise UnclosedError("SQ1012", "unterminated comment", Span(start, start + 2), mark="*", hint="Close it with */.")


def _lexeme(text: str, found: re.Match[str]) -> Lexeme:
    start, end = found.span()
    match found.lastgroup:
        case "word":
            _check_letters(found[0], start)
            return Lexeme("WORD", found[0], start, end, folded(found[0], Span(start, end)))
        case "symbol":
            return Lexeme(found[0], found[0], start, end)
        case "string":
            return _string(text, start, start + 1)
        case "escaped":
            return _string(text, start, start + 2, escaped=True)
        case "hex":
            end = _end(_PLAIN, text, start, start + 2)
            return Lexeme("HEX", text[start:end], start, end)
        case "quoted":
            return _quoted(text, start)
        case "dollar":
            return _dollar(text, start, found[0])
        case "number":
            return Lexeme("NUMBER", found[0], start, end, found[0].upper())
        case "parameter":
            return Lexeme("PARAMETER", found[0], start, end)
        case _:
            operator = _operator(found[0])
            return Lexeme(operator, operator, start, start + len(operator))


def _string(text: str, start: int, inside: int, *, escaped: bool = False) -> Lexeme:
    """Read a string and its continuations, which are separated by a line break and other whitespace only."""
    content = _ESCAPED if escaped else _PLAIN
    parts = []
    while True:
        end = _end(content, text, start, inside)
        body = text[inside : end - 1].replace("''", "'") if not escaped else unescaped(text, inside, end - 1)
        parts.append(body)
        more = CONTINUED.match(text, end)
        if more is None:
            return Lexeme("STRING", text[start:end], start, end, "".join(parts))
        inside = more.end()


def _end(content: RepeatedPattern[str], text: str, start: int, inside: int) -> int:
    end = content.end(text, inside)
    if not text.startswith("'", end):
        raise unclosed("'", Span(start, inside))
    return end + 1


def unclosed(quote: str, span: Span) -> UnclosedError:
    """Return the error for a string or a quoted name without its closing quote."""
    if quote == "'":
        return UnclosedError(
            "SQ1011", "unterminated string", span, mark="'", hint="Close it with '. Write a quote inside it as ''."
        )
    return UnclosedError(
        "SQ1013", "unterminated quoted name", span, mark='"', hint='Close it with ". Write a quote inside it as "".'
    )


def _quoted(text: str, start: int) -> Lexeme:
    end = _QUOTED.end(text, start + 1) + 1
    if not text.startswith('"', end - 1):
        raise unclosed('"', Span(start, start + 1))
    value = quoted(text[start + 1 : end - 1].replace('""', '"'), Span(start, end))
    return Lexeme("QUOTED", text[start:end], start, end, value)


def _dollar(text: str, start: int, tag: str) -> Lexeme:
    inside = start + len(tag)
    end = text.find(tag, inside)
    if end < 0:
        raise UnclosedError(
            "SQ1014", f"unterminated string {tag}", Span(start, inside), mark="$", hint=f"Close it with {tag}."
        )
    return Lexeme("STRING", text[start : end + len(tag)], start, end + len(tag), text[inside:end])


def _operator(run: str) -> str:
    """Return the operator at the start of a run of operator characters; a comment ends it."""
    for mark in ("--", "/*"):
        place = run.find(mark)
        if place > 0:
            run = run[:place]
    if not re.search(r"[~!@#%^&|`?]", run):
        while len(run) > 1 and run[-1] in "+-":
            run = run[:-1]
    return run


def _check_letters(word: str, start: int) -> None:
    """Refuse a word with a typographic quote, dash or space. Raises SQ1016."""
    if word.isascii():
        return
    found = _TYPESET.search(word)
    if found is not None:
        raise _unexpected(word, found.start(), shift=start)


def _unexpected(text: str, at: int, *, shift: int = 0) -> UnexpectedCharacterError:
    """Return the error for the character `text[at]`."""
    character, span = text[at], Span(shift + at, shift + at + 1)
    hint = next((hint for characters, hint in _CHARACTER_HINTS.items() if character in characters), None)
    if unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cf", "Cc"):
        name = unicodedata.name(character, "control character").lower()
        message = f"unexpected character U+{ord(character):04X} ({name})"
        return UnexpectedCharacterError("SQ1016", message, span, hint="Write an ordinary space.")
    return UnexpectedCharacterError("SQ1016", f'unexpected character "{character}"', span, hint=hint)


_MAX_BYTES = 255
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|''", re.DOTALL)
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def folded(text: str, span: Span) -> str:
    """Return an unquoted name's value. Raises SQ1017 for a name that is too long."""
    return _checked(text.lower(), span)


def quoted(value: str, span: Span) -> str:
    """Return a quoted name's value. Raises SQ1017 for a name that is too long, SQ1018 for a forbidden one."""
    if value in ("", ".", ".."):
        raise SinkqlError("SQ1018", f'"{value}" is not allowed as a name', span, hint="Choose another name.")
    return _checked(value, span)


def _checked(value: str, span: Span) -> str:
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > _MAX_BYTES:
        raise SinkqlError("SQ1017", f"name has {size} bytes, more than the {_MAX_BYTES} allowed", span)
    return value


def unescaped(text: str, start: int, end: int) -> str:
    """Return the value of an E'…' string's content, text[start:end]. Raises SQ1015 for an unknown escape."""
    pieces = []
    at = start
    for found in _ESCAPE.finditer(text, start, end):
        pieces += [text[at : found.start()], _replaced(found)]
        at = found.end()
    return "".join([*pieces, text[at:end]])


def _replaced(found: re.Match[str]) -> str:
    if found[0] == "''":
        return "'"
    escape, span = found[1], Span(*found.span())
    if len(escape) > 1:
        return _character(int(escape[1:], 16), span)
    if escape in "uUxX01234567":
        raise _bad(found[0], span)
    return _SIMPLE.get(escape, escape)


def _character(number: int, span: Span) -> str:
    if number == 0 or 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
        raise SinkqlError("SQ1015", f"invalid character U+{number:04X}", span)
    return chr(number)


def _bad(escape: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ1015",
        f"invalid escape sequence {escape}",
        span,
        hint=r"Write \uXXXX or \UXXXXXXXX with hexadecimal digits, or \\ for a backslash.",
    )
