"""Phrases that SinkQL's English avoids: how often each may occur in 10,000 words, and what to write instead.

The limits are a little above the rates of well-edited libraries. They are a ceiling, not the goal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prose.texts import KINDS, Text


@dataclass(frozen=True)
class Phrase:
    """A phrase and its limit in 10,000 words."""

    name: str
    pattern: re.Pattern[str]
    limit: float
    instead: str
    kinds: tuple[str, ...]
    ordinary: tuple[str, ...] = ()
    """Folders where the phrase has its ordinary meaning and does not count."""

    def is_counted(self, text: Text) -> bool:
        """Return whether the phrase counts in a text."""
        return text.kind in self.kinds and not any(f"/{folder}/" in text.path.as_posix() for folder in self.ordinary)


def _phrase(name: str, pattern: str, limit: float, instead: str, ordinary: tuple[str, ...] = ()) -> Phrase:
    return Phrase(name, re.compile(pattern, re.IGNORECASE), limit, instead, KINDS, ordinary)


def _verb(name: str, limit: float, instead: str) -> Phrase:
    """Return the phrase for docstrings that begin with a verb."""
    return Phrase(f"{name} …", re.compile(rf"\A{name}\b"), limit, instead, ("docstrings",))


_OF_TEXT = ("sinkql/evaluate", "sinkql/logical", "sinkql/lowering", "sinkql/parser", "docs/functions", "docs/errors")
"""Folders about characters of texts."""
PHRASES = (
    _phrase("what is", r"\bwhat (?:is|are|was|were|has|have)\b", 2, "name the thing: a noun of the glossary"),
    _phrase("what it", r"\bwhat (?:it|there)\b", 1, "name the thing: a noun of the glossary"),
    _phrase("of which", r"\bof which\b", 1, "turn the sentence round"),
    _phrase("anew", r"\banew\b", 0, "again, from the start, recreate"),
    _phrase("whoever", r"\bwhoever\b", 0, "name the process, reader or user"),
    _phrase("somebody, nobody", r"\b(?:somebody|nobody|anybody)\b", 0.5, "name the process, reader or user"),
    _phrase("one that", r"\bone (?:that|who|which)\b", 1, "repeat the noun"),
    _phrase("those that", r"\bthose (?:that|who|of|which|in)\b", 1.5, "repeat the noun"),
    _verb("Tell", 0.5, "Return whether, Report"),
    _verb("Say", 0, "Return, Report, Print, Describe"),
    _verb("Give", 0.5, "Return, Yield"),
    _verb("Have", 0, "Make, Store, or the verb itself"),
    _verb("Let", 0, "Allow, or the verb itself"),
    _verb("Take", 1, "Accept, Read, Acquire"),
    _phrase("is to be", r"\b(?:is|are|was|were) to be\b", 0.5, "must be, should be"),
    _phrase("is to + verb", r"\b(?:is|are) to (?!be\b)[a-z]+", 1.5, "must, should, will"),
    _phrase("of its own", r"\bof (?:its|their) own\b", 1, "separate, or leave it out"),
    _phrase("by itself", r"\bby itself\b", 1, "automatically, or leave it out"),
    _phrase("there is none", r"\bthere (?:is|are) (?:none|no|nothing)\b", 2, "does not exist, is missing, has no"),
    _phrase("that is there", r"\bthat (?:is|are) there\b", 0, "existing"),
    _phrase("no more", r"\b(?:any|no) more\b", 0.5, "no longer"),
    _phrase("so many", r"\bso (?:many|much|long|far)\b", 1, "the number, as a parameter or a noun"),
    _phrase("where there", r"\bwhere (?:there|it|one|that)\b", 2, "if, when"),
    _phrase("as it is", r"\bas (?:it is|they are)\b", 1, "unchanged"),
    _phrase(
        "is told", r"\b(?:is|are|was|were) (?:told|said|given|taken|kept|made|put)\b", 5, "name the actor and the act"
    ),
    _phrase("goes on", r"\bgo(?:es)? on\b", 1, "continue"),
    _phrase("put by", r"\bput (?:by|back|in|together)\b", 0.5, "store, restore, insert, combine"),
    _phrase("come and go", r"\bcomes? and goe?s?\b", 0, "changes"),
    _phrase("at once", r"\bat once\b", 1.5, "immediately, together"),
    _phrase("in the place of", r"\bin the (?:place|midst) of\b", 0, "instead of, during"),
    _phrase("not … any more", r"\bnot [^.\n]{0,40}any more\b", 0, "no longer"),
    _phrase("beyond", r"\bbeyond\b", 0.5, "above, after, more than"),
    _phrase("such", r"\bsuch\b", 6, "repeat the noun"),
    _phrase("meanwhile", r"\bmeanwhile\b", 0, "during …, while …"),
    _phrase("up to there", r"\bup to (?:there|where|what)\b", 0, "up to the position"),
    _phrase("how far", r"\bhow far\b", 1, "position, progress"),
    _phrase(", or none", r"(?-i:, or (?:none|not)\b)", 0, "a sentence with if"),
    _phrase("the other", r"\bthe (?:others?|former)\b", 3, "repeat the noun"),
    _phrase("it is … that", r"\bit is [^.\n]{1,30} (?:that|who)\b", 0, "subject, verb, object"),
    _phrase("who", r"(?:\A|(?<=[,.;:\n] ))who\b", 0.5, "name the process, reader or user"),
    # private words: the glossary has a term for the idea
    _phrase(
        "letters", r"\b(?<!dead[ -])letters?\b(?! case|,? digits| and digits)", 0.5, "dead letter; character", _OF_TEXT
    ),
    _phrase("conservation", r"\bconservation\b", 0, "record accounting"),
    _phrase("era", r"\beras?\b", 0.3, "capture epoch"),
    _phrase("desk, roll, seat", r"\b(?:desk|roster|seats?|lane|lanes)\b", 0, "capture, scheduled sink, worker"),
    _phrase("marker", r"\bmarkers?\b", 0.5, "checkpoint"),
    _phrase("leftover", r"\bleftovers?\b", 0, "orphan files"),
    _phrase("judge, door", r"\b(?:judges?|doors?)\b", 0, "check evaluation, endpoint"),
    _phrase("read_counts", r"\btall(?:y|ied|ies)\b", 0, "task report"),
)
