"""The archive of Spark's classes in the cache folder, which Java maps instead of reading jars.

The first Spark that starts without an archive starts a background process with the lowest priority that makes it
(`class_archive_run`). Java ignores an archive of another Java version or of other jars.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sinkql.local_path import cache_folder
from sinkql.machine import clock

_OFF = "SINKQL_ARCHIVE"
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS")
_OTHERS = ("ArchiveFile", "ArchiveClasses", "Xshare", "agent", "class-path", "classpath", "extraClassPath", "Flight")
"""Java options about archives, or options that exclude archives."""
_KEPT = 3
_ROOM = 2 << 30
_TRY_AGAIN_SECONDS = 24 * 3600.0
_TORN_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive in a file, which may be missing."""

    path: Path

    @property
    def there(self) -> bool:
        """Return whether the archive exists and is readable."""
        return os.access(self.path, os.R_OK)

    @property
    def option(self) -> str:
        """Return Java's option for the archive; empty if it is missing, or if the user has such options."""
        if _others() or not self.there:
            return ""
        with suppress(OSError):
            os.utime(self.path)  # the most recently used archives are kept
        return f"-XX:SharedArchiveFile={self.path}"

    def make(self) -> None:
        """Make the archive in the background, unless it exists, is being made, or could not be made today."""
        if _others() or os.environ.get(_OFF) == "off" or self.there:
            return
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held = self._hold()
            if held is not None:
                self._begin(held)

    def _hold(self) -> int | None:
        """Return the lock of the process that makes the archive; None if another process has it, or has tried today."""
        place = os.statvfs(self.path.parent)
        lock = self.path.with_suffix(".tried")
        tried = lock.exists() and clock.time() < lock.stat().st_mtime + _TRY_AGAIN_SECONDS
        if tried or place.f_bavail * place.f_frsize < _ROOM:
            return None
        held = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            return None
        os.utime(held)
        return held

    def _begin(self, held: int) -> None:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sinkql.runtime.spark.class_archive_run", str(self.path)],
                cwd=self.path.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(held,),
            )
        finally:
            os.close(held)
        threading.Thread(target=process.wait, name="archive", daemon=True).start()


def archive_of(home: Path, spark: Path) -> Archive:
    """Return the archive of the classes that this Java loads for the Spark in that folder."""
    home = home.resolve()
    facts = [str(home), _age(home / "lib" / "modules"), str(spark), _age(spark / "jars")]
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return Archive(cache_folder() / f"spark-{name}.jsa")


def tidy(path: Path) -> None:
    """Delete all but the most recently used archives, and the unfinished files of killed processes."""
    archives = sorted(path.parent.glob("spark-*.jsa"), key=lambda file: file.stat().st_mtime)
    torn = [file for file in path.parent.glob("spark-*.draft") if file.stat().st_mtime < clock.time() - _TORN_SECONDS]
    for archive in (*archives[:-_KEPT], *torn):
        archive.unlink(missing_ok=True)


def _age(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns} {status.st_size}"


def _others() -> bool:
    options = " ".join(os.environ.get(name, "") for name in _VARIABLES)
    return any(other in options for other in _OTHERS)
