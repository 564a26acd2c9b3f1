"""The value of a secret as a type that does not show it, and the input of CREATE SECRET: a value or a reference.

`Catalog.secret` returns the present value to a running sink.
"""

from __future__ import annotations

import secrets as random
from dataclasses import dataclass
from typing import NoReturn

from sinkql import ast
from sinkql.planner.item.secret import literal_text
from sinkql.script.redaction import REDACTED


class SecretValue:
    """A secret's text, which only `reveal` shows: it is not printed, formatted, pickled or written as JSON."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text, for the call that needs it; never store it."""
        return self._text

    def __repr__(self) -> str:
        return f"SecretValue({REDACTED})"

    def __str__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a secret's value cannot be formatted into text: reveal it only for its use")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret's value cannot be pickled: send the secret's name")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretValue) and random.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> NoReturn:
        raise TypeError("a secret's value cannot be hashed")


@dataclass(frozen=True, slots=True)
class SecretInput:
    """The input of CREATE SECRET: a literal's value, or a reference's kind (env_var, vault, …) and arguments."""

    kind: str
    value: SecretValue | None = None
    arguments: tuple[str, ...] = ()

    @property
    def statement_value(self) -> ast.SecretValue:
        """Return the value in the catalog's text of the secret."""
        return ast.Call(self.kind, tuple(map(ast.Text, self.arguments))) if self.value is None else ast.Text(REDACTED)


def secret_input(value: ast.SecretValue) -> SecretInput:
    """Return the input of CREATE SECRET for its value; raises SQ2611 to SQ2614 as planning does."""
    if isinstance(value, ast.Call) and value.refers:
        return SecretInput(value.function, arguments=tuple(argument.value for argument in value.arguments))
    return SecretInput("literal", SecretValue(literal_text(value)))
