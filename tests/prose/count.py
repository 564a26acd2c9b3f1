"""Print the phrases that SinkQL's English avoids: `cd tests; python -m prose.count ../sinkql/table`, file or folder.

With `--totals`, print how often each phrase occurs in 10,000 words of each kind of text instead. With `--names`, print
the names of the code that contain words which the glossary drops.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from prose.names import DROPPED, dropped_names
from prose.phrases import PHRASES
from prose.texts import ROOT, Text, house, texts


def rates(found: Iterable[Text]) -> dict[str, dict[str, float]]:
    """Return how often each phrase occurs in 10,000 words of each kind of text."""
    words: Counter[str] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for text in found:
        words[text.kind] += len(text.text.split())
        for phrase in PHRASES:
            if phrase.is_counted(text):
                counts[text.kind, phrase.name] += len(phrase.pattern.findall(text.text))
    return {
        phrase.name: {kind: 1e4 * counts[kind, phrase.name] / words[kind] for kind in phrase.kinds if words[kind]}
        for phrase in PHRASES
    }


def main(arguments: list[str]) -> None:
    """Print the places of phrases, their rates, or the dropped names."""
    totals = "--totals" in arguments
    roots = [Path(argument).resolve() for argument in arguments if not argument.startswith("-")]
    found = list(texts(*roots) if roots else house())
    if "--names" in arguments:
        for root in roots or [ROOT / "sinkql"]:
            for path, line, name, word in dropped_names(root):
                print(f"{path}:{line}: {name}: {DROPPED.get(word, 'a noun of the thing')}")
        return
    if totals:
        for name, of_kinds in rates(found).items():
            print(f"{name:20}", *(f"{kind} {rate:.1f}" for kind, rate in of_kinds.items()))
        return
    for text in found:
        for phrase in (phrase for phrase in PHRASES if phrase.is_counted(text)):
            for match in phrase.pattern.finditer(text.text):
                line = text.line + text.text.count("\n", 0, match.start())
                print(f"{text.path}:{line}: {match.group().strip()!r}: {phrase.instead}")


if __name__ == "__main__":
    main(sys.argv[1:])
