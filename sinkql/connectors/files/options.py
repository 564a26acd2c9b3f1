"""Convert the planned options of FROM FILES, which a job holds as JSON, to typed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sinkql import codec
from sinkql.connectors.files.content import Compression, Written


class Tuning(msgspec.Struct, frozen=True):
    """Options that change how a source is read, and never its rows."""

    max_files_per_commit: int | None = None


class PlannedFiles(msgspec.Struct, frozen=True):
    """The options of a planned source; `format` has the options of its format, as `Decoding` takes them."""

    path: str
    glob: str
    recursive: bool
    format: dict[str, Any]
    tuning: Tuning = Tuning()
    compression: Compression = "AUTO"
    encoding: str | None = None

    @property
    def written(self) -> Written:
        """Return how the texts of the files are written."""
        return Written(self.compression, self.encoding)


class FormatOptions(msgspec.Struct, frozen=True):
    """The options of a planned format that this package reads itself.

    For JSON, `whole` reads each object into one column, and with `array` a file is one array. For CSV, `names` are the
    header's fields of the columns, and `by_position` ignores the header.
    """

    name: str
    whole: bool = False
    array: bool = False
    header: bool = False
    names: tuple[str, ...] = ()
    by_position: bool = False


def planned_files(options: Mapping[str, Any]) -> PlannedFiles:
    """Return the typed options of a planned source."""
    return codec.convert(options, PlannedFiles)


def format_options(options: Mapping[str, Any]) -> FormatOptions:
    """Return the typed options of a planned format."""
    return codec.convert(options, FormatOptions)
