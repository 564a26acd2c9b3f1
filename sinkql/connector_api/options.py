"""Bind the options of a statement to a connector's dataclass, with errors that point at the option.

Also convert text with secrets to the JSON of plans. Only a running job reveals the values of secrets.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from sinkql import ast, codec, logical
from sinkql.errors import SinkqlError, Span, nearest, one_of
from sinkql.errors.redact import secrets

T = TypeVar("T")
ResolveSecret = Callable[[ast.Name], logical.SecretName]


class PlannedOptions:
    """A dataclass of planned options; its field names are the keys in plans."""

    __slots__ = ()

    @classmethod
    def from_plan(cls, options: Mapping[str, Any]) -> Self:
        """Return the options of a plan."""
        return codec.convert(options, cls)


class SecretOnly(logical.SecretText):
    """Text that must be written as SECRET name, not as a literal."""

    __slots__ = ()


class SecretPart(logical.SecretText):
    """Text that is a secret only together with another option: a user's name, the id of a key.

    It is never shown, like any `SecretText`, but a script may contain it as a literal.
    """

    __slots__ = ()


class Tuning:
    """The base of options that affect how a source is read, but not which rows it has.

    ALTER SOURCE can change all of them except the labels in `fixed`.
    """

    __slots__ = ()
    fixed: ClassVar[tuple[str, ...]] = ()


_SECRETS = (logical.SecretText, SecretOnly, SecretPart)


def option_field(
    help: str,  # noqa: A002 the field's name
    *,
    default: Any = dataclasses.MISSING,
    choices: tuple[str, ...] = (),
    local_path: bool = False,
) -> Any:
    """Return a field of a dataclass of options; `help` is a phrase without a full stop for the page of options.

    `choices` are texts that completion offers; the connector may accept others. With `local_path`, Tab completes files
    and folders of this machine. For a type checker the result is `Any`, like that of `dataclasses.field`.
    """
    metadata = {"help": help, "choices": choices, "local_path": local_path}
    return dataclasses.field(default=default, metadata=metadata)


def label(field: dataclasses.Field[Any]) -> str:
    """Return the SQL name of a field: `access_key_id` is ACCESS KEY ID."""
    return str(field.metadata.get("label") or field.name.replace("_", " ").upper())


def option_labels(into: type) -> tuple[str, ...]:
    """Return the SQL names of a dataclass's options."""
    return tuple(label(field) for field in dataclasses.fields(into))


@cache
def _hints(options: type) -> dict[str, Any]:
    return typing.get_type_hints(options)


def bind(
    options: Sequence[ast.Option],
    into: type[T],
    *,
    owner: str,
    span: Span,
    secret: ResolveSecret | None = None,
    ignore: Iterable[str] = (),
) -> T:
    """Return an instance of the dataclass `into` with the values of `options`.

    Types of fields: str, bool, int, float, timedelta, SecretText, SecretOnly, SecretPart, Literal[…], tuple[str, …],
    dict[str, str] and ast.Name (of a connection), each also with None. A field without a default is required.

    `owner` is the plural that messages use, for example `iceberg catalog connections`. `span` is where a missing option
    is reported. Raises SQ2101 (unknown), SQ2102 (twice), SQ2103 (wrong type), SQ2104 (missing) and SQ2106 (secret in a
    URL).
    """
    fields = {label(field): field for field in dataclasses.fields(into)}  # type: ignore[arg-type]  # T is a dataclass
    hints = _hints(into)  # type: ignore[arg-type]  # a class can be hashed
    values: dict[str, Any] = {}
    skipped = set(ignore)
    for option in options:
        if option.name in skipped:
            continue
        field = fields.get(option.name)
        if field is None:
            raise unknown_option_error(option, tuple(fields), owner=owner)
        if field.name in values:
            raise SinkqlError(
                "SQ2102", f"option {option.name} occurs twice", option.name_span, hint="Keep one of them."
            )
        if _plain(hints[field.name]) not in _SECRETS:
            _check_urls(option, fields, hints)
        values[field.name] = _convert(option, hints[field.name], secret, usual=field.default)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in values:
            raise missing_option_error(name, owner=owner, span=span, example=_example(hints[field.name]))
    return into(**values)


def _check_urls(option: ast.Option, fields: Mapping[str, dataclasses.Field[Any]], hints: Mapping[str, Any]) -> None:
    """Raise SQ2106 for a URL with a secret: only the text of secret options is redacted."""
    for text in _texts_of(option.value):
        if any(secrets(text.value, whole=True)):
            secret_options = [name for name, field in fields.items() if _plain(hints[field.name]) in _SECRETS]
            best = next((name for name in ("CREDENTIAL", "PASSWORD") if name in secret_options), None)
            raise SinkqlError(
                "SQ2106",
                f"the text of option {option.name} is a URL with a secret in it",
                text.span,
                hint=f"Remove it from the URL and add {best} = SECRET name." if best else "Remove it from the URL.",
            )


def _texts_of(value: ast.Value | None) -> Iterable[ast.Text]:
    match value:
        case ast.Text():
            return (value,)
        case ast.Sequence():
            return tuple(item for item in value.items if isinstance(item, ast.Text))
        case ast.Map():
            return tuple(entry.value for entry in value.entries if isinstance(entry.value, ast.Text))
        case _:
            return ()


def unknown_option_error(option: ast.Option, names: Sequence[str], *, owner: str) -> SinkqlError:
    """Return the error for an unknown option of `owner`."""
    near = nearest(option.name, names)
    hint = f"Did you mean {near}?" if near else f"The options are {', '.join(sorted(names))}."
    return SinkqlError(
        "SQ2101", f"{owner} {'has' if owner.isupper() else 'have'} no option {option.name}", option.name_span, hint=hint
    )


def _example(hint: Any) -> str:
    kind = _plain(hint)
    if get_origin(kind) is Literal:
        return f"'{get_args(kind)[0]}'"
    if get_origin(kind) is tuple:
        return "('a', 'b')"
    if get_origin(kind) is dict:
        return "MAP['key' => 'value']"
    examples: Mapping[Any, str] = {
        bool: "true", int: "1", float: "0.5", timedelta: "'10s'", SecretOnly: "SECRET name", ast.Name: "name",
    }  # fmt: skip
    return examples.get(kind, "'…'")


def missing_option_error(name: str, *, owner: str, span: Span, example: str) -> SinkqlError:
    """Return the error for a required option that is missing."""
    return SinkqlError("SQ2104", f"{owner} require the option {name}", span, hint=f"Add {name} = {example}.")


def option_span(options: Sequence[ast.Option], name: str, fallback: Span) -> Span:
    """Return the span of an option; `fallback` if it is absent."""
    return next((option.span for option in options if option.name == name), fallback)


def _plain(hint: Any) -> Any:
    """Return the type without `| None`."""
    if get_origin(hint) in (typing.Union, types.UnionType):
        return next(type_ for type_ in get_args(hint) if type_ is not type(None))
    return hint


def _wrong_type_error(option: ast.Option, expected: str, example: str) -> SinkqlError:
    span = option.value.span if option.value is not None else option.name_span
    return SinkqlError(
        "SQ2103", f"option {option.name} takes {expected}", span, hint=f"Write {option.name} = {example}."
    )


_DESCRIPTIONS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    timedelta: "an interval",
    str: "a string",
    ast.Name: "a name",
}


def _convert(option: ast.Option, hint: Any, secret: ResolveSecret | None, *, usual: Any) -> Any:
    kind, value = _plain(hint), option.value
    if kind in _SECRETS:
        return _secret_text(option, kind, secret)
    if get_origin(kind) is Literal:
        return _choice(option, get_args(kind))
    if get_origin(kind) is tuple:
        return _texts(option)
    if get_origin(kind) is dict:
        return _map(option)
    match kind, value:
        case (_, ast.Word()) if kind is ast.Name:
            return value.name
        case (_, None) if kind is bool:
            return True
        case (_, ast.Boolean()) if kind is bool:
            return value.value
        case (_, ast.Text() | ast.Word()) if kind is bool and _text(value).lower() in ("true", "false"):
            return _text(value).lower() == "true"
        case (_, ast.Number()) if kind is int and re.fullmatch(r"\d+", value.text):
            return _whole(option, value)
        case (_, ast.Number()) if kind is float:
            return _real(option, value)
        case (_, ast.Text() | ast.Interval()) if kind is timedelta:
            return _duration(option, value)
        case (_, ast.Text() | ast.Word()) if kind is str:
            return _text(value)
    raise _wrong_type_error(
        option, _DESCRIPTIONS[kind], _number_example(option, usual) if kind is int else _example(kind)
    )


def _number_example(option: ast.Option, usual: Any) -> str:
    """Return the number that was written in quotes, otherwise the option's default."""
    if isinstance(option.value, ast.Text) and option.value.value.isdecimal() and option.value.value.isascii():
        return option.value.value
    return str(usual) if isinstance(usual, int) else _example(int)


def _whole(option: ast.Option, value: ast.Number) -> int:
    digits = value.text.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS or int(digits) > _MOST:
        raise _out_of_range_error(option, value, f"from 0 to {_MOST}")
    return int(digits)


def _real(option: ast.Option, value: ast.Number) -> float:
    number = float(value.text)
    if not math.isfinite(number):
        raise _out_of_range_error(option, value, "that a double precision can represent")
    return number


def _out_of_range_error(option: ast.Option, value: ast.Number, bounds: str) -> SinkqlError:
    message = f"the value of option {option.name} is out of range"
    return SinkqlError("SQ2103", message, value.span, hint=f"Write a number {bounds}.")


def _text(value: ast.Text | ast.Word) -> str:
    return value.value if isinstance(value, ast.Text) else value.name.value


def _choice(option: ast.Option, choices: tuple[str, ...]) -> str:
    if isinstance(option.value, ast.Text | ast.Word):
        choice = {choice.casefold(): choice for choice in choices}.get(_text(option.value).casefold())
        if choice is not None:
            return choice
    written = _text(option.value) if isinstance(option.value, ast.Text | ast.Word) else ""
    near = nearest(written.upper(), choices) or choices[0]
    raise _wrong_type_error(option, one_of([f"'{choice}'" for choice in choices]), f"'{near}'")


def _texts(option: ast.Option) -> tuple[str, ...]:
    if isinstance(option.value, ast.Sequence):
        items = option.value.items
        if all(isinstance(item, ast.Text | ast.Word) for item in items):
            return tuple(_text(item) for item in items if isinstance(item, ast.Text | ast.Word))
    raise _wrong_type_error(option, "a list of strings", "('a', 'b')")


def _map(option: ast.Option) -> dict[str, str]:
    error = _wrong_type_error(option, "a map of strings", "MAP['key' => 'value']")
    if not isinstance(option.value, ast.Map):
        raise error
    entries = {}
    for entry in option.value.entries:
        match entry.value:
            case ast.Text() | ast.Word():
                entries[entry.key] = _text(entry.value)
            case ast.Number():
                entries[entry.key] = entry.value.text
            case ast.Boolean():
                entries[entry.key] = str(entry.value.value).lower()
            case _:
                raise error
    return entries


def _secret_text(option: ast.Option, kind: Any, secret: ResolveSecret | None) -> logical.SecretText:
    assert secret is not None, "a caller whose options include secrets passes `secret`"
    match option.value:
        case ast.SecretRef() as reference:
            return logical.SecretText((secret(reference.name),))
        case _ if kind is SecretOnly:
            raise _wrong_type_error(option, "a secret, not its text", "SECRET name")
        case ast.Text() | ast.Word() as text:
            return logical.SecretText((_text(text),))
        case ast.Concat() as concat:
            return logical.SecretText(
                tuple(part.value if isinstance(part, ast.Text) else secret(part.name) for part in concat.parts)
            )
        case _:
            raise _wrong_type_error(option, "a string or a secret", "SECRET name")


# --- intervals ------------------------------------------------------------------------------------------------------

_MOST = 2**63 - 1
_MOST_DIGITS = 19
_LONGEST = timedelta(days=36_500)
_UNITS = {
    "us": 1e-6, "microsecond": 1e-6, "microseconds": 1e-6,
    "ms": 1e-3, "msec": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
    "d": 86400, "day": 86400, "days": 86400, "week": 604800, "weeks": 604800, "w": 604800,
}  # fmt: skip
_LONG_UNITS = ("mon", "mons", "month", "months", "y", "yr", "year", "years")


def duration(text: str) -> timedelta:
    """Parse the text of an interval; raises ValueError with the reason."""
    try:
        parsed = _parse_duration(text)
    except OverflowError:
        parsed = timedelta.max
    if parsed > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST.days:,} days")
    return parsed


def _parse_duration(text: str) -> timedelta:
    rest = text.strip().lower()
    clock = re.fullmatch(r"(?:(\d+)\s*days?\s+)?(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?", rest)
    if clock:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if rest.startswith("-"):
        raise ValueError("it is negative")
    parts = re.findall(r"(\d+(?:\.\d+)?|\.\d+)\s*([a-zµ]*)\s*", rest)
    if not parts or "".join(number + unit for number, unit in parts) != re.sub(r"\s+", "", rest):
        raise ValueError("it is not an interval")
    total = 0.0
    for number, unit in parts:
        if unit in _LONG_UNITS:
            raise ValueError("months and years have no fixed length")
        if unit not in _UNITS and not (unit == "" and len(parts) == 1):
            raise ValueError(f'"{unit}" is not a unit of time')
        total += float(number) * _UNITS.get(unit, 1)
    return timedelta(seconds=total)


def _duration(option: ast.Option, value: ast.Text | ast.Interval) -> timedelta:
    text = value.value if isinstance(value, ast.Text) else value.text
    try:
        return duration(text)
    except ValueError as error:
        raise SinkqlError(
            "SQ2103",
            f"invalid interval for option {option.name}: {error}",
            value.span,
            hint=f"Write {option.name} = '10s'.",
        ) from error


PlannedSecret = Mapping[str, Any]
"""A text with references to secrets, as `secret_data` returns it."""


def secret_data(text: logical.SecretText) -> dict[str, Any]:
    """Return the JSON of a text: `{"secret_text": [part, {"secret": name}, …]}`."""
    parts = [part if isinstance(part, str) else {"secret": part.name} for part in text.parts]
    return {"secret_text": parts}


def reveal(data: Mapping[str, Any], secret: Callable[[str], str]) -> str:
    """Return the text of `secret_data`; `secret` returns the value of a secret by its full name."""
    parts: list[str | Mapping[str, str]] = data["secret_text"]
    return "".join(part if isinstance(part, str) else secret(part["secret"]) for part in parts)
