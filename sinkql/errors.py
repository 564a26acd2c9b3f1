"""Codes, spans and messages: what a user sees when something is wrong, as text with a caret or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

_EXIT_CODES = {"1": 1, "2": 1, "3": 3, "4": 4, "5": 5}


@dataclass(frozen=True, slots=True)
class Span:
    """Hold a half-open range of characters, `start` to `end`, in a script's text."""

    start: int
    end: int

    def shifted(self, offset: int) -> Span:
        """Return the span `offset` characters further on."""
        return Span(self.start + offset, self.end + offset)


class SinkqlError(Exception):
    """Say what is wrong, where, and how to mend it.

    The first digit of the code's number decides the exit code: SQ1 syntax and SQ2 meaning (1), SQ3 a job failed
    while running (3), SQ4 environment or remote service (4), SQ5 conflict (5).
    """

    def __init__(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
        path: str | None = None,
        text: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.span = span
        self.detail = detail
        self.hint = hint
        self.path = path
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (
            self.code,
            self.message,
            self.span,
            self.detail,
            self.hint,
            self.path,
            self.text,
        )

    def within(self, *, path: str | None, text: str) -> SinkqlError:
        """Attach the script that the span points into, unless the error already names one."""
        if self.text is None:
            self.path, self.text = path, text
        return self

    @property
    def exit_code(self) -> int:
        """Return the process exit code of this error's family."""
        return _EXIT_CODES[self.code[2]]


def _restore(
    code: str,
    message: str,
    span: Span | None,
    detail: str | None,
    hint: str | None,
    path: str | None,
    text: str | None,
) -> SinkqlError:
    return SinkqlError(code, message, span, detail=detail, hint=hint, path=path, text=text)


@dataclass(frozen=True, slots=True)
class Notice:
    """Hold something a user should know about a statement that succeeded."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the 1-based line and column of a character offset."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1


def render(error: SinkqlError, *, level: str = "error", width: int = 160) -> str:
    """Return `path:line:col: error[SQ1203]: message`, the source line, a caret, detail and hint.

    Of a longer source line, `width` characters around the caret are shown.
    """
    lines = []
    head = f"{level}[{error.code}]: {error.message}"
    if error.span is not None and error.text is not None:
        line, column = line_and_column(error.text, error.span.start)
        prefix = f"{error.path}:{line}:{column}: " if error.path else ""
        lines.append(prefix + head)
        lines.extend(_excerpt(error.text, error.span, line, column, width))
    else:
        lines.append(f"{error.path}: {head}" if error.path else head)
    if error.detail:
        lines.append(f"detail: {error.detail}")
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines)


def _excerpt(text: str, span: Span, line: int, column: int, limit: int) -> list[str]:
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    source = text[start : end if end >= 0 else len(text)].expandtabs(1)
    width = max(1, min(span.end, start + len(source)) - span.start)
    label = str(line)
    window, shift = _window(source, column - 1, limit)
    return [
        f"{label} | {window}",
        " " * (len(label) + 3 + column - 1 - shift) + "^" * min(width, max(1, len(window) - (column - 1 - shift))),
    ]


def _window(source: str, column: int, limit: int) -> tuple[str, int]:
    """Cut a very long line down to what stands around the caret; return it and how much was cut on its left."""
    if len(source) <= limit:
        return source, 0
    left = max(0, min(column - limit // 2, len(source) - limit))
    cut = source[left : left + limit]
    if left:
        cut = "…" + cut[1:]
    if left + limit < len(source):
        cut = cut[:-1] + "…"
    return cut, left


def as_data(error: SinkqlError) -> dict[str, Any]:
    """Return the error as JSON-able data with the same content as `render`."""
    data: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.path:
        data["path"] = error.path
    if error.span is not None and error.text is not None:
        line, column = line_and_column(error.text, error.span.start)
        data |= {"line": line, "column": column, "start": error.span.start, "end": error.span.end}
    if error.detail:
        data["detail"] = error.detail
    if error.hint:
        data["hint"] = error.hint
    return data


def too_deep(span: Span | None) -> SinkqlError:
    """Return the error for a statement that runs out of stack."""
    return SinkqlError("SQ2209", "the query is nested too deeply", span, hint="Split it into views.")


def nearest(word: str, choices: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the choice that `word` most likely misspells, if any is near: `cutoff` of its letters at least."""
    folded = {choice.casefold(): choice for choice in choices}
    found = get_close_matches(word.casefold(), list(folded), n=1, cutoff=cutoff)
    return folded[found[0]] if found else None
