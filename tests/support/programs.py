"""The system programs that tests need; as a script, it installs the missing ones if it has the rights.

    python3 tests/support/programs.py

It runs before anything is installed, and needs only Python. It never fails: tests whose programs are missing are
skipped, and `pytest` lists them at its end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {
    "less": "less",
    "mariadbd": "mariadb-server",
    "strace": "strace",
    "systemd-analyze": "systemd",
    "tmux": "tmux",
    "unshare": "util-linux",
}
"""Debian's packages, by program."""
_OTHERS = {
    "dnf": ("dnf install", {}),
    "zypper": ("zypper install", {"mariadb-server": "mariadb"}),
    "pacman": ("pacman -S", {"mariadb-server": "mariadb"}),
    "apk": ("apk add", {"mariadb-server": "mariadb"}),
    "brew": ("brew install", {"mariadb-server": "mariadb"}),
}
"""The install commands of other systems, and their different names of packages."""
_APT = ("apt-get", "-qq", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30")
_INSTALL = (*_APT, "install", "--yes", "--no-install-recommends")
_ADMINISTRATION = "/usr/local/sbin:/usr/sbin:/sbin"
"""Folders that are missing from some users' PATH."""


def path(program: str) -> str | None:
    """Return the path of a program; None if it is not installed."""
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{_ADMINISTRATION}")


def need(program: str) -> str:
    """Return the path of a program; skip the test, or all tests of a fixture, if it is not installed."""
    found = path(program)
    if found is None:
        import pytest  # the script runs without it

        package = PACKAGES.get(program, program)
        pytest.skip(f"{program} is not installed: Debian's package {package} has it")
    return found


def main() -> None:
    missing = _missing()
    if not missing:
        return
    packages = sorted(PACKAGES[each] for each in missing)
    print(f"tests need {', '.join(missing)}, which this machine does not have", flush=True)
    if shutil.which("apt-get") is None:
        print(f"install them with: {_command(packages)}")
    else:
        _install(packages)
    left = _missing()
    if left:
        print(f"tests that need {', '.join(left)} are left out, and listed at the end", flush=True)


def _missing() -> list[str]:
    return [each for each in PACKAGES if path(each) is None]


def _command(packages: list[str]) -> str:
    """Return the command that installs Debian's packages on another system."""
    for program, (command, names) in _OTHERS.items():
        if shutil.which(program) is not None:
            return " ".join([command, *(names.get(each, each) for each in packages)])
    return f"the packages of your system that are called {', '.join(packages)} in Debian"


def _install(packages: list[str]) -> None:
    """Install Debian's packages, or print how to."""
    rights = _rights()
    if rights is None:
        print(f"install them as root with: apt-get install {' '.join(packages)}")
        return
    print(f"installing {', '.join(packages)} with apt-get", flush=True)
    _run([*rights, *_APT, "update"])  # if this fails, the lists on this machine may suffice
    problem = _run([*rights, *_INSTALL, *packages])
    if problem and len(packages) > 1:
        problem = "".join(_run([*rights, *_INSTALL, each]) for each in packages)
    if problem:
        print(f"apt-get cannot install all of them:\n{problem}", end="")


def _rights() -> list[str] | None:
    """Return a prefix that runs a command as root; None if that needs a password and no terminal can ask."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    if sys.stdin is not None and sys.stdin.isatty():
        return ["sudo"]
    allowed = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    return ["sudo", "-n"] if allowed else None


def _run(command: list[str]) -> str:
    """Run a command of apt; return the last lines of its output if it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    return "".join(f"  {line}\n" for line in done.stdout.splitlines()[-3:]) if done.returncode else ""


if __name__ == "__main__":
    main()
