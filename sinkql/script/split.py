"""Split typed text into statements and backslash commands, and find and read the scripts that paths name."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sinkql.errors import SinkqlError, Span, UnclosedError, UnexpectedCharacterError
from sinkql.parser.read import lexer

_WORDS = re.compile(r"(?P<word>help|quit|exit)(?P<rest>(?: +\w+)*) *;?", re.IGNORECASE)
_ARGUMENT = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(\S+)""")


@dataclass(frozen=True, slots=True)
class StatementText:
    """The span of a statement; `ended` is false if its semicolon is missing."""

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
        """Return the words after the name; a word in quotes may contain blanks."""
        matches = _ARGUMENT.finditer(self.rest)
        return tuple(
            match[3] or (match[1].replace("''", "'") if match[1] is not None else match[2].replace('""', '"'))
            for match in matches
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
    match = re.match(r"\\(\?|!|[A-Za-z]\w*\+?|)", text[place:end])
    assert match is not None
    return Command(match[1], text[place + match.end() : end].strip(), Span(place, end))


def spoken_command(text: str) -> str | None:
    """Return the backslash command for `help`, `quit` or `exit` alone, or for `help create sink`."""
    match = _WORDS.fullmatch(text.strip())
    if match is None:
        return None
    if match["word"].lower() == "help":
        return f"\\h{match['rest']}" if match["rest"] else "\\?"
    return None if match["rest"] else "\\q"


def finished(text: str) -> bool:
    """Return whether Enter submits the text: it is empty, a command, or ends with a finished statement."""
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
    """Return the construct that is not closed: `'`, `"`, `$`, `*` (a comment), `(`, `-` (a statement)."""
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


def read_script(path: Path) -> str:
    """Return the text of a script; `-` is the standard input.

    Raises SQ4010 if it cannot be read, SQ1010 if it is not UTF-8.
    """
    standard_input = str(path) == "-"
    try:
        return (sys.stdin.buffer.read() if standard_input else path.read_bytes()).decode()
    except OSError as error:
        raise SinkqlError(
            "SQ4010", f'cannot read "{path}": {error.strerror}', hint="Name a file of SQL, or - for standard input."
        ) from error
    except UnicodeDecodeError as error:
        raise SinkqlError(
            "SQ1010",
            f"invalid UTF-8 at byte {error.start}",
            path=None if standard_input else str(path),
            hint="Encode the input as UTF-8." if standard_input else "Save the file as UTF-8.",
        ) from error


def script_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that paths name; for a folder all .sql files in it and below it, sorted by name.

    Raises SQ4017 for a folder without .sql files.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*.sql"))
            if not inside:
                raise SinkqlError(
                    "SQ4017", f'folder "{path}" has no .sql files', hint="Name a folder of SQL, or files."
                )
            files.extend(inside)
        else:
            files.append(path)
    return files
