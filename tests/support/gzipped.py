"""Rows in compressed files, which tasks of Spark read, however few: small files that are not are read by the driver."""

from __future__ import annotations

import gzip
from pathlib import Path


def write_gzipped(path: Path, text: str) -> None:
    """Write a file, which is there at once and whole."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(gzip.compress(text.encode(), mtime=0))
    part.rename(path)
