"""WITH (…) of a source that is captured → how its log is kept, and what becomes of records that do not decode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.extension.capture import Keeping
from sinkql.extension.options import described, option_span

_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class KeepingOptions:
    """The options that each captured source has in its WITH (…)."""

    keep: Literal["server", "log"] | None = described(
        "who keeps the changes that sinks have not committed: server, or log, which frees the server at once",
        default=None,
    )
    max_retained_wal: str | None = described(
        "how much the server keeps before the log does: 10GB, or half of the server's own bound", default=None
    )
    max_log_size: str = described("how much the log holds before it waits for the sinks", default="20GB")
    on_truncate: Literal["APPLY", "FAIL"] = described("what TRUNCATE upstream does to sinks", default="APPLY")
    on_error: Literal["FAIL", "SKIP"] = described("what to do with a row that does not decode", default="FAIL")
    log: str | None = described("another place of the log than the state folder; not supported yet", default=None)


def keeping(
    given: KeepingOptions, written: Sequence[ast.Option], span: Span, *, usual: Literal["server", "log"]
) -> Keeping:
    """Return how a log is kept; `usual` is what keeps changes where KEEP is left out. Raises SQ2103 and SQ2973."""
    if given.log is not None:
        where = option_span(written, "LOG", span)
        raise SinkqlError(
            "SQ2973", "LOG is not supported yet", where, hint="Leave it out: the log is in the catalog's folder."
        )
    retained = given.max_retained_wal
    return Keeping(
        keep=given.keep or usual,
        max_retained=None if retained is None else size(retained, "MAX RETAINED WAL", written, span),
        max_log=size(given.max_log_size, "MAX LOG SIZE", written, span),
        on_truncate="apply" if given.on_truncate == "APPLY" else "fail",
    )


def size(text: str, option: str, written: Sequence[ast.Option], span: Span) -> int:
    """Return how many bytes a text such as `10GB` means; raises SQ2103 at the option."""
    found = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([kmgt]?b)\s*", text.lower())
    bytes_ = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not 0 < bytes_ <= _MOST:
        where = option_span(written, option, span)
        raise SinkqlError(
            "SQ2103", f"option {option} takes a size in B, KB, MB, GB or TB", where, hint=f"Write {option} = '10GB'."
        )
    return bytes_
