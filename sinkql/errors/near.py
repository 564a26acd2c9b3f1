"""A word that nothing has and the words there are → the one that was likely meant, or all of them for a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def nearest(word: str, choices: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the choice that `word` most likely misspells, if any is near: `cutoff` of its letters at least."""
    folded = {choice.casefold(): choice for choice in choices}
    found = get_close_matches(word.casefold(), list(folded), n=1, cutoff=cutoff)
    return folded[found[0]] if found else None


def one_of(words: Sequence[str]) -> str:
    """Return words as a sentence offers them: `a`, `a or b`, `a, b or c`; a last `…` takes no "or" before it."""
    *most, last = words
    return f"{', '.join(most)}{', ' if last == '…' else ' or '}{last}" if most else last


def in_other_case(missing: Iterable[str], there: Iterable[str]) -> str:
    """Return the end of a sentence that says how to name what is there in other letters; empty where none is."""
    folded = {each.casefold(): each for each in there if each != each.lower()}
    found = next((folded[each.casefold()] for each in missing if each.casefold() in folded), None)
    return f'; a name with capitals is declared in quotes, as "{found}"' if found is not None else ""
