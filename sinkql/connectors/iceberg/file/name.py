"""Names of a sink's files: which sink, epoch and attempt wrote them, and whether anew."""

from __future__ import annotations

import re

_LETTERS = {False: "c", True: "f"}


def rewritten_name(sink: str, epoch: int, attempt: str, number: int, *, foreign: bool = False) -> str:
    """Return the name of a file of rows that were in the table before; `foreign` rows are not the sink's."""
    return f"{_LETTERS[foreign]}{number}-{sink}-{epoch}-{attempt}.parquet"


def has_rows_of(path: str, sink: str) -> bool:
    """Tell whether a data file holds rows that the sink wrote; a compaction keeps them apart from others'."""
    return re.fullmatch(rf"[bc]\d+-{re.escape(sink)}-\d+-.+\.parquet", path.rpartition("/")[2]) is not None
