"""`sinkql help`: pages of the documentation, in the terminal."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Iterator

import click

from sinkql.cli.output import Output
from sinkql.documentation import Documentation, Entry, Found, Page

_WIDEST = 100
_NOT_FOUND = 1
_GROUPS = {
    "": "Start",
    "tutorials": "Tutorials",
    "how-to": "How-to guides",
    "sql": "Statements",
    "functions": "Functions",
    "connectors": "Connectors",
    "concepts": "Concepts",
    "errors": "Errors",
    "reference": "Reference",
    "releases": "Releases",
}


@click.command(name="help", short_help="Explain a statement, function, option, error code or symptom.")
@click.argument("words", nargs=-1)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> int:
    """Show what the documentation says about WORDS; without WORDS, list its pages.

    WORDS are an error code, the name of a page, statement, function, option or relation, or any words to search for:

    \b
      sinkql help quickstart         sinkql help create sink
      sinkql help SQ2204             sinkql help date_trunc
      sinkql help commit interval    sinkql help disk is full
    """
    _, output = context.obj
    assert isinstance(output, Output)
    documentation = Documentation()
    if not words:
        _list_pages(output, documentation)
        return 0
    found = documentation.find(" ".join(words))
    if not found:
        _tell_missing(output, " ".join(words), found)
        return _NOT_FOUND
    if output.format == "json":
        for shown in (*((found.page,) if found.page is not None else ()), *found.entries):
            text = shown.body if isinstance(shown, Page) else shown.text
            output.line("", **_data(shown), markdown=text)
        for listed in found.listed:
            output.line("", **_data(listed))
        return 0
    texts = [found.page.body] if found.page is not None else []
    texts += [f"{entry.text}\nMore: `sinkql help {entry.page.command}`\n" for entry in found.entries]
    lines = list(_lines(found.listed))
    _show("\n".join(texts), ["See also:" if texts else "Pages about this:", *lines] if lines else [])
    return 0


def _list_pages(output: Output, documentation: Documentation) -> None:
    if output.format == "json":
        for page in documentation.pages:
            output.line("", **_data(page))
        return
    texts: list[str] = []
    for folder, title in _GROUPS.items():
        inside = [page for page in documentation.pages if page.path.rpartition("/")[0] == folder and not page.is_error]
        if inside:
            texts += [title, *_lines(inside), ""]
    texts += ["sinkql help WORDS shows a page, or looks WORDS up: an error code, a function, an option, a symptom."]
    _show("", texts)


def _tell_missing(output: Output, words: str, found: Found) -> None:
    near = [f"sinkql help {name}" for name in found.near]
    text = f'the documentation has nothing about "{words}"'
    if output.format == "json":
        output.line("", found=False, words=words, near=list(found.near))
        return
    click.echo(text, err=True)
    click.echo(f"hint: Try {' or '.join(near)}." if near else "hint: sinkql help lists all pages.", err=True)


def _data(shown: Page | Entry) -> dict[str, str]:
    if isinstance(shown, Page):
        return {"page": shown.path, "title": shown.title, "summary": shown.lead}
    return {"page": shown.page.path, "title": shown.name, "in": shown.title, "summary": shown.summary}


def _lines(listed: tuple[Page | Entry, ...] | list[Page]) -> Iterator[str]:
    titles = [each.title if isinstance(each, Page) else f"{each.name} ({each.title})" for each in listed]
    width = min(max(map(len, titles), default=0), _WIDEST // 2)
    for title, each in zip(titles, listed, strict=True):
        page = each if isinstance(each, Page) else each.page
        shown = title if len(title) <= width else f"{title[: width - 1]}…"
        yield f"  {shown:<{width}}  sinkql help {page.command}"


def _show(text: str, lines: list[str]) -> None:
    """Print Markdown and the lines below it: rendered and paged on a terminal, unchanged elsewhere."""
    below = "".join(f"{line}\n" for line in lines)
    if not sys.stdout.isatty():
        click.echo(f"{text}\n{below}" if text and below else text or below, nl=False)
        return
    from sinkql.shell.screen import pager  # loads only for a terminal

    shown = f"{_drawn(text)}\n{below}" if text and below else _drawn(text) if text else below
    if pager.fits(shown):
        click.echo(shown, nl=False)
    else:
        pager.show(shown)


def _drawn(text: str) -> str:
    """Return Markdown rendered for a terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=io.StringIO(), force_terminal=True, width=min(shutil.get_terminal_size().columns, _WIDEST))
    console.print(Markdown(_without_links(text), code_theme="ansi_dark", hyperlinks=False))
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
