"""A loss that a sink reported of a source, and a user accepts → a note of the sink, for its reader.

It counts for the place alone at which the sink was, and is deleted once the sink has committed beyond. A reader tells
that place itself: the catalog may know an earlier one, where a process ended right after a commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from sinkql import codec
from sinkql.storage.key_value import KeyValueStore


class AcceptedLoss(msgspec.Struct, frozen=True):
    """What follows `start`, or wherever the sink is if that is empty, is given up as far as it is lost.

    `end` is where the sink goes on, None until it is known.
    """

    start: dict[str, Any]
    end: dict[str, Any] | None = None


def report_loss(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> None:
    """Take note of the place of a sink that has lost what follows."""
    notes.write(_name(source, "lost"), msgspec.json.encode(dict(start)))


def accept_loss(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> None:
    """Take note that a user accepts what a sink lost of a source, by the name that its offsets are kept under.

    It is at `start` as far as the catalog knows.
    """
    lost = notes.read(_name(source, "lost"))
    if lost is not None:  # else it was found in the midst of a batch
        with suppress(msgspec.MsgspecError):
            start = codec.decoder(dict[str, Any]).decode(lost)
    _write(notes, source, AcceptedLoss(dict(start)))


def accepted(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> AcceptedLoss | None:
    """Return what is accepted for a sink that is at `start`."""
    note = notes.read(_name(source))
    if note is None:
        return None
    try:
        found = codec.decoder(AcceptedLoss).decode(note)
    except msgspec.MsgspecError:
        return None
    return found if found.start in ({}, start) else None


def settle(notes: KeyValueStore, source: str, found: AcceptedLoss, end: Mapping[str, Any]) -> None:
    """Take note where the sink goes on: there whenever it asks."""
    _write(notes, source, msgspec.structs.replace(found, end=dict(end)))


def forget(notes: KeyValueStore, source: str) -> None:
    """Delete what was reported and accepted: the sink is beyond."""
    notes.remove(_name(source, "lost"), _name(source))


def _write(notes: KeyValueStore, source: str, found: AcceptedLoss) -> None:
    notes.write(_name(source), msgspec.json.encode(found))


def _name(source: str, what: str = "skip") -> str:
    return f"{what}-{hashlib.sha256(source.encode()).hexdigest()[:16]}"
