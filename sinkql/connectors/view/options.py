"""Convert the planned options of view logs, which a job holds as JSON, to typed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sinkql import codec


class ReadTuning(msgspec.Struct, frozen=True):
    """Options that change how a view log is read, and never its rows; `state` is the path of the view's STATE."""

    indexes: tuple[str, ...] = ()
    state: str | None = None


class ReadOptions(msgspec.Struct, frozen=True):
    """The options of a planned read; `passing` is true for a query, false for a job."""

    view_id: str
    passing: bool = False
    tuning: ReadTuning = ReadTuning()


class WriteTuning(msgspec.Struct, frozen=True):
    """Options that change how long a view log is retained, and which indexes a batch's state has."""

    retain_ms: int = 0
    indexes: tuple[str, ...] = ()


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of a planned view job."""

    view_id: str
    tuning: WriteTuning = WriteTuning()


def read_options(options: Mapping[str, Any]) -> ReadOptions:
    """Return the typed options of a planned read."""
    return codec.convert(options, ReadOptions)


def write_options(options: Mapping[str, Any]) -> WriteOptions:
    """Return the typed options of a planned view job."""
    return codec.convert(options, WriteOptions)
