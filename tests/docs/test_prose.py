"""The pages read well: no long sentences, paragraphs or cells, and no phrase of phrases.toml.

prose_baseline.toml has the number of findings of each page that breaks the rules; the numbers may only fall.
`--rewrite` writes the lower numbers. One page: `pytest tests/docs -k "prose and how-to/secrets"`.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from statistics import median, quantiles

import pytest

from docs.page_text import ROOT, Page, pages, parse, read
from docs.prose import findings, sentences, words

_BASELINE = Path(__file__).with_name("prose_baseline.toml")
_PAGES = [*pages(), *(read(ROOT / name) for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"))]
_CASES = [pytest.param(page, id=page.name) for page in _PAGES if not page.is_error]


def _baseline() -> dict[str, dict[str, int]]:
    return tomllib.loads(_BASELINE.read_text("utf-8"))


@pytest.mark.parametrize("page", _CASES)
def test_the_prose_is_easy_to_read(page: Page, pytestconfig: pytest.Config) -> None:
    found = list(findings(page))
    counts = Counter(each.kind for each in found)
    if pytestconfig.getoption("--rewrite"):
        _lower(page.path, counts)
    allowed = _baseline().get(page.path, {})
    told = [f"{page.place(each.line)}: {each.text}" for each in found if counts[each.kind] > allowed.get(each.kind, 0)]
    assert told == [], "\n".join(told)
    fewer = {kind: (counts[kind], number) for kind, number in allowed.items() if counts[kind] < number}
    assert fewer == {}, (
        "fewer than prose_baseline.toml has: pytest tests/docs -k prose --rewrite writes the new numbers"
    )


def test_the_prose_of_the_pages_of_errors_is_easy_to_read() -> None:
    told = [f"{page.place(each.line)}: {each.text}" for page in _PAGES if page.is_error for each in findings(page)]
    assert told == [], "\n".join(told)


def _lower(path: str, counts: Counter[str]) -> None:
    baseline = {name: each for name, each in _baseline().items() if (ROOT / name).exists()}
    lower = {kind: min(number, counts[kind]) for kind, number in baseline.get(path, {}).items()}
    baseline[path] = {kind: number for kind, number in lower.items() if number}
    _write({name: each for name, each in baseline.items() if each})


def _write(baseline: dict[str, dict[str, int]]) -> None:
    lines = ["# How often pages break the rules of docs.prose. The numbers may only fall, and pages only leave."]
    for name, counts in sorted(baseline.items()):
        lines += ["", f'["{name}"]', *(f"{kind} = {number}" for kind, number in sorted(counts.items()))]
    _BASELINE.write_text("\n".join(lines) + "\n")


def test_the_baseline_has_only_pages_that_are_there() -> None:
    known = {page.path for page in _PAGES}
    assert sorted(set(_baseline()) - known) == [], "pytest tests/docs -k prose --rewrite removes them"


def test_pages_are_short_as_a_whole() -> None:
    new = [page for page in _PAGES if page.path.startswith("docs/")]
    paragraphs = [words(each.text) for page in new for each in page.paragraphs]
    lengths = [words(each) for page in new for paragraph in page.paragraphs for each in sentences(paragraph.text)]
    if len(lengths) > 100:
        assert median(paragraphs) <= 40
        assert quantiles(lengths, n=10)[-1] <= 26


# --- the tests themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SinkQL reads the topic again from the start.", []),
        (" ".join(["word"] * 31) + ".", ["sentences"]),
        (" ".join(["Nine words stand in this sentence, no more, fine."] * 9), ["paragraphs", *["phrases"] * 9]),
        ("| " + " ".join(["word"] * 26) + " | b |", ["cells"]),
        ("Whoever reads it begins anew.", ["phrases", "phrases"]),
        ("The option `anew` and `whoever reads` are code.", []),
        ("## Begin anew", ["phrases"]),
        ("## What it does not do", []),
        ("What is a sink? A sink writes a table.", []),
        ("It prints what is read.", ["phrases"]),
        ("\n".join(["Line."] * 151), ["paragraphs", "lines"]),
        ("```text\n" + " ".join(["word"] * 100) + "\n```", []),
        ("Text.\n\n    " + " ".join(["code"] * 100), []),
        ("* item\n\n    " + " ".join(["word"] * 31), ["sentences"]),
        ("---\nkeywords: [a]\n---\n" + "<!-- setup: demo\n" + "\n" * 200 + "-->\n\nText.", []),
        ("A [link of two](x.md) counts, e.g. as three. " + " ".join(["word"] * 20) + ".", []),
    ],
)
def test_findings(text: str, kinds: list[str]) -> None:
    assert [each.kind for each in findings(parse(f"{text}\n", "docs/how-to/x.md"))] == kinds


def test_reference_pages_may_be_long() -> None:
    text = "\n\n".join(["Line."] * 151)
    assert [each.kind for each in findings(parse(text, "docs/how-to/x.md"))] == ["lines"]
    assert list(findings(parse(text, "docs/reference/x.md"))) == []
