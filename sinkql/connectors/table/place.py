"""A table's id → the file that holds its rows."""

from __future__ import annotations

from pathlib import Path

from sinkql.errors import SinkqlError

FOLDER = "tables"


def table_path(catalog_folder: Path, table_id: str | None, name: str) -> Path:
    """Return a table's file below the folder of its catalog; SQ3422 for a table that is in no catalog."""
    if table_id is None:
        raise SinkqlError(
            "SQ3422",
            f'table "{name}" was compiled, not created: it has no rows to read',
            hint="Run CREATE TABLE with sinkql exec, and run the sink from that catalog.",
        )
    return catalog_folder / FOLDER / f"{table_id}.db"
