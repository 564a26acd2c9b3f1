"""The generated pages say what the code does; `pytest tests/docs --rewrite` writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import error_page

pytestmark = pytest.mark.long

_DOCS = Path(__file__).parents[2] / "docs"


def _check(pages: dict[str, str], config: pytest.Config, folder: str = "") -> None:
    """Compare pages with their files, or write them. Another file in `folder` fails, or is deleted."""
    stale = {str(path.relative_to(_DOCS)) for path in (_DOCS / folder).glob("*.md")} - pages.keys() if folder else set()
    if config.getoption("--rewrite"):
        for name, text in pages.items():
            (_DOCS / name).parent.mkdir(parents=True, exist_ok=True)
            (_DOCS / name).write_text(text)
        for name in stale:
            (_DOCS / name).unlink()
        return
    assert sorted(stale) == []
    differs = [n for n, text in pages.items() if not (_DOCS / n).exists() or (_DOCS / n).read_text() != text]
    assert differs == [], "run pytest tests/docs --rewrite"


def test_the_pages_of_errors_are_those_of_the_codes(pytestconfig: pytest.Config) -> None:
    _check(error_page.pages(), pytestconfig, "errors")
