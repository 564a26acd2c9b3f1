"""What was typed or read → statements and backslash commands, in order, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sinkql.errors import SinkqlError, Span, UnclosedError, UnexpectedCharacterError
from sinkql.parser.read import lexer

_WORDS = re.compile(r"(?P<word>help|quit|exit)(?P<rest>(?: +\w+)*) *;?", re.IGNORECASE)
_ARGUMENT = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(\S+)""")


@dataclass(frozen=True, slots=True)
class StatementText:
    """Where a statement stands; `ended` is false for one whose semicolon has not come."""

    span: Span
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Command:
    """A backslash command as typed: its name without the backslash, and the rest of its line."""

    name: str
    rest: str
    span: Span

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the words of the rest; one in quotes may hold blanks."""
        found = _ARGUMENT.finditer(self.rest)
        return tuple(
            each[3] or (each[1].replace("''", "'") if each[1] is not None else each[2].replace('""', '"'))
            for each in found
        )


def split(text: str) -> Iterator[StatementText | Command]:
    """Yield statements and commands; a backslash outside of strings and comments begins a command."""
    at, begin = 0, None
    while True:
        try:
            for lexeme in lexer.scan(text, at):
                if lexeme.kind in (";", "END"):
                    if begin is not None:
                        yield StatementText(Span(begin, lexeme.end), ended=lexeme.kind == ";")
                    begin = None
                elif begin is None:
                    begin = lexeme.start
            return
        except SinkqlError as error:
            place = _start(error)
            begin = place if begin is None and text[place] != "\\" else begin
            if not isinstance(error, UnexpectedCharacterError):
                yield StatementText(Span(begin if begin is not None else place, len(text.rstrip())), ended=False)
                return
        if text[place] != "\\":
            at = place + 1
            continue
        if begin is not None:
            yield StatementText(Span(begin, place), ended=False)
            begin = None
        command = _command(text, place)
        yield command
        at = command.span.end


def _start(error: SinkqlError) -> int:
    return error.span.start if error.span is not None else 0


def _command(text: str, place: int) -> Command:
    end = text.find("\n", place)
    end = len(text) if end < 0 else end
    found = re.match(r"\\(\?|!|[A-Za-z]\w*\+?|)", text[place:end])
    assert found is not None
    return Command(found[1], text[place + found.end() : end].strip(), Span(place, end))


def spoken_command(text: str) -> str | None:
    """Return the backslash command that a person means by `help`, `quit` or `exit` alone, or by `help create sink`."""
    found = _WORDS.fullmatch(text.strip())
    if found is None:
        return None
    if found["word"].lower() == "help":
        return f"\\h{found['rest']}" if found["rest"] else "\\?"
    return None if found["rest"] else "\\q"


def finished(text: str) -> bool:
    """Say whether Enter hands the text in: nothing, a command, or statements of which the last one has its end."""
    if spoken_command(text) is not None:
        return True
    try:
        kinds = [lexeme.kind for lexeme in lexer.scan(text)]
    except SinkqlError as error:
        if isinstance(error, UnclosedError):
            return False
        if text[_start(error)] == "\\":
            return True
        return text.rstrip().endswith(";")
    return len(kinds) == 1 or kinds[-2] == ";"


def still_open(text: str) -> str:
    """Return what waits for its end: `'`, `"`, `$`, `*` (a comment), `(`, or `-` for a statement that goes on."""
    brackets = []
    try:
        for lexeme in lexer.scan(text):
            if lexeme.kind in ("(", "["):
                brackets.append(lexeme.kind)
            elif lexeme.kind in (")", "]") and brackets:
                brackets.pop()
    except SinkqlError as error:
        return error.mark if isinstance(error, UnclosedError) else "-"
    return brackets[-1] if brackets else "-"
