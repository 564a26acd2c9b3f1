"""Parse a page into its parts: front matter, title, headings, blocks, links, paragraphs, cells.

Markdown is read line by line, in the subset that the pages use: ATX headings, fences with backticks, tables with pipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"( *)(`{3,})(\w*)")
_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_HEADING = re.compile(r"(#{1,6}) +(.+?) *#*")
_LINK = re.compile(r"(?<!\\)!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
_HTML_LINK = re.compile(r"(?:href|src|srcset)=\"([^\"]+)\"")
_REFERENCE = re.compile(r"^\[([^\]]+)\]: +(\S+)")
_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
_CODE = re.compile(r"(`+)(.+?)\1")
_ITEM = re.compile(r" *(?:[*+-]|\d+[.)]) +")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, the line of its first row, and the comments on the lines before it."""

    language: str
    text: str
    line: int
    marks: tuple[str, ...] = ()
    output: Block | None = None
    """The block that shows the output of this block."""

    def mark(self, name: str) -> str | None:
        """Return the value of a comment, as `SQ2342` for `<!-- error: SQ2342 -->`; empty without a value, else None."""
        for mark in self.marks:
            word, _, value = mark.partition(":")
            if word.strip() == name:
                return value.strip()
        return None


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of text, and the line on which it begins."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its level, its text and its line."""

    level: int
    text: str
    line: int

    @property
    def anchor(self) -> str:
        """Return the anchor that links to the heading use."""
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", self.text)
        return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a page. `path` is relative to the repository."""

    path: str
    text: str
    meta: dict[str, object] | None
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    paragraphs: tuple[Line, ...] = ()
    cells: tuple[Line, ...] = ()
    links: tuple[Line, ...] = ()
    setups: dict[str, str] = field(default_factory=dict)
    """The names of `<!-- setup: … -->`, each with the further lines of the comment."""
    anchors: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the path below docs without its suffix, which is the name of the page's tests."""
        return self.path.removeprefix("docs/").removesuffix(".md")

    @property
    def is_error(self) -> bool:
        """Return whether this is the page of one error code; a program generates these hundreds of pages."""
        return re.fullmatch(r"errors/SQ\d{4}", self.name) is not None

    def place(self, line: int) -> str:
        """Return a position in the form that editors open."""
        return f"{self.path}:{line}"


def pages() -> list[Page]:
    """Return all pages below docs."""
    return [read(path) for path in sorted(DOCS.rglob("*.md"))]


@cache
def read(path: Path) -> Page:
    """Read a page of the repository."""
    return parse(path.read_text("utf-8"), str(path.relative_to(ROOT)))


def parse(text: str, path: str = "docs/page.md") -> Page:
    """Parse the text of a page."""
    meta, first = _front_matter(text)
    lines = text.split("\n")
    blocks, rest = _blocks(lines, first)
    headings = tuple(
        Heading(len(match[1]), match[2], number)
        for number, line in enumerate(rest, 1)
        if (match := _HEADING.fullmatch(line))
    )
    clean = _without_comments(rest)
    return Page(
        path,
        text,
        meta,
        headings,
        tuple(blocks),
        tuple(_paragraphs(clean)),
        tuple(_cells(clean)),
        tuple(_links(clean)),
        _setups(rest),
        frozenset([each.anchor for each in headings] + _ANCHOR.findall("\n".join(clean))),
    )


def _front_matter(text: str) -> tuple[dict[str, object] | None, int]:
    """Return the front matter and its number of lines."""
    match = re.match(r"---\n(.*?\n)---\n", text, re.DOTALL)
    if match is None:
        return None, 0
    loaded = yaml.safe_load(match[1])
    return (loaded if isinstance(loaded, dict) else None), match[0].count("\n")


def _setups(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _COMMENT.finditer("\n".join(lines)):
        head, _, more = match[1].strip().partition("\n")
        word, colon, value = head.partition(":")
        if word.strip() == "setup" and colon:
            names = [each.strip() for each in value.split(",")]
            found |= dict.fromkeys(names, "") | ({names[0]: more} if more.strip() else {})
    return found


def _blocks(lines: list[str], first: int) -> tuple[list[Block], list[str]]:
    """Return the fenced blocks, and the lines with front matter and blocks emptied."""
    rest = ["" for _ in lines[:first]] + lines[first:]
    found: list[Block] = []
    number, last_closed = first, first - 1
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        indent, fence, language = opened.groups()
        inside_page = range(number + 1, len(lines))
        closed = next((place for place in inside_page if lines[place].strip() == fence), len(lines))
        text = "".join(f"{line.removeprefix(indent)}\n" for line in lines[number + 1 : closed])
        block = Block(language, text, number + 2, _marks(lines, number, last_closed))
        if "output" in block.marks and found and found[-1].output is None:
            found[-1] = replace(found[-1], output=block)
        else:
            found.append(block)
        for place in range(number, min(closed + 1, len(lines))):
            rest[place] = ""
        last_closed, number = closed, closed + 1
    return found, rest


def _marks(lines: list[str], fence: int, last_closed: int) -> tuple[str, ...]:
    """Return the comments on the lines before a fence."""
    marks: list[str] = []
    number = fence - 1
    while number > last_closed:
        line = lines[number].strip()
        match = _COMMENT.fullmatch(line)
        if match is not None:
            marks.insert(0, match[1].strip())
        elif line:
            break
        number -= 1
    return tuple(marks)


def _without_comments(lines: list[str]) -> list[str]:
    """Empty the comments without moving any line."""
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), "\n".join(lines))
    return text.split("\n")


def _paragraphs(lines: list[str]) -> Iterator[Line]:
    """Yield paragraphs and list items."""
    words: list[str] = []
    began, listed = 0, False
    for number, line in enumerate([*lines, ""], 1):
        listed = _ITEM.match(line) is not None or (listed and (not line or line.startswith(" ")))
        if line.startswith("    ") and not words and not listed:
            continue  # indented code
        text = re.sub(r"^(?: *>)+ ?", "", line)
        ends = not text.strip() or _HEADING.fullmatch(text) or text.lstrip().startswith("|") or _REFERENCE.match(text)
        item = _ITEM.match(text)
        if (ends or item) and words:
            yield Line(" ".join(words), began)
            words = []
        if ends or re.fullmatch(r" *(?:-{3,}|\[!\w+\]|</?\w+[^>]*>) *", text):
            continue
        if not words:
            began = number
        words.append((text[item.end() :] if item else text).strip())


def _cells(lines: list[str]) -> Iterator[Line]:
    """Yield the cells of tables."""
    for number, line in enumerate(lines, 1):
        if line.startswith("|") and not re.fullmatch(r"[|: -]+", line):
            parts = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from (Line(part.strip(), number) for part in parts if part.strip())


def _links(lines: list[str]) -> Iterator[Line]:
    """Yield the targets of links and pictures."""
    text = "\n".join(lines)
    plain = _CODE.sub(lambda match: "x" * len(match[0]) if "](" in match[0] else match[0], text)
    places = [(match.start(), match[2]) for match in _LINK.finditer(plain)]
    places += [(match.start(), match[1]) for match in _HTML_LINK.finditer(plain)]
    for number, line in enumerate(lines, 1):
        match = _REFERENCE.match(line)
        if match is not None:
            yield Line(match[2], number)
    for start, target in sorted(places):
        yield Line(target, text.count("\n", 0, start) + 1)
