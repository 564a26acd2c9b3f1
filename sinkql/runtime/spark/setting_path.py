"""Make relative paths in a cluster's Spark settings absolute, for files that the driver opens.

Spark would resolve them in the working directory of the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

_LISTED = (
    *("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles"),
    *("spark.yarn.dist.jars", "spark.yarn.dist.files", "spark.yarn.dist.archives"),
)
"""Lists of files to distribute, separated by commas; the part after # is a file's name there."""
_SINGLE = (
    *("spark.eventLog.dir", "spark.metrics.conf", "spark.scheduler.allocation.file", "spark.kerberos.keytab"),
    *("spark.authenticate.secret.driver.file", "spark.kubernetes.executor.podTemplateFile"),
)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def with_absolute_paths(conf: Mapping[str, str], path: Callable[[str], Path]) -> dict[str, str]:
    """Return the settings with absolute paths; `path` resolves a path."""
    found = dict(conf)
    for name in found.keys() & {*_LISTED}:
        found[name] = ",".join(_whole(each.strip(), path) for each in conf[name].split(","))
    for name in found.keys() & {*_SINGLE}:
        found[name] = _whole(conf[name], path)
    return found


def _whole(value: str, path: Callable[[str], Path]) -> str:
    if not value or value.startswith("#") or _URI.match(value):
        return value
    file, sharp, name = value.partition("#")
    return f"{path(file)}{sharp}{name}"
