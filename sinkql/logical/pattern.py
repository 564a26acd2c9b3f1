"""The constant patterns of functions: regular expressions, their replacements, and the patterns of format().

Regular expressions are limited to the common subset of Postgres and Java, and are translated to Java's syntax.
Anything else is a PatternError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sinkql.logical.letter_case import cases

_SPACES = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's white space as in Postgres's C.UTF-8 locale; Java and Python define `\\s` differently."""
LETTERS = r"\p{IsAlphabetic}"
"""The characters of words in Java, besides digits: letters, and marks inside words."""
_WORD = f"{LETTERS}0-9_"
# escapes with the same meaning, or with a translation
_ESCAPES = {
    "d": r"[0-9]", "D": r"[^0-9]", "s": f"[{_SPACES}]", "S": f"[^{_SPACES}]", "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]", "n": r"\n", "t": r"\t", "r": r"\r",
}  # fmt: skip
_IN_CLASS = {"d": "0-9", "s": _SPACES, "w": _WORD, "n": r"\n", "t": r"\t", "r": r"\r"}
ENDS_IN_ESCAPE = "LIKE pattern must not end with escape character"
_QUANTIFIER = re.compile(r"[*+?]\??|\{\d+(?:,\d*)?\}\??")


class PatternError(ValueError):
    """A pattern that is not supported; `of` is the wrong argument: pattern, replacement or flags."""

    def __init__(self, message: str, hint: str | None = None, of: str = "pattern") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.of = of


@dataclass(frozen=True, slots=True)
class Pattern:
    """A Java pattern; `groups` is the number of its groups, `optional` is true if one of them may not take part."""

    java: str
    groups: int
    optional: bool
    alternatives: bool
    lazy: bool


class _Reader:
    def __init__(self, text: str, *, any_case: bool) -> None:
        self.text = text
        self.any_case = any_case
        self.position = 0
        self.java: list[str] = []
        self.groups = 0
        self.optional = False
        self.alternatives = False
        self.lazy = False
        self.dotted = False

    def refuse(self, what: str) -> PatternError:
        hint = "Use literals, classes, groups, alternatives, anchors and * + ? {m,n}."
        return PatternError(f"{what} in a regular expression is not supported", hint)

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
                self.java.append(self.letter(char))
        return True

    def letter(self, char: str) -> str:
        either = cases(char) if self.any_case else char
        if len(either) > 1:
            return f"[{either}]"
        return either if char.isalnum() or char.isspace() or ord(char) > 127 else _escaped(char)

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
        shown, first, others, begin = "", True, "", "["
        if self.text.startswith("^", self.position):
            begin, self.position = "[^", self.position + 1
        while True:
            char = self.text[self.position : self.position + 1]
            self.position += 1
            if not char:
                raise self.refuse("an unmatched [")
            if char == "]" and not first:
                return f"{begin}{others}{shown}]"
            begins, first = first, False
            if char == "[" and self.text[self.position : self.position + 1] in (":", ".", "="):
                raise self.refuse("'[['")
            if char == "\\":
                escape = self.text[self.position : self.position + 1]
                self.position += 1
                if escape.isalnum() and escape not in _IN_CLASS:
                    raise self.refuse(f"'\\{escape}' in brackets")
                shown += _IN_CLASS.get(escape, _escaped(escape))
            else:
                shown += _escaped(char) if char in "[]&^~" or (begins and char == "-") else char
                if self.any_case:
                    others += self.others(char)

    def others(self, char: str) -> str:
        """Return the other cases of a letter in brackets, or of all letters of the range that begins with it."""
        following = self.text[self.position : self.position + 2]
        if following[:1] != "-" or following[1:] in ("", "]", "\\", "["):
            return cases(char).replace(char, "")
        letters = set(map(chr, range(ord(char), ord(following[1]) + 1)))
        return "".join(sorted({case for letter in letters for case in cases(letter)} - letters))


def _escaped(char: str) -> str:
    return f"\\{char}"


def read_regex(text: str, *, any_case: bool = False) -> Pattern:
    """Translate a regular expression; raises PatternError outside of the common subset.

    With `any_case` each letter matches its lower and its upper case.
    """
    reader = _Reader(text, any_case=any_case)
    if text.startswith("***") or "\n" in text:
        raise reader.refuse(text[:3] if text.startswith("*") else "a line end")
    reader.sequence(0)
    java = "".join(reader.java)
    return Pattern(
        f"(?s){java}" if reader.dotted else java, reader.groups, reader.optional, reader.alternatives, reader.lazy
    )


def read_match(text: str, *, any_case: bool = False) -> Pattern:
    """Translate a regular expression whose match is used, not only its existence."""
    found = read_regex(text, any_case=any_case)
    if found.alternatives or found.lazy:
        # Postgres prefers the longest alternative, Java the first
        raise PatternError("alternatives and lazy quantifiers are not supported where the match itself is used")
    if not matches_empty(found.java):
        return found
    # Java would find an empty text between the two halves of a character above U+FFFF
    return replace(found, java=_NO_HALF + found.java)


_NO_HALF = r"(?!\p{Cs})"


def matches_empty(java: str) -> bool:
    """Return whether a pattern matches the empty text."""
    known = re.sub(r"\\p\{[A-Za-z]+\}", "a", java.replace(r"\z", r"\Z"))
    try:
        return re.search(known, "") is not None
    except re.error:  # valid in Java only
        return True


def anchored(java: str) -> bool:
    """Return whether a pattern is anchored to the beginning of a text."""
    return "^" in re.sub(r"\[\^|\\\^", "", java)


def java_replacement(pattern: str, replacement: str, flags: str) -> tuple[str, str]:
    """Return Java's pattern and replacement for regexp_replace(); the flags are g (all) and i (any case)."""
    found = read_match(pattern, any_case="i" in flags)
    if not set(flags) <= {"g", "i"}:
        raise PatternError(f"the flags '{flags}' of regexp_replace() are not supported: only g and i", of="flags")
    first = "g" not in flags
    into = _replacement(replacement, found, shift=1 if first else 0)
    if not first:
        return found.java, into
    # the text before the first match gets a group
    bare = found.java.replace("(?s)", "")
    if anchored(bare):
        raise PatternError("an anchored pattern requires the flag g here")
    return f"(?s)^(.*?)({bare})", "$1" + into


def _replacement(text: str, found: Pattern, *, shift: int) -> str:
    """Translate a replacement: \\1 is a group, \\& the match, \\\\ a backslash; `shift` is added to the groups."""
    shown, position = "", 0
    while position < len(text):
        char, following = text[position], text[position + 1 : position + 2]
        position += 1
        if char == "$":
            shown += r"\$"
        elif char != "\\":
            shown += char
        elif following.isdigit() and 1 <= int(following) <= found.groups and not found.optional:
            shown, position = shown + f"${int(following) + 2 * shift}", position + 1
            if text[position : position + 1].isdigit():
                raise PatternError("a digit after a group is not supported", of="replacement")
        elif following == "&":
            shown, position = shown + f"${2 * shift}", position + 1
        elif following == "\\":
            shown, position = shown + r"\\", position + 1
        else:
            raise PatternError(f"'\\{following}' in a replacement is not supported", of="replacement")
    return shown


# --- format -----------------------------------------------------------------------------------------------------------


def format_pieces(pattern: str) -> list[str]:
    """Return the texts around the %s of format(), one more than the %s; raises PatternError for another %."""
    pieces = pattern.replace("%%", "\0").split("%s")
    if any("%" in piece for piece in pieces):
        raise PatternError("format() takes only %s and %%")
    return [piece.replace("\0", "%") for piece in pieces]
