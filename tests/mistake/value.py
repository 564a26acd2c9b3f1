"""Print a value of SinkQL, Postgres or DuckDB; equal values have the same text."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal


def shown(value: object) -> str:
    """Return a value as text: without trailing zeros, times in UTC, arrays in braces."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return "{" + ",".join('""' if each == "" else shown(each) for each in value) + "}"
        case dict():
            return json.dumps(value)
        case bytes():
            return f"\\x{value.hex()}"
        case float() | Decimal():
            return re.sub(r"\.0+$|(\.\d*?)0+$", r"\1", f"{round(value, 9):f}")
        case datetime(tzinfo=None):
            return re.sub(r"(\.\d*?)0+$", r"\1", str(value))
        case datetime():
            text = value.astimezone(UTC).isoformat(" ").removesuffix("+00:00")
            return re.sub(r"(\.\d*?)0+$", r"\1", text) + "+00"
    return str(value)
