"""A span of a script: its line and column, and the source line with a caret."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters in a script; `end` is exclusive."""

    start: int
    end: int

    def shifted(self, offset: int) -> Span:
        """Return the span moved by `offset` characters."""
        return Span(self.start + offset, self.end + offset)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the 1-based line and column of a character offset."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1


def excerpt(text: str, span: Span, limit: int) -> list[str]:
    """Return the source line of a span and a line with carets; a long line is cut to `limit` characters."""
    line, column = line_and_column(text, span.start)
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
    """Cut a long line around the caret; return it and the number of characters cut on the left."""
    if len(source) <= limit:
        return source, 0
    left = max(0, min(column - limit // 2, len(source) - limit))
    cut = source[left : left + limit]
    if left:
        cut = "…" + cut[1:]
    if left + limit < len(source):
        cut = cut[:-1] + "…"
    return cut, left
