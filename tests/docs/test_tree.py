"""The tree of pages: the beginning, SQL and links of each page; the navigation of mkdocs.yml has all pages.

One page: `pytest tests/docs -k "how-to/secrets"`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise

import pytest

from docs.page_text import DOCS, ROOT, Page, pages, parse, read
from docs.tree import navigation
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.script.format import format_script

pytestmark = pytest.mark.long


def _written() -> list[Page]:
    """Return all Markdown pages that people wrote, including pages outside docs."""
    patterns = ("*.md", "docs/**/*.md", "bench/*.md", "deploy/*.md", "examples/**/*.md")
    return [read(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name) for page in _written() if any(block.language == "sql" for block in page.blocks)],
)
def test_the_sql_is_as_fmt_writes_it(page: Page) -> None:
    words, other = discover().keywords, []
    for block in page.blocks:
        broken = (block.mark("error") or "").startswith("SQ1")
        if block.language != "sql" or block.mark("on") is not None or broken:
            continue
        try:
            expected = format_script(block.text, words)
        except SinkqlError as error:
            other.append(f"{page.place(block.line)}: {error.message}")
            continue
        if expected != block.text:
            other.append(f"{page.place(block.line)}: sinkql fmt writes\n{expected}")
    assert other == [], "\n".join(other)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in _written() if not page.is_error])
def test_links_lead_somewhere(page: Page) -> None:
    broken = [
        f"{page.place(link.line)}: {link.text}: {why}"
        for link in page.links
        if (why := _why_broken(page, link.text)) is not None
    ]
    assert broken == [], "\n".join(broken)


def _why_broken(page: Page, link: str) -> str | None:
    """Return the reason why a link is broken; None if it is not."""
    if re.match(r"[a-z]+:", link):
        return None
    target, _, anchor = link.partition("#")
    path = ((ROOT / page.path).parent / target).resolve() if target else ROOT / page.path
    if not path.is_relative_to(ROOT):
        return "it leads out of the repository"
    if not path.exists():
        return "there is no such file"
    if anchor and path.suffix == ".md" and anchor not in read(path).anchors:
        near = get_close_matches(anchor, read(path).anchors, 1)
        return f"there is no heading with this anchor{f', but one with {near[0]}' if near else ''}"
    return None


# --- the parts of each page -----------------------------------------------------------------------------------------

_TREE = [pytest.param(page, id=page.name) for page in pages() if not page.is_error]


@pytest.mark.parametrize("page", _TREE)
def test_a_page_begins_as_all_do(page: Page) -> None:
    """A page has front matter with keywords, a title, a sentence about its purpose, and then the setups."""
    lines = page.text.split("\n")
    assert page.meta is not None, f"{page.place(1)}: begin with front matter: ---, keywords: [..], ---"
    keywords = page.meta.get("keywords")
    assert isinstance(keywords, list), f"{page.place(2)}: write keywords: [word, two words]"
    assert all(isinstance(each, str | int) for each in keywords), f"{page.place(2)}: {keywords}"
    assert page.headings, f"{page.path}: no title"
    title = page.headings[0]
    assert title.level == 1, f"{page.place(title.line)}: the first heading is the title: one #"
    others = [each.line for each in page.headings[1:] if each.level == 1]
    assert others == [], f"{page.place(others[0])}: a page has one title"
    first = page.paragraphs[0] if page.paragraphs else None
    told = f"{page.place(title.line)}: below the title, a sentence says what the page is for"
    assert first is not None, told
    between = [line for line in lines[title.line : first.line - 1] if line.strip()]
    assert between == [], told
    assert len(page.headings) < 2 or first.line < page.headings[1].line, told


@pytest.mark.parametrize("page", _TREE)
def test_lines_are_at_most_120_characters(page: Page) -> None:
    inside = {
        number
        for block in page.blocks
        for each in (block, block.output)
        if each is not None
        for number in range(each.line, each.line + each.text.count("\n"))
    }
    long = [
        page.place(number)
        for number, line in enumerate(page.text.split("\n"), 1)
        if len(line) > 120 and not line.startswith(("|", "![", "keywords:", "<", "    ")) and number not in inside
    ]
    assert long == [], "\n".join(long)


@pytest.mark.parametrize("page", _TREE)
def test_levels_of_headings_are_not_skipped_and_anchors_are_different(page: Page) -> None:
    levels = [each.level for each in page.headings]
    skipped = [page.place(second.line) for first, second in pairwise(page.headings) if second.level > first.level + 1]
    assert skipped == [], levels
    twice = [anchor for anchor, count in Counter(each.anchor for each in page.headings).items() if count > 1]
    assert twice == [], f"{page.path}: two headings have one anchor"


@pytest.mark.parametrize(
    "check",
    [
        test_links_lead_somewhere,
        test_a_page_begins_as_all_do,
        test_lines_are_at_most_120_characters,
        test_levels_of_headings_are_not_skipped_and_anchors_are_different,
    ],
)
def test_pages_of_errors_are_like_the_others(check: Callable[[Page], None]) -> None:
    for page in pages():
        if page.is_error:
            check(page)


# --- the navigation -------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation_once() -> None:
    found = Counter(navigation())
    assert [name for name, count in found.items() if count > 1] == []
    single = re.compile(r"docs/errors/SQ\d{4}\.md")
    missing = [page.path for page in pages() if page.path not in found and not single.match(page.path)]
    assert missing == [], "add them to nav in mkdocs.yml"


def test_every_page_of_the_navigation_is_there() -> None:
    assert [name for name in navigation() if not (ROOT / name).exists()] == []


def test_every_page_of_an_error_is_linked_by_the_index() -> None:
    index = DOCS / "errors" / "index.md"
    pages_of_errors = {path.name for path in (DOCS / "errors").glob("SQ*.md")}
    linked = {link.text for link in read(index).links} if index.exists() else set()
    assert sorted(pages_of_errors - linked) == []


# --- the tests themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("reference/options.md", None),
        ("reference/options.md#create-cluster", None),
        ("../README.md#examples", "heading"),
        ("nowhere.md", "no such file"),
        ("../../elsewhere", "out of the repository"),
        ("#nothing", "heading"),
        ("how-to/secrets.md", None),
        ("https://materialize.com/docs", None),
    ],
)
def test_wrong_links_are_found(link: str, why: str | None) -> None:
    page = parse("# Title\n", "docs/index.md")
    found = (
        _why_broken(page, link)
        if not link.startswith("#")
        else _why_broken(read(DOCS / "reference" / "options.md"), link)
    )
    assert found is None if why is None else found is not None and why in found


_PAGE = """---
keywords: [lag]
---
# A `page`

It says [this](other.md#x).

<!-- setup: kafka, demo
orders: {}
-->

<!-- error: SQ2001 -->
```sql
SELECT 1;
```

<!-- output -->
```text
1
```

* one
* two
  continues
  ```text
  x
  ```

| a \\| b | c |
|---|---|
| `x` | y |

![A picture](p.svg) `[no](link.md)`

## See [a](b.md)
"""


def test_parts_of_a_page() -> None:
    page = parse(_PAGE)
    assert page.meta == {"keywords": ["lag"]}
    assert [(each.text, each.anchor, each.line) for each in page.headings] == [
        ("A `page`", "a-page", 4),
        ("See [a](b.md)", "see-a", 35),
    ]
    assert [(each.text, each.line) for each in page.paragraphs[:3]] == [
        ("It says [this](other.md#x).", 6),
        ("one", 22),
        ("two continues", 23),
    ]
    assert [(each.text, each.line) for each in page.cells] == [("a \\| b", 29), ("c", 29), ("`x`", 31), ("y", 31)]
    assert [(each.text, each.line) for each in page.links] == [("other.md#x", 6), ("p.svg", 33), ("b.md", 35)]
    assert page.setups == {"kafka": "orders: {}", "demo": ""}
    (sql, text) = page.blocks
    assert (sql.language, sql.text, sql.line, sql.marks) == ("sql", "SELECT 1;\n", 14, ("error: SQ2001",))
    assert sql.output is not None
    assert (sql.output.text, sql.output.line) == ("1\n", 19)
    assert (text.text, text.output) == ("x\n", None)
