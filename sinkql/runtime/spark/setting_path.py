"""Spark's settings of a cluster → the same, with the relative paths that the driver opens made whole.

Spark would have them begin where the process works.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

_LISTED = (
    *("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles"),
    *("spark.yarn.dist.jars", "spark.yarn.dist.files", "spark.yarn.dist.archives"),
)
"""Files that are handed out, with commas between; what stands after # is their name there."""
_SINGLE = (
    *("spark.eventLog.dir", "spark.metrics.conf", "spark.scheduler.allocation.file", "spark.kerberos.keytab"),
    *("spark.authenticate.secret.driver.file", "spark.kubernetes.executor.podTemplateFile"),
)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def with_absolute_paths(conf: Mapping[str, str], path: Callable[[str], Path]) -> dict[str, str]:
    """Return the settings; `path` tells where a path is."""
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
