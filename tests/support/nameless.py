"""A process whose user id has no entry in the system's list of users, as in some containers."""

from __future__ import annotations

import subprocess

NAMELESS = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
"""The prefix of a command that runs as this user."""


def can_be_nameless() -> bool:
    """Return whether the machine allows user namespaces with this user id."""
    try:
        return subprocess.run([*NAMELESS, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
