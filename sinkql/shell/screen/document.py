"""Show pages of the documentation: as Markdown in a file or a pipe, rendered on a terminal."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterable, Iterator

from sinkql.documentation import Entry, Found, Page

_WIDEST = 100


def markdown_of(answer: Found) -> str:
    """Return the Markdown of the page or the entries that answer a question."""
    texts = [answer.page.body] if answer.page is not None else []
    texts += [f"{entry.text}\nMore: `sinkql help {entry.page.command}`\n" for entry in answer.entries]
    return "\n".join(texts)


def further_pages(answer: Found) -> list[str]:
    """Return lines that name further pages with their commands, below a heading."""
    lines = list(page_lines(answer.listed))
    shown = answer.page is not None or bool(answer.entries)
    return ["See also:" if shown else "Pages about this:", *lines] if lines else []


def page_lines(listed: Iterable[Page | Entry]) -> Iterator[str]:
    """Yield a line for each page or entry: its title, and the command that shows its page."""
    listed = tuple(listed)
    titles = [item.title if isinstance(item, Page) else f"{item.name} ({item.title})" for item in listed]
    width = min(max(map(len, titles), default=0), _WIDEST // 2)
    for title, item in zip(titles, listed, strict=True):
        page = item if isinstance(item, Page) else item.page
        shown = title if len(title) <= width else f"{title[: width - 1]}…"
        yield f"  {shown:<{width}}  sinkql help {page.command}"


def joined(markdown: str, lines: Iterable[str], *, terminal: bool) -> str:
    """Return Markdown, rendered for a terminal or unchanged, and the lines below it."""
    text = rendered(markdown) if terminal and markdown else markdown
    below = "".join(f"{line}\n" for line in lines)
    return f"{text}\n{below}" if text and below else text or below


def rendered(markdown: str) -> str:
    """Return Markdown rendered for a terminal."""
    from rich.console import Console  # loads only for a terminal
    from rich.markdown import Markdown

    console = Console(file=io.StringIO(), force_terminal=True, width=min(shutil.get_terminal_size().columns, _WIDEST))
    console.print(Markdown(_without_links(markdown), code_theme="ansi_dark", hyperlinks=False))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _without_links(text: str) -> str:
    """Return Markdown with the texts of its links alone: `sinkql help` finds the texts, a terminal follows no links."""
    parts = re.split(r"(^ *```.*?^ *```$|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r"!\[[^\]]*\]\([^)]*\)\n?", "", parts[place])
        parts[place] = re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", parts[place])
        parts[place] = re.sub(
            r"^(> *)\[!(\w+)\]", lambda match: f"{match[1]}**{match[2].title()}**  ", parts[place], flags=re.M
        )
    return "".join(parts)
