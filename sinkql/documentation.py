"""Find the pages, sections and table rows of the documentation that explain words.

The documentation is a folder of Markdown inside the wheel. Each search reads all pages, since loading an index would
take longer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

_LISTED = 8
_ALSO = 5
"""The number of further pages that are listed below an answer."""
_SHOWN = 3
"""The number of sections and rows that are shown in full; more of them become a list."""
_TITLE, _KEYWORD, _PATH, _HEADING, _ENTRY = 20, 16, 10, 6, 5
"""The rank that a word adds to a page by its place; each use in the text adds 1, up to 5."""
_WHOLE = 30
"""The rank that a page adds if all words are together in its title or keywords."""
_LISTS = 0.4
"""The factor for errors and lists: a guide answers a question better, unless the words are an error's symptom."""
_SUMMARIES = ("reference/options", "functions/index", "sql/index")
"""Pages that list the contents of other pages."""
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")


@dataclass(frozen=True)
class Page:
    """A page: its path in the folder without the ending, and its Markdown."""

    path: str
    text: str

    @property
    def is_error(self) -> bool:
        """Return whether it is the page of one error code."""
        return self.path.startswith("errors/SQ")

    @property
    def is_list(self) -> bool:
        """Return whether it is an error or a list, where few things matter for a question."""
        return self.path.startswith("errors/") or self.path in _SUMMARIES

    @cached_property
    def folded(self) -> str:
        """Return the page's path and text in lower case, for the search."""
        return f"{self.path}\n{self.text}".lower()

    @cached_property
    def title(self) -> str:
        """Return the first heading as plain text; the path if the page has none."""
        _, heading, after = f"\n{self.text}".partition("\n# ")
        return plain(after.partition("\n")[0]) if heading else self.path

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """Return the words of the front matter, which users type although the page does not contain them."""
        match = _FRONT_MATTER.match(self.text)
        listed = re.search(r"^keywords: *\[(.*)\]", match[1], re.MULTILINE) if match is not None else None
        return tuple(keyword.strip(" \"'").lower() for keyword in listed[1].split(",")) if listed is not None else ()

    @cached_property
    def body(self) -> str:
        """Return the Markdown without front matter and comments, as a reader sees it."""
        return _COMMENT.sub("", _FRONT_MATTER.sub("", self.text)).strip() + "\n"

    @cached_property
    def headings(self) -> tuple[str, ...]:
        """Return its headings as plain text, including lines inside code that look like a heading."""
        return tuple(plain(line.lstrip("#")) for line in self.text.splitlines() if line.startswith("#"))

    @cached_property
    def lead(self) -> str:
        """Return the first sentence below the title, as plain text."""
        below = re.split(r"^# .*$", self.body, maxsplit=1, flags=re.MULTILINE)[-1].strip()
        paragraph = " ".join(below.split("\n\n")[0].split())
        return plain(re.split(r"(?<=[.!?]) (?=[A-Z])", paragraph)[0])

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of the page: its path, the end of it, its title, and the statements that it explains."""
        parts = [part.replace("-", " ") for part in self.path.split("/")]
        statements = set(self.keywords) - {"statement", "syntax"} if parts[0] == "sql" else set()
        names = {self.path.lower(), " ".join(parts), self.title.lower()}
        names |= {
            statement.strip().lower() for statement in self.title.split(",") if self.title == self.title.upper()
        } | statements
        if parts[-1] == "index":
            return frozenset(names | {parts[0]} if len(parts) > 1 else names)
        if len(parts) > 2:  # alert lag
            return frozenset(names | {f"{parts[-2]} {parts[-1]}", f"{parts[-2].removesuffix('s')} {parts[-1]}"})
        return frozenset(names | {parts[-1]})

    @property
    def command(self) -> str:
        """Return the words after `sinkql help` that show the page."""
        *folders, name = self.path.split("/")
        if name == "index":
            return folders[-1] if folders else "index"
        return f"{folders[-1].removesuffix('s')} {name}" if len(folders) > 1 else name


@dataclass(frozen=True)
class Entry:
    """A section of a page, or rows of a table: its name, its Markdown, and a summary of a few words."""

    page: Page
    name: str
    title: str
    """The titles of the page and of the section."""
    text: str
    summary: str = ""

    @property
    def is_function(self) -> bool:
        """Return whether it explains a function, which is then the best entry of its name."""
        return self.page.path.startswith("functions/")


@dataclass(frozen=True)
class Found:
    """The answer to a question: the page or the entries to show, further pages, or else similar names."""

    page: Page | None = None
    entries: tuple[Entry, ...] = ()
    listed: tuple[Page | Entry, ...] = ()
    near: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return self.page is not None or bool(self.entries or self.listed)


class Documentation:
    """The pages of a folder; by default, of the package or of the checkout that it is in."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else _folder()

    @cached_property
    def pages(self) -> tuple[Page, ...]:
        """Return all pages, pages of errors last."""
        pages = (Page(path, _text(file)) for path, file in _files(self.folder))
        return tuple(sorted(pages, key=lambda page: (page.is_error, page.path)))

    def has_error(self, code: str) -> bool:
        """Return whether the error of a code has a page."""
        return (self.folder / "errors" / f"{code}.md").is_file()

    def page(self, path: str) -> Page | None:
        """Return the page at a path."""
        return next((page for page in self.pages if page.path == path), None)

    def find(self, words: str) -> Found:
        """Return the answer for an error code, or the name of a page, statement, function, option or relation."""
        query = " ".join(words.lower().split()).strip("`\"'?;()")
        command, query = query.startswith("sinkql "), query.removeprefix("sinkql ")
        code = re.fullmatch(r"(?:error ?)?\[?(?:sq)?(\d{4})\]?", query)
        if code is not None and self.has_error(f"SQ{code[1]}"):  # no other page is read
            path = f"errors/SQ{code[1]}"
            return Found(Page(path, _text(self.folder / f"{path}.md")))
        if not query:
            return Found()
        entries = _entries_named(query, self.pages)
        exact = self._named(query)
        if command and entries:  # sinkql explain is not a statement
            exact = []
        ranked = self._ranked(query)
        if exact:
            others = [page for page in [*exact[1:], *ranked] if page is not exact[0]]
            return Found(exact[0], listed=(*entries[:_LISTED], *_different(others)[:_ALSO]))
        if entries:
            shown = entries if len(entries) <= _SHOWN else [entry for entry in entries if entry.is_function][:_SHOWN]
            listed = [entry for entry in entries if entry not in shown]
            alert = self.page(f"how-to/alerts/{query}")  # lag: also a function
            pages = [page for page in ranked if page is not alert and all(page is not entry.page for entry in entries)]
            return Found(alert, tuple(shown), (*listed[: 2 * _LISTED], *pages[: _ALSO if shown else _LISTED]))
        if len(ranked) == 1:
            return Found(ranked[0])
        near = () if ranked else tuple(self._near(query))
        return Found(listed=tuple(ranked[:_LISTED]), near=near)

    def _named(self, query: str) -> list[Page]:
        """Return the pages of this name, or of the statement at the start of the words: DROP for `drop sink`."""
        spellings = {query, query.replace("-", " ")}
        pages = [page for page in self.pages if not page.is_error]
        matches = [page for page in pages if not page.names.isdisjoint(spellings)]
        words = query.split()
        if any(query in page.keywords for page in pages):  # drop sink same table: a guide answers it
            return matches
        for count in range(len(words) - 1, 0, -1):
            if matches or (count == 1 and _stem(words[1]) not in _KINDS):
                break
            beginning = " ".join(words[:count])
            matches = [page for page in pages if page.path.startswith("sql/") and beginning in page.names]
        return matches

    def _ranked(self, query: str) -> list[Page]:
        """Return the pages with all words, the best first; if no page has all, the pages with most of them."""
        words = [_stem(word) for word in query.split() if word not in _SMALL]
        if not words:
            return []
        ranks: list[tuple[int, float, Page]] = []
        for page in self.pages:
            scores = [_score(word, page) for word in words if word in page.folded]
            if scores := [score for score in scores if score]:
                is_keyword = query in page.keywords
                whole = is_keyword or query in page.title.lower()
                is_symptom = is_keyword and " " in query
                rank = (sum(scores) + (_WHOLE if whole else 0)) * (_LISTS if page.is_list and not is_symptom else 1)
                ranks.append((len(scores), rank, page))
        most = max((count for count, _, _ in ranks), default=0)
        if most * 2 < len(words):
            return []
        best = [(rank, page) for count, rank, page in ranks if count == most]
        return [page for _, page in sorted(best, key=lambda pair: -pair[0])]

    def _near(self, query: str) -> Iterator[str]:
        from difflib import get_close_matches  # only after a mistake

        code = re.fullmatch(r"(?:sq)?(\d{4})", query)
        if code is not None:
            candidates, query = {page.path[-6:].lower() for page in self.pages if page.is_error}, f"sq{code[1]}"
        else:
            candidates = {
                name
                for page in self.pages
                if not page.is_error
                for names in (page.names, page.keywords, _names_in(page))
                for name in names
            }
        for name in get_close_matches(query, sorted(candidates), n=3):
            yield name.upper() if code is not None else name


def plain(text: str) -> str:
    """Return a line of Markdown as plain text."""
    return re.sub(r"\*\*|`|(?<!\w)[*_]|[*_](?!\w)|\\(?=\W)", "", _LINK.sub(r"\1", text)).strip()


def _folder() -> Path:
    packaged = Path(__file__).parent / "docs"
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / "docs"


def _files(folder: Path, below: str = "") -> Iterator[tuple[str, str]]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:  # a checkout without docs
        return
    for entry in entries:
        if entry.is_dir():
            yield from _files(Path(entry.path), f"{below}{entry.name}/")
        elif entry.name.endswith(".md"):
            yield f"{below}{entry.name.removesuffix('.md')}", entry.path


def _text(file: str | Path) -> str:
    with open(file, encoding="utf-8") as opened:
        return opened.read()


_SMALL = frozenset(
    ("a", "an", "and", "are", "be", "by", "can", "do", "does", "for", "from", "how", "i", "in", "is", "it", "my", "of",
     "on", "or", "the", "to", "what", "when", "why", "with")
)  # fmt: skip
"""Words that are ignored."""
_KINDS = frozenset(
    ("cluster", "column", "connection", "create", "database", "index", "materialized", "object", "plan", "schema",
     "secret", "sink", "source", "table", "variable", "view")
)  # fmt: skip
"""The words, in the singular, that follow a statement of one word."""
_LONG = 4
"""The minimum length of a word whose ending is cut, and of a word that may match a part of another word."""


def _stem(word: str) -> str:
    word = word.strip("`\"'?!.,;:()[]")
    for ending in ("ing", "ed", "es"):
        if word.endswith(ending) and len(word) - len(ending) >= _LONG:
            return word.removesuffix(ending)
    return word.removesuffix("s") if len(word) >= _LONG and not word.endswith("ss") else word


def _score(word: str, page: Page) -> float:
    """Return the rank of a page for a word. Words are searched without regular expressions, which are far slower."""
    text = page.folded
    if len(word) < _LONG and not re.search(rf"(?<![a-z0-9]){re.escape(word)}", text):
        return 0
    score = _TITLE if word in page.title.lower() else 0
    score += _KEYWORD if any(keyword.startswith(word) for keyword in page.keywords) else 0
    score += _PATH if word in page.path.lower() else 0
    score += _HEADING if any(word in heading.lower() for heading in page.headings) else 0
    score += _ENTRY if f"\n| `{word}" in text or f"\n| {word}" in text else 0
    return score + min(text.count(word), 5)


def _entries_named(name: str, pages: Iterable[Page]) -> list[Entry]:
    """Return the sections and rows of this name; entries of pages that list other pages only if there are no others."""
    name = re.sub(r"^[a-z_]+\.(?=[a-z_]+$)", "", name)  # the schema of a relation
    entries: list[Entry] = []
    for page in pages:
        if page.is_error or page.path.startswith("tutorials/") or name not in page.folded:
            continue
        lines = page.body.splitlines()
        here: list[Entry] = []
        if any(name in _spellings(heading) for heading in page.headings[1:]):
            here += _sections_named(name, page, lines)
        if not here and any(line.startswith("|") and name in line.lower() for line in lines):
            here += _rows_named(name, page, lines)
        entries += here or _paragraphs_named(name, page, lines)
    full_names = {re.split(r"[(→]", entry.name)[0].strip() for entry in entries if entry.page.path not in _SUMMARIES}
    return [entry for entry in entries if entry.page.path not in _SUMMARIES or entry.name not in full_names]


def _sections_named(name: str, page: Page, lines: list[str]) -> Iterator[Entry]:
    headings = list(_heading_lines(lines))
    for number, (place, level, heading) in enumerate(headings[1:], 1):
        if name in _spellings(heading) and _is_name(heading):
            ends = [other for other, deeper, _ in headings[number + 1 :] if deeper <= level]
            inside = lines[place : ends[0] if ends else len(lines)]
            below = " ".join(" ".join(inside[1:]).split())
            summary = plain(re.split(r"(?<=[.!?]) ", below)[0])
            yield Entry(page, heading, page.title, "\n".join(inside).rstrip() + "\n", summary)


def _paragraphs_named(name: str, page: Page, lines: list[str]) -> Iterator[Entry]:
    """Yield paragraphs that begin with the name, which are too small for a section."""
    for place, line in enumerate(lines):
        if line.lower().startswith(f"`{name}`: "):
            ends = next((number for number in range(place, len(lines)) if not lines[number]), len(lines))
            text = " ".join(lines[place:ends])
            yield Entry(page, name, page.title, f"{text}\n", plain(text.partition(": ")[2].partition(". ")[0]))


def _is_name(heading: str) -> bool:
    """Return whether a heading is the name of a relation, a command or a statement, and not a common heading."""
    return "_" in heading or heading.startswith("sinkql ") or heading == heading.upper()


def _rows_named(name: str, page: Page, lines: list[str]) -> Iterator[Entry]:
    """Yield the rows of this name, all rows of one table together, with following rows that have no name."""
    head: list[str] = []
    rows: list[str] = []
    follows = False
    for place, line in enumerate([*lines, ""]):
        if not line.startswith("|"):
            if rows:
                yield _entry_of(rows, head, page, lines[:place])
            head, rows, follows = [], [], False
        elif len(head) < 2:
            head.append(line)
        else:
            follows = _is_named(name, line, page) or (follows and not _cells(line)[0])
            rows += [line] if follows else []


def _is_named(name: str, row: str, page: Page) -> bool:
    first = _cells(row)[0]
    if name not in first.lower() or not ("`" in first or page.path.startswith("functions/")):
        return False
    if page.path.startswith("functions/") and name.upper() in re.findall(r"[A-Z]{2,}", first):
        return True  # a BETWEEN b AND c
    return any(name in _spellings(part) for part in (plain(first), *re.split(r", |<br>", plain(first))))


def _entry_of(rows: list[str], head: list[str], page: Page, before: list[str]) -> Entry:
    section = next((text for place, _, text in reversed(list(_heading_lines(before))) if place), "")
    title = f"{page.title}: {section}" if section else page.title
    titles, cells = _cells(head[0]), _cells(rows[0])
    meaning = next((place for place, heading in enumerate(titles) if heading in ("description", "meaning")), -1)
    text = "\n".join([f"**{title}**", "", *head, *rows, ""])
    return Entry(page, plain(cells[0]), title, text, plain(cells[min(meaning, len(cells) - 1)]))


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _heading_lines(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the place, the level and the text of each heading."""
    fenced = False
    for place, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("#"):
            text = line.lstrip("#")
            yield place, len(line) - len(text), plain(text)


def _spellings(text: str) -> set[str]:
    """Return the possible names of a heading or cell: `f(a) → b` is f, `sinkql status` status, `mz_x.y` also y."""
    name = re.split(r"[(→]| in `?WITH", text)[0].strip().lower()
    spellings = {text.lower(), name, name.removeprefix("sinkql ")}
    if re.fullmatch(r"[a-z_]+\.[a-z_]+", name):
        spellings.add(name.partition(".")[2])
    return spellings - {""}


def _names_in(page: Page) -> Iterator[str]:
    for line in page.body.splitlines():
        if line.startswith("| `"):
            yield from _spellings(plain(line.split("|")[1]))
    yield from (heading.lower() for heading in page.headings)


def _different(pages: Iterable[Page]) -> list[Page]:
    return list(dict.fromkeys(pages))
