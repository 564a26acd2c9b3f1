"""An error → data for a program, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkql.errors.error import SinkqlError
from sinkql.errors.place import line_and_column


def as_data(error: SinkqlError) -> dict[str, Any]:
    """Return the error as JSON-able data with the same content as its text."""
    data: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.path:
        data["path"] = error.path
    if error.span is not None and error.text is not None:
        line, column = line_and_column(error.text, error.span.start)
        data |= {"line": line, "column": column, "start": error.span.start, "end": error.span.end}
    if error.detail:
        data["detail"] = error.detail
    if error.hint:
        data["hint"] = error.hint
    data["retryable"] = error.retryable
    return data


def from_data(data: Mapping[str, Any]) -> SinkqlError:
    """Return the error that `as_data` took apart, without the text it points into."""
    return SinkqlError(
        data["code"], data["message"], detail=data.get("detail"), hint=data.get("hint"), path=data.get("path")
    )
