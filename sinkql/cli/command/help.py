"""`sinkql help`: pages of the documentation, in the terminal."""

from __future__ import annotations

import sys

import click

from sinkql.cli.context import output_of
from sinkql.cli.output import Output
from sinkql.documentation import Documentation, Entry, Found, Page
from sinkql.shell.screen import document

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
    output = output_of(context)
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
    _show(document.markdown_of(found), document.further_pages(found))
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
            texts += [title, *document.page_lines(inside), ""]
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


def _show(markdown: str, lines: list[str]) -> None:
    """Print Markdown and the lines below it: rendered and paged on a terminal, unchanged elsewhere."""
    text = document.joined(markdown, lines, terminal=sys.stdout.isatty())
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from sinkql.shell.screen import pager  # loads only for a terminal

    if pager.fits(text):
        click.echo(text, nl=False)
    else:
        pager.show(text)
