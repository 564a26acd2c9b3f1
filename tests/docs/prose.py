"""Find what makes a page hard to read: long paragraphs and sentences, wide cells, phrases to avoid."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docs.page_text import Line, Page

PARAGRAPH_WORDS = 80
SENTENCE_WORDS = 30
CELL_WORDS = 25
PAGE_LINES = 150
LONG_PAGES = (
    "errors/", "functions/", "reference/", "connectors/", "sql/", "releases/",
    "faq", "glossary", "index", "comparison", "ARCHITECTURE",
)  # fmt: skip
"""Pages that may have more lines, since readers look things up in them."""
_PHRASES = Path(__file__).with_name("phrases.toml")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|no)\.", re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])[\"')\]*_]* +(?=[A-Z`\"'(\[*_0-9])")


@dataclass(frozen=True, slots=True)
class Finding:
    """A place that is hard to read: its kind, its line, and a message."""

    kind: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase to avoid, and its replacement; some phrases are allowed in headings."""

    pattern: re.Pattern[str]
    instead: str
    headings: bool = True


@cache
def phrases() -> tuple[Phrase, ...]:
    """Return the phrases in phrases.toml."""
    listed = tomllib.loads(_PHRASES.read_text("utf-8"))["phrase"]
    return tuple(
        Phrase(re.compile(each["pattern"], re.IGNORECASE), each["instead"], each.get("headings", True))
        for each in listed
    )


def plain(text: str) -> str:
    """Return Markdown as readers see it: links are their texts, code is one word, markup is removed."""
    text = re.sub(r"(`+)(.+?)\1", lambda match: "␟".join(match[2].split()) or "code", text)
    text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>]+>", "", text)
    return re.sub(r"\*\*|__|(?<!\w)[*_]|[*_](?!\w)", "", text)


def words(text: str) -> int:
    """Return how many words a text has; code in backticks is one."""
    return sum(1 for word in plain(text).split() if re.search(r"\w", word))


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph."""
    shown = _ABBREVIATION.sub(r"\1", plain(text))
    return [part for part in _END.split(shown) if part.strip()]


def findings(page: Page) -> Iterator[Finding]:
    """Yield the places of a page that break the rules."""
    for paragraph in page.paragraphs:
        count = words(paragraph.text)
        if count > PARAGRAPH_WORDS:
            told = f"a paragraph of {count} words (at most {PARAGRAPH_WORDS}): {_begin(paragraph.text)}"
            yield Finding("paragraphs", paragraph.line, told)
        for sentence in sentences(paragraph.text):
            count = words(sentence)
            if count > SENTENCE_WORDS:
                told = f"a sentence of {count} words (at most {SENTENCE_WORDS}): {_begin(sentence)}"
                yield Finding("sentences", paragraph.line, told)
    for cell in page.cells:
        if (count := words(cell.text)) > CELL_WORDS:
            yield Finding("cells", cell.line, f"a cell of {count} words (at most {CELL_WORDS}): {_begin(cell.text)}")
    yield from _phrases(page)
    seen = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->\n?", "", page.text, flags=re.DOTALL)
    lines = seen.count("\n")
    if lines > PAGE_LINES and not page.name.startswith(LONG_PAGES):
        yield Finding("lines", 1, f"a page of {lines} lines (at most {PAGE_LINES}): make two of it")


def _phrases(page: Page) -> Iterator[Finding]:
    headings = [Line(each.text, each.line) for each in page.headings]
    for piece in (*page.paragraphs, *page.cells, *headings):
        text = plain(re.sub(r"(`+)(.+?)\1", "␟", piece.text))  # code is exempt
        for phrase in phrases():
            if piece in headings and not phrase.headings:
                continue
            for match in phrase.pattern.finditer(text):
                around = text[max(0, match.start() - 30) : match.end() + 30].strip()
                yield Finding("phrases", piece.line, f'"{match[0]}" in "…{around}…": {phrase.instead}')


def _begin(text: str) -> str:
    shown = plain(text).replace("␟", " ")
    return shown if len(shown) <= 70 else f"{shown[:70]}…"
