"""A file → the same file cut off, emptied, changed in a bit, replaced by another one, or gone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

WAYS = ("cut", "cut", "empty", "flip", "flip", "other", "gone")


def damage(chance: random.Random, path: Path, others: Sequence[Path], ways: Sequence[str] = WAYS) -> str:
    """Damage a file in one way; return how."""
    data = path.read_bytes()
    how = chance.choice(ways)
    match how:
        case "cut":
            path.write_bytes(data[: chance.randrange(len(data))])
        case "empty":
            path.write_bytes(b"")
        case "flip":
            at = chance.randrange(len(data))
            path.write_bytes(data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :])
        case "other":
            path.write_bytes(chance.choice(others).read_bytes())
        case _:
            path.unlink()
    return how
