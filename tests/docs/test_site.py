"""The documentation site: links of the staged pages, the output of tools/site.py, resources of the built pages."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from docs.page_text import DOCS, ROOT
from docs.tree import navigation

pytestmark = pytest.mark.long

_HOME_BYTES = 350_000


def _script() -> Any:
    spec = spec_from_file_location("site_script", ROOT / "tools" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


site = _script()


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/index.md", "[a](quickstart.md#x)", "[a](quickstart.md#x)"),
        ("docs/how-to/secrets.md", "[a](../quickstart.md)", "[a](../quickstart.md)"),
        ("docs/index.md", "[a](../CONTRIBUTING.md)", "[a](project/CONTRIBUTING.md)"),
        ("docs/how-to/secrets.md", "[a](../../bench/README.md#how)", "[a](../project/bench/README.md#how)"),
        ("README.md", "[a](docs/quickstart.md)", "[a](../quickstart.md)"),
        ("bench/README.md", "[a](../README.md)", "[a](../README.md)"),
        ("docs/index.md", "[the demo](../examples)", "the demo"),
        ("docs/index.md", "[a](../examples/plugin)", "[a](project/examples/plugin/README.md)"),
        ("docs/index.md", "[a](#b)", "[a](#b)"),
        ("docs/index.md", "[a](https://example.com/x)", "[a](https://example.com/x)"),
        ("docs/index.md", "`[a](../CONTRIBUTING.md)`", "`[a](../CONTRIBUTING.md)`"),
        ("docs/index.md", "```text\n[a](../x.md)\n```", "```text\n[a](../x.md)\n```"),
        ("docs/index.md", '<img src="pictures/a.svg">', '<img src="pictures/a.svg">'),
        ("bench/README.md", "![a](../docs/pictures/a.svg)", "![a](../../pictures/a.svg)"),
    ],
)
def test_links_fit_the_site(page: str, link: str, expected: str) -> None:
    assert site.rewritten(link, ROOT / page)[0] == expected


def test_keywords_are_tags_for_the_search() -> None:
    assert (
        site._with_tags("---\nkeywords: [a, b c]\n---\n# T\n") == "---\nkeywords: [a, b c]\ntags: [a, b c]\n---\n# T\n"
    )
    assert site._with_tags("# T\n") == "# T\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, as `make docs` does."""
    if find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: run make install")
    output = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, str(ROOT / "tools" / "site.py"), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return output


@pytest.mark.soak
def test_each_page_is_there_as_html_and_as_markdown(built: Path) -> None:
    for name in navigation():
        page = name.removeprefix("docs/") if name.startswith("docs/") else f"project/{name}"
        assert (built / page).with_suffix(".html").is_file(), page
        assert (built / page).is_file(), page
        assert not (built / page).read_text().startswith("---"), page


@pytest.mark.soak
def test_nothing_comes_from_another_host(built: Path) -> None:
    tags = re.compile(r"<(?:script|img|iframe|source|video|audio|link)\b[^>]*>")
    other = re.compile(r"\b(?:src|srcset|href)=[\"']?((?:https?:)?//[^\"' >]+)")
    loaded = {
        (path.name, match[1])
        for path in built.rglob("*.html")
        for tag in tags.findall(path.read_text("utf-8"))
        if not re.search(r"rel=[\"']?(?:canonical|next|prev)", tag)
        for match in other.finditer(tag)
    }
    loaded |= {
        (path.name, match[1])
        for path in built.rglob("*.css")
        for match in re.finditer(r"url\([\"']?((?:https?:)?//[^\"')]+)", path.read_text("utf-8"))
    }
    assert loaded == set()


@pytest.mark.soak
def test_the_home_page_is_small(built: Path) -> None:
    home = (built / "index.html").read_text("utf-8")
    loaded = re.findall(r"<script src=\"([^\"]+)\"|<link rel=\"stylesheet\" href=\"([^\"]+)\"", home)
    sizes = [(built / (script or style)).stat().st_size for script, style in loaded]
    assert len(home.encode()) + sum(sizes) <= _HOME_BYTES


@pytest.mark.soak
def test_programs_find_all_pages(built: Path) -> None:
    listed = re.findall(r"^- \[.+?\]\((\S+)\): \S", (built / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert listed == [
        name.removeprefix("docs/") if name.startswith("docs/") else f"project/{name}" for name in navigation()
    ]
    whole = (built / "llms-full.txt").read_text("utf-8")
    assert whole.count("<!-- ") == len(listed) + len(list((DOCS / "errors").glob("SQ*.md")))
    assert "# SQ2342" in whole


@pytest.mark.soak
def test_the_search_knows_keywords(built: Path) -> None:
    index = (built / "search" / "search_index.json").read_text("utf-8")
    assert '"tags":[' in index.replace(" ", "")
