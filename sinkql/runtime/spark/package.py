"""SinkQL and the packages that it needs, as they are installed here → an archive that executors of a cluster unpack.

It is a zip of what stands in `site-packages`, which works wherever it lies: a cluster's own Python, of the same
version, finds it by its path. What executors have themselves, or never import, is left out.
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
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sinkql import durable
from sinkql.errors import SinkqlError
from sinkql.extension.registry import GROUP

_OWN = "sinkql"
_THEIRS = frozenset({"pyspark", "py4j"})
"""What each executor of a Spark cluster has."""
_UNUSED_FOLDERS = frozenset({"tests", "include", "__pycache__"})
_UNUSED = (".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx", ".c", ".cpp", ".a")
_UNUSED_LIBRARIES = ("flight",)
_KEPT = 3
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEVEL = 1  # the next ones take twice the time for a tenth less

Files = Mapping[str, Path]
"""Files by their places in the archive."""


def python_version() -> str:
    """Return the version that a Python must have to run what is packed here."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def packed() -> Path:
    """Return the archive of what is installed here, out of the cache folder; it is made if it is not there.

    Raises SQ4053.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(caches) / "sinkql"
    files = _files()
    path = folder / f"package-{python_version()}-{_digest(files)}.zip"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, files)
        _sweep(folder)
    with suppress(OSError):
        os.utime(path)  # the last few that were used are kept
    return path


def pack(path: Path) -> None:
    """Write the archive of what is installed here; raises OSError and SQ4053."""
    _write(path, _files())


def _write(path: Path, files: Files) -> None:
    with (
        durable.replacing(path, mode=0o644) as draft,
        zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive,
    ):
        for name in sorted(files):
            data = files[name].read_bytes()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, _LEVEL)
            if name.endswith(".py"):
                compiled = _compiled(files[name], name, data)
                if compiled is not None:
                    place = importlib.util.cache_from_source(name)
                    archive.writestr(zipfile.ZipInfo(place, _EPOCH), compiled, zipfile.ZIP_DEFLATED, _LEVEL)


def _compiled(path: Path, name: str, source: bytes) -> bytes | None:
    """Return the module as Python compiles it, marked as one that needs no look at its source's time.

    None for a source that does not compile, as those of templates.
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


def _files() -> Files:
    found: dict[str, Path] = {}
    for each in _distributions():
        if canonicalize_name(each.name) not in _THEIRS:
            found.update(_files_of(each))
    return found


def _distributions() -> Iterator[Distribution]:
    """Yield SinkQL, packages of connectors, and all that they need; of optional ones those that are here."""
    wanted = [Requirement(_OWN)]
    wanted += [Requirement(each.dist.name) for each in entry_points(group=GROUP) if each.dist is not None]
    seen: set[tuple[str, frozenset[str]]] = set()
    yielded: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
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
        if _used(PurePosixPath(file)):
            path = Path(str(found.locate_file(file)))
            if path.is_file():
                yield str(file), path
    if _editable(found):
        for package in _packages_of(found):
            yield from _tree(package)


def _editable(found: Distribution) -> bool:
    told = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(told.get("dir_info", {}).get("editable"))


def _packages_of(found: Distribution) -> Iterator[Path]:
    """Yield the folders, or modules, of a package that is installed as a link to where it is written."""
    if canonicalize_name(found.name) == _OWN:
        names = {_OWN}
    else:
        names = {each.module.partition(".")[0] for each in found.entry_points if each.group == GROUP}
        names = names or {found.name.replace("-", "_")}
    for name in sorted(names):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SinkqlError(
                "SQ4053",
                f'the modules of package "{found.name}" cannot be packed',
                hint="It is installed in editable mode: install it without.",
            )
        origin = Path(spec.origin)
        yield origin.parent if spec.submodule_search_locations else origin


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
    left_out = _UNUSED_FOLDERS.intersection(file.parts) or file.suffix in (*_UNUSED, ".pth") or library
    return not left_out and file.parts[0] != ".." and not file.is_absolute()


def _digest(files: Files) -> str:
    """Return a digest of what is packed: files of installed packages never change, those of editable ones do."""
    digest = hashlib.sha256(sys.version.encode())
    for name in sorted(files):
        status = files[name].stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _sweep(folder: Path) -> None:
    """Delete all but the last few that were used."""
    with suppress(OSError):
        found = sorted(folder.glob("package-*.zip"), key=lambda path: path.stat().st_mtime)
        for path in found[:-_KEPT]:
            path.unlink(missing_ok=True)
