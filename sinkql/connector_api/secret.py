"""Text with secrets ↔ the JSON-able form that plans carry; its value only where a job runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sinkql import logical


def secret_data(text: logical.SecretText) -> dict[str, Any]:
    """Return `{"secret_text": [part, {"secret": name}, …]}`."""
    parts = [part if isinstance(part, str) else {"secret": part.name} for part in text.parts]
    return {"secret_text": parts}


def reveal(data: Mapping[str, Any], secret: Callable[[str], str]) -> str:
    """Return the text that `secret_data` stands for; `secret` gives a secret item's value by its full name."""
    parts: list[str | Mapping[str, str]] = data["secret_text"]
    return "".join(part if isinstance(part, str) else secret(part["secret"]) for part in parts)
