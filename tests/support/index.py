"""What a key index knows, all of it at once."""

from __future__ import annotations

from pathlib import Path

from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.run import Entries, merge, open_run


def live_entries(index: Index, folder: Path) -> Entries:
    """Return every live key, sorted, from all runs."""
    return merge([Entries.none(), *(open_run(folder / run.name) for run in index.runs)], keep_tombstones=False)
