"""How far a source was read, and its parts; how much may be read at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Offsets = Mapping[str, Any]
"""How far one source was read; JSON-able, its content is the connector's."""

JobOffsets = Mapping[str, Offsets]
"""Source name to offsets: how far a job was read."""

Split = Mapping[str, Any]
"""A replayable part of a source; JSON-able: reading it again gives the same rows."""


def same(left: object, right: object) -> bool:
    """Compare offsets by what JSON makes of them: those of a file or a marker were JSON, a reader's may hold tuples."""
    return left == right or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Limit:
    """Bound a batch by rows and by bytes of input."""

    rows: int
    bytes: int = 1 << 30
