"""Names, values and options → the words that all plans share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

REDACTED = "<redacted>"


def flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield `name: value` of options; a text that may be a secret shows its secrets' names alone."""
    for name, value in sorted(options.items()):
        label = prefix + name.replace("_", " ")
        if isinstance(value, Mapping) and "secret_text" in value:
            yield f"{label}: {_secret_text(value)}"
        elif isinstance(value, Mapping) and value.keys() == {"connection"}:
            yield f"{label}: {value['connection']}"
        elif isinstance(value, Mapping):
            yield from flat(value, f"{label}.")
        elif value is not None:
            yield f"{label}: {scalar(value)}"


def without_literals(data: Any) -> Any:
    """Return JSON-able data without the literals of texts that may be secrets."""
    match data:
        case {"secret_text": parts}:
            return {"secret_text": [part if isinstance(part, Mapping) else REDACTED for part in parts]}
        case Mapping():
            return {name: without_literals(value) for name, value in data.items()}
        case list() | tuple():
            return [without_literals(value) for value in data]
        case _:
            return data


def _secret_text(value: Mapping[str, Any]) -> str:
    parts = value["secret_text"]
    return " || ".join(f"SECRET {part['secret']}" if isinstance(part, Mapping) else REDACTED for part in parts)


def scalar(value: Any) -> str:
    """Return a value as plans show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(scalar(each) for each in value)
    return str(value)


def duration(time: timedelta) -> str:
    """Return a time as a text, exact to the millisecond."""
    ms = time // timedelta(milliseconds=1)
    return f"{ms} ms" if ms % 1000 else f"{ms // 1000} s"
