"""The environment → the Java that Spark will run on, and whether it will do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from sinkql.errors import SinkqlError

_JAVA = 17
_PATIENCE_SECONDS = 600.0  # a second's work, on a machine that may have no time
_JAVA_HINT = "Install a Java 17 runtime, such as Debian's openjdk-17-jre-headless, or point JAVA_HOME to one."


def check_java() -> str:
    """Return the path of the Java that Spark will run on; raises SQ4001 (none, or none that runs), SQ4002 (too old)."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise SinkqlError("SQ4001", "Spark needs Java, and none was found", hint=_JAVA_HINT)
    try:
        shown = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SinkqlError(
            "SQ4001",
            "Spark needs Java, and the one that was found does not run",
            detail=f"{java}: {error}",
            hint=_JAVA_HINT,
        ) from error
    found = re.search(r'version "(?:1\.)?(\d+)', shown)
    if found is None or int(found[1]) < _JAVA:
        version = found[1] if found else shown.strip()
        raise SinkqlError("SQ4002", f"Spark needs Java {_JAVA} or newer, found {version}", detail=java, hint=_JAVA_HINT)
    return java


def modules(java: str) -> frozenset[str]:
    """Return the names of the modules that a Java has; none if it does not tell."""
    try:
        shown = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(line.partition("@")[0] for line in shown.splitlines())
