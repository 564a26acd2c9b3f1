"""An error → data for a program, and back; or a line of text, from which another process makes it again.

A text may have lines that are anybody's, as those of a row which an error shows: a line has a key that they cannot
know, and is data, and never code.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sinkql.errors.error import SinkqlError, error_codes
from sinkql.errors.span import Span, line_and_column


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


def line_of(error: SinkqlError, key: str) -> str:
    """Return a line that says all of an error, its kind too; `key` is letters and digits."""
    said = {name: value for name, value in vars(error).items() if name != "declared"}
    if error.span is not None:
        said["span"] = [error.span.start, error.span.end]
    data = json.dumps({"kind": type(error).__name__, "said": said}).encode()
    return f"sinkql-error:{key}:{base64.b64encode(data).decode()}"


def error_in(text: str, key: str) -> SinkqlError | None:
    """Return the error of the last line with this key that a text has anywhere; None where there is none."""
    found = None
    for match in re.finditer(rf"sinkql-error:{key}:([A-Za-z0-9+/]+=*)", text):
        found = _read(match[1]) or found
    return found


def _read(line: str) -> SinkqlError | None:
    try:
        data = json.loads(base64.b64decode(line, validate=True))
        kind = {each.__name__: each for each in _below(SinkqlError)}[data["kind"]]
        said = data["said"]
        if said["span"] is not None:
            said["span"] = Span(*said["span"])
        error = kind.__new__(kind, said["message"])
        vars(error).update(said, declared=error_codes[said["code"]])
    except (ValueError, LookupError, TypeError):
        return None
    return error


def _below(kind: type[SinkqlError]) -> Iterator[type[SinkqlError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)
