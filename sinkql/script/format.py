"""Format a script: each statement in its canonical form, every comment at its place.

A statement written on one line stays on one line if it is short enough. The text of queries is unchanged. Comments
are whitespace to the parser, so they change no statement: each goes to the place of its neighbours in the canonical
text. Variables stay as they are written.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise, takewhile

from sinkql import ast, parser
from sinkql.errors import SinkqlError, Span
from sinkql.keywords import Keywords
from sinkql.parser.read import lexer
from sinkql.parser.read.lexer import Lexeme
from sinkql.printer import to_sql
from sinkql.script.variable import stand_ins

_LINE = re.compile(r"\r\n|\r|\n")
_BLANK = re.compile(r"(?:\r\n|\r|\n)[ \t\f\v;]*(?:\r\n|\r|\n)")
_WIDTH = 120
"""The maximum length of a line for a statement that was written on one line."""
_CLOSE = 2_000
"""The maximum number of lexemes for which a statement's two forms are compared thoroughly."""


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment's text, and whether it was alone on its line."""

    text: str
    alone: bool

    @property
    def ends_line(self) -> bool:
        return self.text.startswith("--")


def format_script(text: str, words: Keywords) -> str:
    """Return the script's canonical form: it parses to equal statements, and is its own canonical form.

    A variable is kept if a name or a string may stand in its place. Raises SinkqlError if the text does not parse.
    """
    try:
        return _format(text, words)
    except SinkqlError:
        script = stand_ins(text)
        if script.text == text:
            raise
    try:
        return script.restore(_format(script.text, words))
    except SinkqlError as error:
        error.message = script.restore(error.message)
        error.hint = script.restore(error.hint) if error.hint else error.hint
        raise


def _format(text: str, words: Keywords) -> str:
    statements = iter(parser.parse(text, words))
    pieces = _Pieces(text)
    lexemes: list[Lexeme] = []
    for lexeme in lexer.scan(text):
        last = lexeme.kind in (";", "END")
        if not lexemes:
            pieces.comments(lexeme.start)
        if not last or lexemes:
            lexemes.append(lexeme)
        if last and lexemes:
            written = next(statements)
            laid_out = _statement(written, lexemes, text, words)
            pieces.statement(_in_one_line(laid_out) if _one_line(lexemes, text) else laid_out, lexemes)
            lexemes = []
    pieces.comments(len(text))
    return pieces.script()


class _Pieces:
    """Write statements and their comments below each other, with at most one empty line between two."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0  # end of the last piece written, in the original text
        self.parts: list[str] = []

    def comments(self, until: int) -> None:
        """Write the comments between the last piece and `until`."""
        for comment in lexer.comments(self.text, self.end, until):
            written = self.text[comment.start : comment.end].rstrip()
            same_line = bool(self.parts) and _LINE.search(self.text, self.end, comment.start) is None
            self._add(f" {written}" if same_line else written, comment.start, comment.end, same_line=same_line)

    def statement(self, written: str, lexemes: Sequence[Lexeme]) -> None:
        """Write a statement's canonical text; the last of its lexemes is its semicolon or the text's end."""
        last = lexemes[-1] if lexemes[-1].kind == ";" else lexemes[-2]
        self._add(written, lexemes[0].start, last.end, same_line=False)

    def _add(self, written: str, start: int, end: int, *, same_line: bool) -> None:
        if self.parts and not same_line:
            self.parts.append("\n\n" if _BLANK.search(self.text, self.end, start) else "\n")
        self.parts.append(written)
        self.end = end

    def script(self) -> str:
        return "".join(self.parts) + "\n" if self.parts else ""


def _one_line(lexemes: Sequence[Lexeme], text: str) -> bool:
    last = lexemes[-1] if lexemes[-1].kind == ";" else lexemes[-2]
    return _LINE.search(text, lexemes[0].start, last.end) is None


def _in_one_line(laid_out: str) -> str:
    """Return a statement's text without the line breaks between its lexemes, if that is not too long."""
    lexemes = list(lexer.scan(laid_out))
    parts, at = [], 0
    for before, after in pairwise(lexemes):
        parts += [laid_out[at : before.end], re.sub(r"\s*\n\s*", " ", laid_out[before.end : after.start])]
        at = after.start
    joined = "".join([*parts, laid_out[at:]])
    return joined if len(joined) <= _WIDTH and "\n" not in joined else laid_out


def _spelled(canonical: str, words: Keywords) -> str:
    """Return a canonical text whose option words are spelled as the connectors spell them."""
    choices = {(label, choice.upper()): choice for label, choice in words.choices}
    longest = max((label.count(" ") for label, _ in choices), default=0) + 1
    lexemes = list(lexer.scan(canonical))
    parts, at = [], 0
    for place, lexeme in enumerate(lexemes):
        if lexeme.kind != "WORD" or place < 2 or lexemes[place - 1].kind != "=":
            continue
        label = [preceding.keyword for preceding in lexemes[max(0, place - 1 - longest) : place - 1]]
        names = (" ".join(label[start:]) for start in range(len(label)))
        choice = next((choices[name, lexeme.keyword] for name in names if (name, lexeme.keyword) in choices), None)
        if choice is not None:
            parts += [canonical[at : lexeme.start], choice]
            at = lexeme.end
    return "".join([*parts, canonical[at:]])


def _statement(statement: ast.Statement, lexemes: Sequence[Lexeme], text: str, words: Keywords) -> str:
    """Return a statement's canonical text with the comments between its lexemes."""
    canonical = to_sql(statement)
    if isinstance(statement, ast.CreateConnection | ast.CreateSource | ast.CreateSink | ast.CreateSinks | ast.Alter):
        canonical = _spelled(canonical, words)
    if lexemes[-1].kind == "END":
        lexemes = lexemes[:-1]
    verbatim = tuple(_verbatim(statement, text))
    gaps = [tuple(_comments(before, after, text, verbatim)) for before, after in pairwise(lexemes)]
    if not any(gaps):
        return canonical
    targets = [target for target in lexer.scan(canonical) if target.kind != "END"]
    placed: dict[int, list[_Comment]] = {}
    matched = _matched(lexemes, targets)
    fixed = tuple(_verbatim(parser.parse(canonical, words), canonical))
    for place, comments in enumerate(gaps):
        for comment in comments:
            gap = _gap(comment, place, matched, len(targets))
            while any(span.start < targets[gap].start < span.end for span in fixed):
                gap += 1  # inside unchanged text
            placed.setdefault(gap, []).append(comment)
    return _with_comments(canonical, targets, placed)


def _comments(before: Lexeme, after: Lexeme, text: str, verbatim: Sequence[Span]) -> Iterator[_Comment]:
    """Yield the comments between two lexemes, except those inside unchanged text."""
    at = before.end
    for comment in lexer.comments(text, before.end, after.start):
        if not any(span.start <= comment.start and comment.end <= span.end for span in verbatim):
            alone = _LINE.search(text, at, comment.start) is not None
            yield _Comment(text[comment.start : comment.end].rstrip(), alone)
        at = comment.end


def _verbatim(node: object, text: str) -> Iterator[Span]:
    """Yield the spans of the statement's text that stays unchanged, comments included."""
    if isinstance(node, tuple):
        for child in node:
            yield from _verbatim(child, text)
    elif isinstance(node, ast.Query | ast.Expression):
        written = text[node.span.start : node.span.end]
        # only the end of a combined text is certainly as written
        pairs = zip(reversed(written), reversed(node.text), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        yield Span(node.span.end - same, node.span.end)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Span):
        for field in dataclasses.fields(node):
            yield from _verbatim(getattr(node, field.name), text)


def _matched(lexemes: Sequence[Lexeme], targets: Sequence[Lexeme]) -> dict[int, int]:
    """Return, for each lexeme that is left in the canonical text, its index there."""
    thorough = max(len(lexemes), len(targets)) <= _CLOSE
    matcher = SequenceMatcher(
        None, [_key(lexeme) for lexeme in lexemes], [_key(target) for target in targets], not thorough
    )
    return {
        block.a + offset: block.b + offset for block in matcher.get_matching_blocks() for offset in range(block.size)
    }


def _key(lexeme: Lexeme) -> tuple[str, str]:
    if lexeme.kind in ("WORD", "QUOTED"):
        return ("", lexeme.value.lower())
    return (lexeme.kind, lexeme.value or lexeme.text)


def _gap(comment: _Comment, place: int, matched: dict[int, int], count: int) -> int:
    """Return the lexeme of the canonical text before which to insert a comment that follows the lexeme `place`.

    A comment alone on its line belongs to the next lexeme, any other comment to the lexeme before it. The first lexeme
    stays first.
    """
    if comment.alone:
        following = (matched[number] for number in range(place + 1, max(matched, default=0) + 1) if number in matched)
        return max(1, next(following, count - 1))
    return max(1, next((matched[number] + 1 for number in range(place, -1, -1) if number in matched), 1))


def _with_comments(canonical: str, targets: Sequence[Lexeme], placed: dict[int, list[_Comment]]) -> str:
    parts, at = [], 0
    for place, target in enumerate(targets):
        comments = placed.get(place, [])
        end = targets[place - 1].end if place else 0
        if comments:
            parts.append(canonical[at:end])
            parts.extend(_gap_text(canonical[end : target.start], comments, _indent(canonical, target)))
            at = target.start
    return "".join([*parts, canonical[at:]])


def _gap_text(gap: str, comments: Sequence[_Comment], indent: str) -> Iterator[str]:
    """Yield the text between two lexemes: `gap`, with comments before it."""
    alone = line_ended = False
    for comment in comments:
        alone = comment.alone or line_ended
        yield f"\n{indent}{comment.text}" if alone else f" {comment.text}"
        line_ended = comment.ends_line
    if alone or line_ended:
        yield f"\n{indent}"
    else:
        yield gap


def _indent(canonical: str, target: Lexeme) -> str:
    """Return the indent of a lexeme that begins a line: its line's indent, plus two steps if it was inside the line."""
    if target.kind == ";":
        return ""
    line = canonical.rfind("\n", 0, target.start) + 1
    before = canonical[line : target.start]
    indent = before[: len(before) - len(before.lstrip())]
    return indent if before == indent else indent + "    "
