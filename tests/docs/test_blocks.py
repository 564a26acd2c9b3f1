"""The blocks of the pages run, in order, and print what the pages show. See `docs.blocks` for what writers may say.

One page: `pytest tests/docs -k "blocks and how-to/secrets"`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from docs.blocks import MARKS, Runner, needs_spark, runs
from docs.page_text import Page, pages
from docs.servers import SETUPS, servers
from docs.tree import OLD

pytestmark = pytest.mark.long

_PAGES = [page for page in pages() if page.path not in OLD]


def _cases() -> list[ParameterSet]:
    cases: list[ParameterSet] = []
    for page in _PAGES:
        if any(runs(block) for block in page.blocks):
            marks = [pytest.mark.slow] if needs_spark(page) else []
            marks += [pytest.mark.server] if set(page.setups) - {"demo", "files"} else []
            cases.append(pytest.param(page, id=page.name, marks=marks))
    return cases


@pytest.mark.parametrize("page", _cases())
def test_the_blocks_run(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with servers(page) as found:
        Runner(page, found).run()


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in _PAGES])
def test_marks_are_known(page: Page) -> None:
    told = [f"<!-- {name} -->: known are {', '.join(SETUPS)}" for name in page.setups if name not in SETUPS]
    for block in page.blocks:
        words = [mark.partition(":")[0].strip() for mark in block.marks]
        told += [
            f"{page.place(block.line)}: <!-- {word} --> is no mark: {', '.join(sorted(MARKS))}"
            for word in words
            if re.fullmatch(r"[a-z]+", word) and word not in MARKS
        ]
        if "output" in words:
            told.append(f"{page.place(block.line)}: <!-- output --> has no block before it, or a second one")
    assert told == []
