"""Read all entries of a key index."""

from __future__ import annotations

from pathlib import Path

from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.run import Entries, merge, open_run


def live_entries(index: Index, folder: Path) -> Entries:
    """Return all live keys of all runs, sorted."""
    return merge([Entries.none(), *(open_run(folder / run.name) for run in index.runs)], keep_tombstones=False)
