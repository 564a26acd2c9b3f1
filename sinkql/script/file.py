"""Paths → scripts: their text, and the files of a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from sinkql.errors import SinkqlError


def read_script(path: Path) -> str:
    """Return a script's text, that of standard input for `-`.

    Raises SQ4010 where it cannot be read, SQ1010 where it is not UTF-8.
    """
    standard_input = str(path) == "-"
    try:
        return (sys.stdin.buffer.read() if standard_input else path.read_bytes()).decode()
    except OSError as error:
        raise SinkqlError(
            "SQ4010", f'cannot read "{path}": {error.strerror}', hint="Name a file of SQL, or - for standard input."
        ) from error
    except UnicodeDecodeError as error:
        raise SinkqlError(
            "SQ1010",
            f"invalid UTF-8 at byte {error.start}",
            path=None if standard_input else str(path),
            hint="Encode the input as UTF-8." if standard_input else "Save the file as UTF-8.",
        ) from error


def script_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that paths name: of a folder all that end in .sql, below it too, in the order of their names.

    Raises SQ4017 for a folder that has none.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*.sql"))
            if not inside:
                raise SinkqlError(
                    "SQ4017", f'folder "{path}" has no .sql files', hint="Name a folder of SQL, or files."
                )
            found.extend(inside)
        else:
            found.append(path)
    return found
