"""A secret's value as a type that does not show it; what CREATE SECRET gives: a value, or where to have it from."""

from __future__ import annotations

import secrets as random
from dataclasses import dataclass
from typing import NoReturn

from sinkql import ast
from sinkql.planner.item.secret import literal_text
from sinkql.script.redaction import REDACTED


class SecretValue:
    """A secret's text, shown by `reveal` alone: not printed, not formatted, not pickled, not in JSON."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; for the call that needs it, never to be kept."""
        return self._text

    def __repr__(self) -> str:
        return f"SecretValue({REDACTED})"

    def __str__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a secret's value is not formatted into text: reveal it where it is used")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret's value is not pickled: send the secret's name")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretValue) and random.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> NoReturn:
        raise TypeError("a secret's value is not hashed")


@dataclass(frozen=True, slots=True)
class Given:
    """What CREATE SECRET gives: a literal's value, or a reference's kind (env_var, vault, …) and arguments."""

    kind: str
    value: SecretValue | None = None
    arguments: tuple[str, ...] = ()

    @property
    def statement_value(self) -> ast.SecretValue:
        """Return what the catalog's text of the secret says."""
        return ast.Call(self.kind, tuple(map(ast.Text, self.arguments))) if self.value is None else ast.Text(REDACTED)


def given(value: ast.SecretValue) -> Given:
    """Return what a CREATE SECRET's value says; raises SQ2611 to SQ2614 as planning it does."""
    if isinstance(value, ast.Call) and value.refers:
        return Given(value.function, arguments=tuple(argument.value for argument in value.arguments))
    return Given("literal", SecretValue(literal_text(value)))
