"""The server's programs are in a folder where the server's user may run them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support import postgres


@pytest.mark.skipif(os.geteuid() != 0, reason="tests that do not run as root start servers as themselves")
def test_programs_in_a_folder_of_root_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    packages = postgres.BINARIES.parents[2]
    (home / "packages").symlink_to(packages)
    monkeypatch.setattr(postgres, "BINARIES", home / "packages" / postgres.BINARIES.relative_to(packages))
    with pytest.raises(PermissionError):
        subprocess.run([postgres.BINARIES / "initdb", "--version"], check=False, **postgres.as_server())
    found = postgres.binaries.__wrapped__()
    assert found != postgres.BINARIES
    for program in ("initdb", "postgres", "pg_basebackup"):
        subprocess.run([found / program, "--version"], check=True, capture_output=True, **postgres.as_server())
