"""Describe the options of a connector's dataclass: label, type, default, help, and whether each is a secret."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Literal, get_args, get_origin

from sinkql import ast, logical
from sinkql.connector_api.options import SecretOnly, SecretPart, label
from sinkql.keywords import OptionWords

Takes = Literal[
    "text", "boolean", "number", "interval", "secret", "text or secret", "name", "expression", "list", "numbers", "map",
    "choice",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class OptionHelp:
    """The description of one option, for the user.

    A `paired` option is a secret only together with another one. A `local_path` may be a file or folder of this
    machine.
    """

    label: str
    takes: Takes
    required: bool
    choices: tuple[str, ...] = ()
    paired: bool = False
    help: str = ""
    local_path: bool = False


@cache
def option_words(*into: type | None) -> OptionWords:
    """Return the labels of the options of dataclasses, and which of them are secrets or references."""
    options = [option for dataclass_ in into if dataclass_ is not None for option in option_help(dataclass_)]
    return OptionWords(
        labels=frozenset(option.label for option in options),
        secrets=frozenset(option.label for option in options if option.takes in ("secret", "text or secret")),
        references=frozenset(option.label for option in options if option.takes == "name"),
        paired=frozenset(option.label for option in options if option.paired),
        choices=frozenset((option.label, choice) for option in options for choice in option.choices),
    )


@cache
def option_help(into: type) -> tuple[OptionHelp, ...]:
    """Return the options of a dataclass that `sinkql.connector_api.options.bind` fills, in order."""
    hints = typing.get_type_hints(into)
    return tuple(_option_help(field, hints[field.name]) for field in dataclasses.fields(into))


def offered(into: type | None) -> tuple[OptionHelp, ...]:
    """Return the options of a dataclass; empty for None."""
    return option_help(into) if into is not None else ()


def _option_help(field: dataclasses.Field[Any], hint: Any) -> OptionHelp:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    plain = _plain(hint)
    choices = field.metadata.get("choices") or (get_args(plain) if get_origin(plain) is Literal else ())
    takes: Takes = "choice" if choices else _takes(plain)
    return OptionHelp(
        label(field),
        takes,
        required,
        tuple(choices),
        paired=plain is SecretPart,
        help=field.metadata.get("help", ""),
        local_path=field.metadata.get("local_path", False),
    )


def _plain(hint: Any) -> Any:
    if get_origin(hint) in (typing.Union, types.UnionType):
        return next(type_ for type_ in get_args(hint) if type_ is not type(None))
    return hint


def _takes(hint: Any) -> Takes:
    if get_origin(hint) is tuple:
        return "numbers" if get_args(hint)[0] is int else "list"
    if get_origin(hint) is dict:
        return "map"
    takes_by_type: dict[Any, Takes] = {
        bool: "boolean",
        int: "number",
        float: "number",
        timedelta: "interval",
        SecretOnly: "secret",
        SecretPart: "text or secret",
        logical.SecretText: "text or secret",
        ast.Name: "name",
        ast.Expression: "expression",
    }
    return takes_by_type.get(hint, "text")
