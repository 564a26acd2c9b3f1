"""Damage a file or an answer: cut it off, empty it, flip a bit, replace it, or delete it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

WAYS = ("cut", "cut", "empty", "flip", "flip", "other", "gone")


def damage(chance: random.Random, path: Path, others: Sequence[Path], ways: Sequence[str] = WAYS) -> str:
    """Damage a file in one way; return the way."""
    how = chance.choice(ways)
    match how:
        case "other":
            path.write_bytes(chance.choice(others).read_bytes())
        case "gone":
            path.unlink()
        case _:
            path.write_bytes(damaged(chance, path.read_bytes(), how))
    return how


def damaged(chance: random.Random, data: bytes, how: str) -> bytes:
    """Return bytes cut off, emptied, or with one bit flipped."""
    match how:
        case "cut":
            return data[: chance.randrange(len(data))]
        case "empty":
            return b""
        case _:
            at = chance.randrange(len(data))
            return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
