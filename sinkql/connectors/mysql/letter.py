"""A row that does not decode → what can be read of it, as JSON; values that cannot as the bytes that were sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

_SHOWN = 1000


@dataclass(slots=True)
class UndecodableRow:
    """Values of rows that their columns do not hold, and why the first one of each row is not held."""

    reasons: dict[int, str] = field(default_factory=dict)
    values: dict[tuple[int, str], bytes] = field(default_factory=dict)

    def add(self, row: int, column: str, reason: str, value: bytes) -> None:
        """Take a value of a row."""
        self.reasons.setdefault(row, f'column "{column}": {reason}')
        self.values[row, column] = value

    def raw(self, row: int, names: Sequence[str], arrays: Sequence[pa.Array], what: str) -> bytes:
        """Return a row by the names of its columns; `what` says whether it came or went."""
        shown = {
            name: _hex(self.values[row, name]) if (row, name) in self.values else _plain(array[row])
            for name, array in zip(names, arrays, strict=True)
        }
        return json.dumps({what: shown}, default=str).encode()


def _plain(value: pa.Scalar) -> object:
    found = value.as_py()
    return _hex(found) if isinstance(found, bytes) else found


def _hex(value: bytes) -> str:
    return "\\x" + value[:_SHOWN].hex()
