"""A connector's dataclass of options → what a person is told of each: its label, what it takes, its choices."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from sinkql import ast, logical
from sinkql.connector.options import SecretOnly, label

Takes = Literal["text", "boolean", "number", "interval", "secret", "text or secret", "name", "list", "map", "choice"]


@dataclass(frozen=True, slots=True)
class OptionHelp:
    """Hold what is known of one option; `choices` are texts."""

    label: str
    takes: Takes
    required: bool
    choices: tuple[str, ...] = ()


def option_help(into: type) -> tuple[OptionHelp, ...]:
    """Return the options of a dataclass that `sinkql.connector.options.bind` fills, in their order."""
    hints = typing.get_type_hints(into)
    return tuple(_one(field, hints[field.name]) for field in dataclasses.fields(into))


def _one(field: dataclasses.Field[Any], hint: Any) -> OptionHelp:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    plain = _plain(hint)
    choices = field.metadata.get("choices") or (get_args(plain) if get_origin(plain) is Literal else ())
    return OptionHelp(label(field), "choice" if choices else _takes(plain), required, tuple(choices))


def _plain(hint: Any) -> Any:
    if get_origin(hint) in (typing.Union, types.UnionType):
        return next(each for each in get_args(hint) if each is not type(None))
    return hint


def _takes(hint: Any) -> Takes:
    if get_origin(hint) is tuple:
        return "list"
    if get_origin(hint) is dict:
        return "map"
    known: dict[Any, Takes] = {
        bool: "boolean",
        int: "number",
        float: "number",
        timedelta: "interval",
        SecretOnly: "secret",
        logical.SecretText: "text or secret",
        ast.Name: "name",
    }
    return known.get(hint, "text")
