"""A folder → its files, and the log of those that were seen: immutable segments named by their hash."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from sinkql.errors import SinkqlError

_SETTLE_NS = 1_000_000_000
_EDGE = 4096


@dataclass(frozen=True, slots=True)
class SeenFile:
    """Hold a file as it was when it was listed: its name below the source's folder, size, time and fingerprint."""

    name: str
    size: int
    mtime_ns: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Folder:
    """List the files of one source. `path` may be a single file; names that begin with . or _ are left out."""

    path: Path
    pattern: str
    recursive: bool

    def file(self, name: str) -> Path:
        """Return where a listed file lies."""
        return self.path if self.path.is_file() else self.path / name

    def names(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield every file with its status; raises SQ3304 where the folder cannot be listed."""
        try:
            if self.path.is_file():
                yield self.path.name, self.path.stat()
                return
            yield from self._below(self.path, "")
        except OSError as error:
            raise SinkqlError(
                "SQ3304",
                f'cannot list "{self.path}": {error.strerror}',
                hint="Create the folder, or mend its permissions; the sink goes on where it stopped.",
            ) from error

    def _below(self, folder: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith((".", "_")):
                    continue
                if entry.is_dir():
                    if self.recursive:
                        yield from self._below(Path(entry.path), f"{prefix}{entry.name}/")
                elif fnmatch.fnmatchcase(entry.name, self.pattern):
                    yield prefix + entry.name, entry.stat()

    def new(self, seen: dict[str, SeenFile], *, settled: bool) -> list[SeenFile]:
        """Return the files that were not seen yet, by name; with `settled` only those that nobody just wrote to.

        Raises SQ3301 for a file that changed since it was seen.
        """
        before = time.time_ns() - _SETTLE_NS
        found = []
        for name, status in self.names():
            known = seen.get(name)
            if known is None:
                if not settled or status.st_mtime_ns < before:
                    found.append(SeenFile(name, status.st_size, status.st_mtime_ns, fingerprint(self.file(name))))
            elif (status.st_size, status.st_mtime_ns) != (known.size, known.mtime_ns):
                self.check(known)
        return sorted(found, key=lambda file: file.name)

    def check(self, file: SeenFile) -> Path:
        """Return where a seen file lies; raises SQ3301 if it is another now, SQ3302 if it is gone."""
        path = self.file(file.name)
        try:
            same = path.stat().st_size == file.size and fingerprint(path) == file.fingerprint
        except FileNotFoundError as error:
            raise SinkqlError(
                "SQ3302", f'file "{path}" is gone before it was read', hint="Put it back; the sink goes on."
            ) from error
        if not same:
            raise SinkqlError(
                "SQ3301",
                f'file "{path}" changed after it was listed',
                detail=f"It had {file.size} bytes, and has {path.stat().st_size} now.",
                hint="A file's name stands for its content: put the old file back, and the new rows into a new file.",
            )
        return path


def fingerprint(path: Path) -> str:
    """Return a hash of a file's first and last 4 KiB and its size: a cheap witness that it is the same file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_EDGE))
        if size > _EDGE:
            file.seek(max(_EDGE, size - _EDGE))
            digest.update(file.read(_EDGE))
    digest.update(str(size).encode())
    return digest.hexdigest()[:16]


def write_segment(folder: Path, files: Iterable[SeenFile]) -> str:
    """Keep a segment of the log durably and return its name; the same files give the same name."""
    data = "".join(json.dumps(asdict(file), sort_keys=True) + "\n" for file in files).encode()
    name = f"files-{hashlib.sha256(data).hexdigest()[:24]}.jsonl"
    path = folder / name
    if path.exists():
        return name
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{name}.{os.getpid()}"
    with partial.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
    return name


def read_segment(folder: Path, name: str) -> list[SeenFile]:
    """Return a segment's files; raises SQ3303 where it is missing or not what its name says."""
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise _lost(name) from error
    if name != f"files-{hashlib.sha256(data).hexdigest()[:24]}.jsonl":
        raise _lost(name)
    return [SeenFile(**json.loads(line)) for line in data.splitlines()]


def _lost(name: str) -> SinkqlError:
    return SinkqlError(
        "SQ3303",
        f'the list of files that were read, "{name}", is missing or damaged',
        hint="Put the sink's state folder or the table's folder back; both hold a copy.",
    )
