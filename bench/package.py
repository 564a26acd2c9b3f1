"""Measure the archives for the executors of a cluster: their size, and the CPU of packing, unpacking and importing.

    python -m bench.package

One archive has the installed packages. A second one has the packages installed in editable mode, as in a checkout.
Spark unpacks them in Java, once in the driver and once in each executor. An executor's first Python process then
imports SinkQL.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from bench.common import HOME, show
from sinkql.runtime.spark import package
from sinkql.runtime.spark.session import HOME as SPARK

_UNPACK = """
var thread = java.lang.management.ManagementFactory.getThreadMXBean();
var from = thread.getCurrentThreadCpuTime();
org.apache.hadoop.fs.FileUtil.unZip(new java.io.File("{archive}"), new java.io.File("{folder}"));
System.out.printf(java.util.Locale.ROOT, "CPU %.2f%n", (thread.getCurrentThreadCpuTime() - from) / 1e9);
/exit
"""


def main() -> None:
    work = HOME / "package"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    os.environ["XDG_CACHE_HOME"] = str(work)
    first = _cpu(package.cached_archives)
    again = _cpu(package.cached_archives)
    rows = [["", "files", "MB", "MB unpacked", "CPU s to unpack"]]
    folders = []
    for path in sorted(package.cached_archives()):
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        folders.append(work / path.stem)
        unpacked = sum(entry.file_size for entry in entries)
        name = "SinkQL" if any(entry.filename == "sinkql/__init__.py" for entry in entries) else "packages"
        sizes = (f"{path.stat().st_size / 1e6:.0f}", f"{unpacked / 1e6:.0f}")
        rows.append([name, str(len(entries)), *sizes, f"{_unpacked(path, folders[-1]):.1f}"])
    show(rows)
    print(f"made in {first:.1f} CPU-s, found again in {again:.1f}, imported in {_imported(folders):.1f}")
    shutil.rmtree(work)


def _cpu(function: Callable[[], object]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


def _unpacked(archive: Path, folder: Path) -> float:
    classes = os.pathsep.join(map(str, sorted((SPARK / "jars").glob("*.jar"))))
    shell = ["jshell", "--class-path", classes, "-s", "-"]
    told = subprocess.run(
        shell, input=_UNPACK.format(archive=archive, folder=folder), capture_output=True, text=True, check=True
    )
    return float(told.stdout.rpartition("CPU ")[2])


def _imported(folders: list[Path]) -> float:
    """Return the CPU seconds of importing what tasks need, from the archives and pyspark alone."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    place = os.pathsep.join([*map(str, folders), *map(str, (SPARK / "python" / "lib").glob("*.zip"))])
    subprocess.run(
        [Path(sys.base_prefix) / "bin" / "python3", "-c", "import sinkql.runtime.spark.daemon"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": place},
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
