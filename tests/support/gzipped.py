"""Write rows to compressed files, which Spark tasks always read; small uncompressed files are read by the driver."""

from __future__ import annotations

import gzip
from pathlib import Path


def write_gzipped(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(gzip.compress(text.encode(), mtime=0))
    part.rename(path)
