"""The product's texts have each phrase that its English avoids at most as often as `ceilings.toml` allows.

A ceiling only falls: `pytest tests/prose --lower` writes lower ceilings. Without a ceiling, the phrase's limit holds.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from prose.count import rates
from prose.names import NO_NOUNS, counts, dropped_names
from prose.phrases import PHRASES
from prose.texts import ROOT, house

_CEILINGS = Path(__file__).with_name("ceilings.toml")


@pytest.fixture(scope="module")
def present() -> dict[str, dict[str, float]]:
    """Return how often each phrase occurs in 10,000 words of each kind of text."""
    return rates(house())


def test_phrases_are_no_more_frequent_than_before(
    present: dict[str, dict[str, float]], request: pytest.FixtureRequest
) -> None:
    ceilings = tomllib.loads(_CEILINGS.read_text())
    if request.config.getoption("--lower"):
        ceilings = _lowered(ceilings, present) | {"names": ceilings.get("names", {})}
        _write(ceilings)
    too_many = [
        f"{kind}: {phrase.name!r} {rate:.1f} times in 10,000 words, {ceiling} allowed; write: {phrase.instead}"
        for phrase in PHRASES
        for kind, rate in present[phrase.name].items()
        if rate > (ceiling := ceilings.get(kind, {}).get(phrase.name, phrase.limit))
    ]
    assert not too_many, "\n".join(["`cd tests; python -m prose.count` prints the places", *too_many])


def test_names_have_no_dropped_words(request: pytest.FixtureRequest) -> None:
    present = counts(ROOT / "sinkql")
    ceilings = tomllib.loads(_CEILINGS.read_text())
    allowed = ceilings.get("names", {})
    if request.config.getoption("--lower"):
        allowed = {word: min(count, allowed[word]) for word, count in sorted(present.items()) if word in allowed}
        _write(ceilings | {"names": allowed})
    too_many = [
        f"{word}: {count}, {allowed.get(word, 0)} allowed"
        for word, count in present.items()
        if count > allowed.get(word, 0)
    ]
    assert not too_many, "\n".join(["`cd tests; python -m prose.count --names` prints the places", *too_many])
    assert all(present[word] >= 0.8 * count - 2 for word, count in allowed.items()), "`--lower` writes lower ceilings"


@pytest.mark.parametrize("folder", ["tests", "bench"])
def test_names_of_tests_have_no_dropped_terms(folder: str) -> None:
    """Locals such as `found` may stay there; terms that the glossary has dropped may not."""
    dropped = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, line, name, word in dropped_names(ROOT / folder)
        if word not in NO_NOUNS
    ]
    assert not dropped, "\n".join(dropped)


def test_a_ceiling_is_no_higher_than_it_need_be(present: dict[str, dict[str, float]]) -> None:
    """A ceiling far above the present rate is out of date: it would let the phrase return."""
    limits = {phrase.name: phrase.limit for phrase in PHRASES}
    slack = [
        f"{kind}: {name}: {ceiling}, and the texts have {present[name][kind]:.1f}"
        for kind, of_kind in tomllib.loads(_CEILINGS.read_text()).items()
        for name, ceiling in of_kind.items()
        if kind != "names"
        if name not in limits or ceiling <= limits[name] or present[name][kind] < 0.8 * ceiling - 1
    ]
    assert not slack, "\n".join(["`pytest tests/prose --lower` writes lower ones", *slack])


def _lowered(
    ceilings: dict[str, dict[str, float]], present: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    lowered: dict[str, dict[str, float]] = {}
    for phrase in PHRASES:
        for kind, rate in present[phrase.name].items():
            before = ceilings.get(kind, {}).get(phrase.name)
            ceiling = round(rate + 0.05, 1)
            if before is not None and before < ceiling:
                ceiling = before
            if before is not None and rate > phrase.limit:
                lowered.setdefault(kind, {})[phrase.name] = ceiling
    return lowered


def _write(ceilings: dict[str, dict[str, float]]) -> None:
    lines = ["# Phrases that are more frequent than their limit, in 10,000 words of each kind of text."]
    for kind, of_kind in sorted(ceilings.items()):
        lines += ["", f"[{kind}]", *(f'"{name}" = {ceiling}' for name, ceiling in of_kind.items())]
    _CEILINGS.write_text("\n".join(lines) + "\n")
