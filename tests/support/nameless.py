"""A process whose user id has no entry in the system's list of users, as in some containers."""

from __future__ import annotations

import subprocess

NAMELESS = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
"""What stands before a command that such a user runs."""


def can_be_nameless() -> bool:
    """Tell whether the machine lets a process be that."""
    try:
        return subprocess.run([*NAMELESS, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
