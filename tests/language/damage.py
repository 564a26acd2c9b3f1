"""Damage correct scripts as typing errors, editors and networks do."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from golden import casefile
from language.sentences import sentences
from sinkql.errors import SinkqlError
from sinkql.parser.read import automaton, lexer

_GOLDEN = Path(__file__).parents[1] / "golden"
_SIGNS = (*"()[]{},;.:=|-*'\"$`#\\", "=>", "||", "--", "/*", "*/", "$$", "E'", "X'", "::", "<", "\n", "1", "a")
_CHARACTERS = "\0\t\n\r \u00a0\u200b\ud800\U0010ffff'\"`;()éſİß€−–“”‘’0x_$@~"
_LONGEST = 2_000


@cache
def scripts() -> tuple[str, ...]:
    """Return the inputs of the golden files, correct and incorrect ones."""
    files = sorted([*(_GOLDEN / "parse").glob("*.txt"), *(_GOLDEN / "plan").glob("*.txt")])
    cases = [case for file in files for case in casefile.read(file.read_text("utf-8"))[0]]
    return tuple(case.input for case in cases if case.input and len(case.input) < _LONGEST)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Return one script or two in sequence, with one to four kinds of damage."""
    random = Random(draw(st.integers(0, 2**64 - 1)))
    text = random.choice(scripts()) if random.random() < 0.7 else draw(sentences())[0]
    if random.random() < 0.3:
        text += random.choice((";\n", "\n", " ")) + random.choice(scripts())
    for _ in range(random.randint(1, 4)):
        text = hurt(text, random)
    return text


def hurt(text: str, random: Random) -> str:
    """Return a text with one kind of damage."""
    return random.choice((_of_words, _of_words, _of_words, _of_characters, _cut, _spliced))(text, random)


def _of_words(text: str, random: Random) -> str:
    """Delete, double, swap or replace a word or sign."""
    try:
        found = [(each.start, each.end) for each in lexer.scan(text) if each.end > each.start]
    except SinkqlError:
        return _of_characters(text, random)
    if len(found) < 2:
        return text
    place = random.randrange(len(found) - 1)
    (start, end), (start_next, end_next) = found[place : place + 2]
    word, following = text[start:end], text[start_next:end_next]
    match random.randrange(4):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:end] + " " + word + text[end:]
        case 2:
            return text[:start] + following + text[end:start_next] + word + text[end_next:]
        case _:
            other = random.choice((random.choice(sorted(automaton.keywords())), random.choice(_SIGNS)))
            return text[:start] + other + text[end:]


def _of_characters(text: str, random: Random) -> str:
    place = random.randint(0, len(text))
    return text[:place] + "".join(random.choices(_CHARACTERS, k=random.randint(1, 3))) + text[place:]


def _cut(text: str, random: Random) -> str:
    place = random.randint(0, len(text))
    return random.choice((text[:place], text[place:], text[:place] + text[place + 5 :]))


def _spliced(text: str, random: Random) -> str:
    other = random.choice(scripts())
    return text[: random.randint(0, len(text))] + other[random.randint(0, len(other)) :]
