"""The navigation of mkdocs.yml: pages that exist, will exist, or existed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from docs.page_text import ROOT


@cache
def configuration() -> dict[str, Any]:
    """Return the content of mkdocs.yml."""
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text("utf-8"))  # these name functions
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def navigation() -> list[str]:
    """Return the navigation's pages in order, relative to the repository; project/ marks pages outside docs."""
    return [
        entry.removeprefix("project/") if entry.startswith("project/") else f"docs/{entry}"
        for entry in _entries(configuration()["nav"])
    ]


def _entries(node: object) -> Iterator[str]:
    match node:
        case str():
            yield node
        case list():
            for each in node:
                yield from _entries(each)
        case dict():
            for each in node.values():
                yield from _entries(each)
