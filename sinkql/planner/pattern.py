"""A regular expression of Postgres → the same one for Java, where both mean the same by it; else refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sinkql.errors import SinkqlError, Span

# escapes that mean the same, or have a spelling that does
_ESCAPES = {"d": r"[0-9]", "D": r"[^0-9]", "s": r"\s", "S": r"\S", "w": r"[\p{L}\p{N}_]", "W": r"[^\p{L}\p{N}_]",
            "n": r"\n", "t": r"\t", "r": r"\r"}  # fmt: skip
_IN_CLASS = {"d": "0-9", "s": r"\s", "w": r"\p{L}\p{N}_", "n": r"\n", "t": r"\t", "r": r"\r"}
_QUANTIFIER = re.compile(r"[*+?]\??|\{\d+(?:,\d*)?\}\??")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Hold a Java pattern; `groups` counts its groups, `optional` tells whether one of them may take no part."""

    java: str
    groups: int
    optional: bool
    alternatives: bool
    lazy: bool


class _Reader:
    def __init__(self, text: str, span: Span) -> None:
        self.text = text
        self.span = span
        self.position = 0
        self.java: list[str] = []
        self.groups = 0
        self.optional = False
        self.alternatives = False
        self.lazy = False
        self.dotted = False

    def refuse(self, what: str) -> SinkqlError:
        hint = "Use literals, classes, groups, alternatives, anchors and * + ? {m,n}."
        return SinkqlError("SQ2214", f"{what} in a regular expression has no exact form", self.span, hint=hint)

    def sequence(self, depth: int) -> None:
        """Read up to the end, or to the parenthesis that closes a group; a quantifier follows an atom only."""
        quantifiable = False
        while self.position < len(self.text):
            char = self.text[self.position]
            match = _QUANTIFIER.match(self.text, self.position)
            if char == ")":
                if depth == 0:
                    raise self.refuse("an unmatched )")
                return
            if match is not None:
                if not quantifiable:
                    raise self.refuse(f"'{match[0]}' after nothing")
                self.quantified(match[0])
                quantifiable = False
                continue
            self.position += 1
            quantifiable = self.atom(char, depth)
        if depth:
            raise self.refuse("an unmatched (")

    def quantified(self, quantifier: str) -> None:
        self.position += len(quantifier)
        self.lazy |= len(quantifier) > 1 and quantifier.endswith("?")
        counts = re.match(r"\{(\d+)", quantifier)
        if counts is not None and int(counts[1]) > 255:
            raise self.refuse(f"'{quantifier}'")
        if (quantifier[0] in "*?" or quantifier.startswith("{0")) and self.java[-1] == ")":
            self.optional = True
        self.java.append(quantifier)

    def atom(self, char: str, depth: int) -> bool:
        match char:
            case "\\":
                self.java.append(self.escape())
            case "[":
                self.java.append(self.bracket())
            case "(":
                self.group(depth)
            case "^":
                self.java.append("^")
                return False
            case "$":
                self.java.append(r"\z")
                return False
            case "|":
                self.alternatives = True
                self.optional |= bool(self.groups)
                self.java.append("|")
                return False
            case "{":
                raise self.refuse("'{'")
            case ".":
                self.dotted = True
                self.java.append(".")
            case _:
                self.java.append(char if char.isalnum() or char.isspace() or ord(char) > 127 else _escaped(char))
        return True

    def group(self, depth: int) -> None:
        if self.text.startswith("?", self.position):
            raise self.refuse("(?")
        if self.text.startswith("*", self.position):
            raise self.refuse("(*")
        self.groups += 1
        self.java.append("(")
        self.sequence(depth + 1)
        self.position += 1
        self.java.append(")")

    def escape(self) -> str:
        char = self.text[self.position : self.position + 1]
        self.position += 1
        if char in _ESCAPES:
            return _ESCAPES[char]
        if not char or char.isalnum():
            raise self.refuse(f"'\\{char}'")
        return _escaped(char)

    def bracket(self) -> str:
        shown, first = "[", True
        if self.text.startswith("^", self.position):
            shown, self.position = "[^", self.position + 1
        while True:
            char = self.text[self.position : self.position + 1]
            self.position += 1
            if not char:
                raise self.refuse("an unmatched [")
            if char == "]" and not first:
                return shown + "]"
            first = False
            if char == "[" and self.text[self.position : self.position + 1] in (":", ".", "="):
                raise self.refuse("'[['")
            if char == "\\":
                escape = self.text[self.position : self.position + 1]
                self.position += 1
                if escape.isalnum() and escape not in _IN_CLASS:
                    raise self.refuse(f"'\\{escape}' in brackets")
                shown += _IN_CLASS.get(escape, _escaped(escape))
            else:
                shown += _escaped(char) if char in "[]&^~" else char


def _escaped(char: str) -> str:
    return f"\\{char}"


def read(text: str, span: Span) -> Pattern:
    """Translate a pattern; raises SinkqlError (SQ2214) for what is outside of the common part."""
    reader = _Reader(text, span)
    if text.startswith("***") or "\n" in text:
        raise reader.refuse(text[:3] if text.startswith("*") else "a line end")
    reader.sequence(0)
    java = "".join(reader.java)
    return Pattern(
        f"(?s){java}" if reader.dotted else java, reader.groups, reader.optional, reader.alternatives, reader.lazy
    )
