"""A path as a user writes it → where it is on this machine; the folders that a user has, if there is a home."""

from __future__ import annotations

import os
from pathlib import Path

from sinkql.errors import SinkqlError

_NOWHERE = Path(os.devnull, "sinkql")


def in_project(path: str, project: Path) -> Path:
    """Return where a path is that an item of a catalog has: a relative one begins in the project's folder.

    `project` is the one of the catalog (`sinkql.catalog.address.project_of`), wherever the process works. Raises SQ4157
    as `expand_home` does.
    """
    return project / expand_home(path)


def expand_home(path: str) -> Path:
    """Return a path whose `~`, or `~user`, is the home of that user; raises SQ4157 where there is none."""
    if not path.startswith("~"):
        return Path(path)
    user, slash, rest = path.partition("/")
    found = os.path.expanduser(user)
    if not os.path.isabs(found):
        raise SinkqlError(
            "SQ4157",
            f'"{user}" in path "{path}" is no folder here: the user has no home',
            hint="Write the whole path, or set HOME to the folder that ~ stands for."
            if user == "~"
            else f"Write the whole path; a file whose name begins with ~ is ./{path}.",
        )
    return Path(found, rest) if slash else Path(found)


def home_folder() -> Path | None:
    """Return the user's home; None for a user without one, as in some containers."""
    found = os.path.expanduser("~")
    return Path(found) if os.path.isabs(found) else None


def cache_folder() -> Path:
    """Return where what can be made again is kept for the next process.

    For a user without a home it is one that nobody can make: whoever tries gets an OSError, as of a disk that is full.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # the specification has others left out: they would be made wherever a process works
        return Path(named, "sinkql")
    own = home_folder()
    return _NOWHERE if own is None else own / ".cache" / "sinkql"
