"""The pictures of the docs are up to date with their sources, and pages show all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.picture import PICTURES, check_format, render, sources

_DOCS = PICTURES.parent
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+\.svg)\)")


def _named(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


@pytest.mark.parametrize("source", sources(), ids=_named(sources()))
def test_a_picture_is_what_its_source_gives(source: Path, request: pytest.FixtureRequest) -> None:
    picture = source.with_suffix(".svg")
    rendered = render(source)
    if request.config.getoption("--rewrite"):
        picture.write_bytes(rendered)
    assert rendered == picture.read_bytes()


@pytest.mark.parametrize("source", sources(), ids=_named(sources()))
def test_a_source_is_formatted(source: Path) -> None:
    check_format(source)


@pytest.mark.parametrize("source", sources(), ids=_named(sources()))
def test_a_picture_has_both_themes_and_loads_nothing(source: Path) -> None:
    text = source.with_suffix(".svg").read_text()
    assert "prefers-color-scheme:dark" in text
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_every_picture_is_shown_with_a_text_for_it() -> None:
    shown = set()
    for page in _DOCS.rglob("*.md"):
        for alternative, target in _IMAGE.findall(page.read_text()):
            path = (page.parent / target).resolve()
            assert path.is_file(), f"{page.name}: {target}"
            assert len(alternative) >= 20, f"{page.name}: {target} needs a text that says what it shows"
            shown.add(path)
    assert shown == set(PICTURES.glob("*.svg"))
    assert _named(sorted(shown)) == _named(sources())


def test_every_concept_has_a_picture() -> None:
    pages = [page for page in sorted((_DOCS / "concepts").glob("*.md")) if page.stem != "index"]
    assert pages
    assert [page.stem for page in pages if not _IMAGE.search(page.read_text())] == []
