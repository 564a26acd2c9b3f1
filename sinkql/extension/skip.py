"""A loss that a sink reported of a source, and a user accepts → a file in the sink's state folder, for its reader.

It counts for the place alone at which the sink was, and is deleted once the sink has committed beyond. A reader tells
that place itself: the catalog may know an earlier one, where a process ended right after a commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from sinkql import durable, typed


class Accepted(msgspec.Struct, frozen=True):
    """What follows `start`, or wherever the sink is if that is empty, is given up as far as it is lost.

    `end` is where the sink goes on, None until it is known.
    """

    start: dict[str, Any]
    end: dict[str, Any] | None = None


def report(folder: Path, source: str, start: Mapping[str, Any]) -> None:
    """Take note of the place of a sink that has lost what follows."""
    durable.write(_path(folder, source, "lost"), msgspec.json.encode(dict(start)))


def accept(folder: Path, source: str, start: Mapping[str, Any]) -> None:
    """Take note that a user accepts what a sink lost of a source, by the name that its offsets are kept under.

    It is at `start` as far as the catalog knows.
    """
    with suppress(OSError, msgspec.MsgspecError):  # what was lost was found in the midst of a batch
        start = typed.decoder(dict[str, Any]).decode(_path(folder, source, "lost").read_bytes())
    _write(folder, source, Accepted(dict(start)))


def accepted(folder: Path, source: str, start: Mapping[str, Any]) -> Accepted | None:
    """Return what is accepted for a sink that is at `start`."""
    try:
        found = typed.decoder(Accepted).decode(_path(folder, source).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.start in ({}, start) else None


def settle(folder: Path, source: str, found: Accepted, end: Mapping[str, Any]) -> None:
    """Take note where the sink goes on: there whenever it asks."""
    _write(folder, source, msgspec.structs.replace(found, end=dict(end)))


def forget(folder: Path, source: str) -> None:
    """Delete what was reported and accepted: the sink is beyond."""
    for what in ("lost", "skip"):
        _path(folder, source, what).unlink(missing_ok=True)


def _write(folder: Path, source: str, found: Accepted) -> None:
    durable.write(_path(folder, source), msgspec.json.encode(found))


def _path(folder: Path, source: str, what: str = "skip") -> Path:
    return folder / f"{what}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.json"
