"""A path → a script's text."""

from __future__ import annotations

import sys
from pathlib import Path

from sinkql.errors import SinkqlError


def read_script(path: Path) -> str:
    """Return a script's text; raises SQ4010 where it cannot be read, SQ1010 where it is not UTF-8."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_bytes().decode()
    except OSError as error:
        raise SinkqlError(
            "SQ4010", f'cannot read "{path}": {error.strerror}', hint="Name a file of SQL, or - for standard input."
        ) from error
    except UnicodeDecodeError as error:
        raise SinkqlError(
            "SQ1010", f"it is not UTF-8 at byte {error.start}", path=str(path), hint="Save the file as UTF-8."
        ) from error
