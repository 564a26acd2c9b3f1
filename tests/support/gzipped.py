"""Write rows to compressed files that count as large, so that tasks of Spark read them if EXECUTION is SPARK.

The driver reads files of up to a megabyte itself. The size of a compressed file is estimated from its bytes, so its
first line ends with white space that does not compress well.
"""

from __future__ import annotations

import gzip
import random
from functools import cache
from pathlib import Path

_CHARACTERS = 1_000_000
"""Characters with one bit of information each."""


@cache
def _padding() -> str:
    return "".join(random.Random(1).choices(" \t", k=_CHARACTERS))


def write_gzipped(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.part")
    first, newline, rest = text.partition("\n")
    part.write_bytes(gzip.compress(f"{first}{_padding()}{newline}{rest}".encode(), 1, mtime=0))
    part.rename(path)
