"""Find the secrets in a script, correct or not, and replace them before it is stored, printed or quoted.

Any text that may be meant as a secret counts as one: literals of CREATE SECRET, of options with a secret type, of
misspelled options that resemble a secret option, all literals of unknown kinds, and passwords and tokens in URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile, zip_longest

from sinkql.errors import SinkqlError, Span, nearest, redact
from sinkql.keywords import SECRET_FUNCTIONS, Keywords, Role, longest_match, longest_phrase, secret_setting
from sinkql.parser.read import lexer
from sinkql.parser.read.lexer import Lexeme

_COVERED = re.compile(r"[^\n]")
REDACTED = "<redacted>"
_REFERENCES = frozenset(name.upper() for name in SECRET_FUNCTIONS if name != "decode")
_OTHERS = frozenset(
    {"CONNECTION", "SOURCE", "SINK", "CLUSTER", "SELECT", "DROP", "SHOW", "COMMENT", "GRANT", "REVOKE", "EXPLAIN"}
)
# after this many words a text is not an option, and its middle is not searched
_MANY = 50
_WRITTEN = ("STRING", "HEX", "NUMBER", "QUOTED", "WORD")
_COMMENT = re.compile(r"--([^\r\n]*)|/\*(.*?)(?:\*/|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Masked:
    """A script without its secrets: `text` has the length of the original, so that spans stay valid."""

    text: str
    literals: tuple[str, ...] = field(repr=False)

    def cover(self, error: SinkqlError) -> SinkqlError:
        """Return an error without the literals in its texts, and with the masked script."""
        error.message = self._without(error.message)
        error.detail = self._without(error.detail) if error.detail else error.detail
        error.hint = self._without(error.hint) if error.hint else error.hint
        error.args = (error.message,)
        if error.text is not None:
            error.text = self._without(error.text)
        return error

    def _without(self, text: str) -> str:
        for literal in self.literals:
            text = text.replace(literal, "*" * len(literal))
        return text


def mask(script: str, words: Keywords) -> Masked:
    """Mask the literals of secrets, and the literals in options that take secrets."""
    pieces: list[str] = []
    telling: set[str] = set()
    at = 0
    for literal in sorted(literals(script, words), key=lambda covered: covered.span.start):
        start, end = max(at, literal.span.start), max(at, literal.span.end)
        pieces += [script[at:start], _COVERED.sub("*", script[start:end])]
        at = end
        if literal.of_secret:
            telling.add(script[literal.span.start : literal.span.end])
    # Longest first: a literal that contains another is masked whole. Very short ones occur in any text by chance.
    secrets = sorted((secret for secret in telling if len(secret) > 3), key=len, reverse=True)
    return Masked("".join([*pieces, script[at:]]), tuple(secrets))


# --- positions of secrets -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """The span of a secret's text without quotes; `of_secret` is false for a literal in an option."""

    span: Span
    of_secret: bool


def holds_secret(text: str, words: Keywords) -> bool:
    """Return whether a text, finished or not, shows a secret in a statement or in a comment."""
    comments = (match[1] or match[2] or "" for match in _COMMENT.finditer(text))
    return any(any(literals(part, words)) for part in (text, *comments))


def literals(text: str, words: Keywords) -> Iterator[Literal]:
    """Yield the secrets in a text. After a lexical error, all the rest counts if it may be part of a secret.

    Secrets in URLs come in any order, and may be inside a secret that came before.
    """
    yield from (Literal(Span(start, end), of_secret=True) for start, end in redact.secrets(text))
    statement: list[Lexeme] = []
    try:
        for lexeme in lexer.scan(text):
            if lexeme.kind == "STRING" and "://" in lexeme.text:
                inside = _inside(lexeme)
                for start, end in redact.secrets(text[inside.start : inside.end], whole=True):
                    yield Literal(Span(inside.start + start, inside.start + end), of_secret=True)
            if lexeme.kind in (";", "END"):
                yield from _in_statement(statement, words)
                statement = []
            else:
                statement.append(lexeme)
    except SinkqlError:
        yield from _in_statement(statement, words)
        of_secret = _is_of_secret(statement)
        if statement and (of_secret or _names_secret(statement, words)):
            yield Literal(Span(statement[-1].end, len(text)), of_secret)


def _in_statement(statement: Sequence[Lexeme], words: Keywords) -> Iterator[Literal]:
    if _is_of_secret(statement):
        for lexeme in _of_secret(statement):
            yield Literal(_inside(lexeme), of_secret=True)
        return
    yield from _in_settings(statement)
    if not any(lexeme.keyword == "SELECT" for lexeme in statement):
        for option, hiding in _options(statement, words):
            yield from (Literal(_inside(lexeme), of_secret=False) for lexeme in _value(option, hiding))


def _in_settings(statement: Sequence[Lexeme]) -> Iterator[Literal]:
    """Yield the values of Spark's secret settings, as in MAP['spark.authenticate.secret' => 'x']."""
    for place, lexeme in enumerate(statement):
        if lexeme.kind == "STRING" and secret_setting(lexeme.value):
            behind = statement[place + 1 : place + 3]
            value = next((following for following in behind if following.kind not in ("=>", "=", ",", ")", "]")), None)
            if value is not None and value.kind in _WRITTEN:
                yield Literal(_inside(value), of_secret=True)


def _of_secret(statement: Sequence[Lexeme]) -> Iterator[Lexeme]:
    """Yield the value of a secret's statement: also words with forgotten quotes."""
    value = statement[_name_end(statement) :]
    if value and value[0].keyword in ("RENAME", "OWNER"):
        return
    referring = False
    for lexeme, following in zip_longest(value, value[1:]):
        opens = following is not None and following.kind == "("
        if opens and lexeme.keyword in _REFERENCES:
            referring = True
        elif lexeme.kind == ")":
            referring = False
        elif lexeme.kind in _WRITTEN and not referring and not opens and _telling(lexeme):
            yield lexeme


def _telling(lexeme: Lexeme) -> bool:
    return lexeme.keyword not in ("AS", "SECRET") and lexeme.value.lower() not in ("base64", "hex")


def _name_end(statement: Sequence[Lexeme]) -> int:
    """Return the index after the name of a secret's statement."""
    place = next(place for place, lexeme in enumerate(statement) if _says_secret(lexeme)) + 1
    while place < len(statement) and statement[place].keyword in ("IF", "NOT", "EXISTS"):
        place += 1
    while place + 1 < len(statement) and statement[place + 1].kind == ".":
        place += 2
    return place + (place < len(statement) and statement[place].kind in ("WORD", "QUOTED"))


def _is_of_secret(statement: Sequence[Lexeme]) -> bool:
    """Return whether the words before the first bracket, AS or literal name a secret, misspelled or not."""
    for lexeme in statement:
        if lexeme.kind not in ("WORD", "QUOTED", ".") or lexeme.keyword == "AS":
            return False
        if lexeme.keyword in _OTHERS:
            return False
        if _says_secret(lexeme):
            return True
    return False


def _says_secret(lexeme: Lexeme) -> bool:
    if lexeme.keyword == "SECRET":
        return True
    from sinkql.parser.read import automaton  # imported here, since few callers look at a statement and load Lark

    return lexeme.keyword not in automaton.keywords() and nearest(lexeme.text, ["SECRET"], cutoff=0.75) is not None


_ROLES: dict[str, tuple[Role, tuple[str, ...]]] = {
    "CONNECTION": ("CONNECTION", ("TO", "FOR")),
    "SOURCE": ("SOURCE", ("FROM",)),
    "SINK": ("SINK", ("INTO",)),
}
"""The role of the item that a CREATE makes, and the words before its kind."""


@dataclass(frozen=True, slots=True)
class _Hiding:
    """Decides by an option's label whether its literals may be secrets.

    Outside of brackets most words are not labels: only labels that connectors know count. For an unknown kind all
    strings may be secrets, except in the plain options of the kind that is `meant`.
    """

    words: Keywords
    role: Role
    kind: str | None
    meant: str | None
    inside: bool

    @property
    def all(self) -> bool:
        return self.inside and self.kind is not None and self.words.options(self.role, self.kind) is None

    def plain(self, label: str) -> bool:
        """Return whether the option belongs to the kind that is meant, and is not a secret."""
        meant = self.words.options(self.role, self.meant) if self.meant is not None else None
        return meant is not None and label in meant.labels - meant.secrets

    def label(self, label: str) -> bool:
        """Return whether the option may take a secret."""
        if not self.inside:
            return label in self.words.secrets
        return self.words.hides(self.role, None if self.all else self.kind, label)


def _options(statement: Sequence[Lexeme], words: Keywords) -> Iterator[tuple[list[Lexeme], _Hiding]]:
    """Yield the texts between brackets and commas, each with the rule for its literals."""
    option: list[Lexeme] = []
    role, kind, meant, kind_place = _kind(statement, words)
    depth = 0
    for place, lexeme in enumerate(statement):
        if lexeme.kind in ("(", ",", ")"):
            behind = place > kind_place
            yield option, _Hiding(words, role, kind if behind else None, meant, inside=depth > 0)
            option = []
            depth += {"(": 1, ")": -1}.get(lexeme.kind, 0)
        else:
            option.append(lexeme)
    yield option, _Hiding(words, role, kind, meant, inside=depth > 0)


def _kind(statement: Sequence[Lexeme], words: Keywords) -> tuple[Role, str | None, str | None, int]:
    """Return the role, kind, probable kind and position of the item that a CREATE makes.

    The kind is None if it is missing, or if the statement makes something else. The probable kind corrects a
    misspelling.
    """
    keyword = next((word for word in (lexeme.keyword for lexeme in statement[:3]) if word in _ROLES), None)
    if keyword is None or statement[0].keyword != "CREATE":
        return "CONNECTION", None, None, len(statement)
    role, before = _ROLES[keyword]
    start = next((place for place, lexeme in enumerate(statement) if lexeme.keyword in before), len(statement)) + 1
    run: list[str] = []
    for lexeme in statement[start:]:
        if lexeme.kind != "WORD" or lexeme.keyword in ("CONNECTION", "WITH"):
            break
        run.append(lexeme.text.upper())
    kinds = words.kinds.get(role, {})
    length = longest_match(run, frozenset(kinds))
    if length or not run:
        kind = " ".join(run[:length]) or None
        return role, kind, kind, start
    written = " ".join(run)
    meant = next((name for name in kinds if name.startswith(f"{written} ")), None) or nearest(written, tuple(kinds))
    return role, written, meant, start


def _value(option: Sequence[Lexeme], hiding: _Hiding) -> Iterator[Lexeme]:
    """Yield the literals after the name of an option that may take a secret."""
    end = _label_end(option, hiding)
    if end == 0:
        label = " ".join(lexeme.text.upper() for lexeme in takewhile(lambda lexeme: lexeme.kind == "WORD", option))
        if hiding.all and not hiding.plain(label):
            yield from (lexeme for lexeme in option if lexeme.kind in ("STRING", "HEX"))
        return
    for before, lexeme in zip(option[end - 1 :], option[end:], strict=False):
        if lexeme.kind in _WRITTEN and lexeme.keyword != "SECRET" and before.keyword != "SECRET":
            yield lexeme


def _label_end(option: Sequence[Lexeme], hiding: _Hiding) -> int:
    """Return the number of lexemes in the option's name, 0 if its literals are not secrets."""
    labels = hiding.words.labels
    most = longest_phrase(labels) + 1
    run: list[str] = []
    for lexeme in option:
        if lexeme.kind != "WORD" or (0 < len(run) <= most and lexeme.keyword == "SECRET" and " ".join(run) in labels):
            break
        run.append(lexeme.text.upper())
    if not run:
        return 0
    has_value = len(option) > len(run) and option[len(run)].kind in ("=", *_WRITTEN)
    # a whole name, or the end of one, for instance after misplaced words
    for start in range(len(run)):
        length = longest_match(run[start : start + most], labels)
        if length and (not has_value or start + length == len(run) or start == 0):
            return start + length if hiding.label(" ".join(run[start : start + length])) else 0
    if has_value:
        return len(run) if hiding.label(" ".join(run[-most:] if len(run) > _MANY else run)) else 0
    # PASSWORT hunter22: it is unknown which of the words are the name
    return next((end for end in range(min(len(run) - 1, _MANY), 0, -1) if hiding.label(" ".join(run[:end]))), 0)


def _names_secret(statement: Sequence[Lexeme], words: Keywords) -> bool:
    return any(_label_end(option, hiding) for option, hiding in _options(statement, words))


def _inside(lexeme: Lexeme) -> Span:
    """Return the span of a lexeme without its quotes."""
    if lexeme.kind in ("WORD", "NUMBER"):
        return lexeme.span
    quote = lexeme.text[: lexeme.text.find("$", 1) + 1] if lexeme.text[0] == "$" else lexeme.text[-1]
    return Span(lexeme.start + lexeme.text.find(quote) + len(quote), lexeme.end - len(quote))
