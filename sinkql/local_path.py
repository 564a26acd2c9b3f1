"""Resolve paths that a user writes, and find the user's home and cache folders."""

from __future__ import annotations

import os
from pathlib import Path

from sinkql.errors import SinkqlError

_NOWHERE = Path(os.devnull, "sinkql")


def in_project(path: str, project: Path) -> Path:
    """Resolve a path of a catalog item; a relative path begins in the project's folder.

    `project` is the project of the catalog (`sinkql.catalog.address.project_of`), whatever the working folder is.
    Raises SQ4157 like `expand_home`.
    """
    return project / expand_home(path)


def expand_home(path: str) -> Path:
    """Replace a leading `~` or `~user` by the home of that user; raise SQ4157 if the user has none."""
    if not path.startswith("~"):
        return Path(path)
    user, slash, rest = path.partition("/")
    home = os.path.expanduser(user)
    if not os.path.isabs(home):
        raise SinkqlError(
            "SQ4157",
            f'"{user}" in path "{path}" is no folder here: the user has no home',
            hint="Write the whole path, or set HOME to the folder that ~ stands for."
            if user == "~"
            else f"Write the whole path; a file whose name begins with ~ is ./{path}.",
        )
    return Path(home, rest) if slash else Path(home)


def home_folder() -> Path | None:
    """Return the user's home; None if the user has none, as in some containers."""
    home = os.path.expanduser("~")
    return Path(home) if os.path.isabs(home) else None


def cache_folder() -> Path:
    """Return the folder for files that a later process can use and any process can create again.

    Without a home, the folder cannot be created, so that writing raises OSError as on a full disk.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # the XDG specification says to ignore relative paths
        return Path(named, "sinkql")
    home = home_folder()
    return _NOWHERE if home is None else home / ".cache" / "sinkql"
