"""Parts of Markdown pages."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable


def front_matter(*keywords: str) -> str:
    """Return the front matter of a page: the words that users may search for."""
    return f"---\nkeywords: [{', '.join(keywords)}]\n---\n"


def escaped(text: str) -> str:
    """Return a sentence as Markdown that shows it unchanged. Code in backticks is left alone."""
    parts = re.split(r"(`[^`]*`)", text)
    sign = re.compile(r"[\\*<\[\]]|(?<!\w)_|_(?!\w)")
    return "".join(part if part.startswith("`") else sign.sub(r"\\\g<0>", part) for part in parts)


def cell(text: str) -> str:
    """Return a sentence for a cell of a table."""
    return escaped(" ".join(text.split())).replace("|", "\\|")


def code(text: str) -> str:
    """Return code for a cell of a table."""
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def paragraph(text: str) -> str:
    """Return Markdown text as lines of at most 120 characters."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def text_block(text: str) -> str:
    """Return a block of output."""
    return f"```text\n{text}\n```\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; its cells are Markdown."""
    head = tuple(head)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def bullets(items: Iterable[str]) -> str:
    """Return a list; its items are Markdown."""
    return "".join(
        textwrap.fill(f"* {each}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"
        for each in items
    )
