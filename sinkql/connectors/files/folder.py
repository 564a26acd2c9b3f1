"""A folder → the names in it that a source reads, and their status."""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql.errors import SinkqlError

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


@dataclass(frozen=True, slots=True)
class Folder:
    """List the files of one source. `path` may be a single file; names that begin with . or _ are left out."""

    path: Path
    pattern: str
    recursive: bool

    def file(self, name: str) -> Path:
        """Return where a listed file lies."""
        return self.path if self.path.is_file() else self.path / name

    def names(self, known: Mapping[str, int] | None = None) -> Iterator[tuple[str, int]]:
        """Yield each name with its inode, less those that `known` has with the same inode.

        This asks nothing about a file that the folder itself does not tell. Raises SQ3304 where the folder cannot be
        listed.
        """
        known = known or {}
        try:
            if self.path.is_file():
                yield self.path.name, -1
                return
            yield from self._below(self.path, "", known, frozenset())
        except OSError as error:
            raise UnreadableError(
                "SQ3304",
                f'cannot list "{self.path}": {error.strerror}',
                hint="Create the folder or correct its permissions; the sink continues where it stopped.",
            ) from error

    def stamps(self, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, int, int, int] | None]]:
        """Yield each file's size, times and inode, None where `status` has to say what is the matter."""
        single = self.path.is_file()
        for name in names:
            try:
                found = os.stat(self.path if single else f"{self.path}/{name}")  # a tenth of Path's cost
            except OSError:
                yield name, None
                continue
            yield name, (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a file, None where it was removed meanwhile; raises SQ3305 for what is not a file."""
        path = self.file(name)
        found = regular(path)
        if found is None:
            return None
        if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise unreadable(path, "its name is not UTF-8")
        return found

    def _below(
        self, folder: Path, prefix: str, known: Mapping[str, int], above: frozenset[tuple[int, int]]
    ) -> Iterator[tuple[str, int]]:
        own = folder.stat()
        if (own.st_dev, own.st_ino) in above:
            return  # a link to a folder that it lies in
        with os.scandir(folder) as entries:
            for entry in entries:
                name, inode = prefix + entry.name, entry.inode()
                if known.get(name) == inode or name[len(prefix)] in "._":
                    continue
                if _folder(entry):
                    if self.recursive:
                        yield from self._below(Path(entry.path), f"{name}/", known, above | {(own.st_dev, own.st_ino)})
                elif fnmatch.fnmatchcase(entry.name, self.pattern):
                    yield name, inode


def _folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link in a circle, say: `status` tells what it is


def regular(path: Path) -> os.stat_result | None:
    """Return the status of a regular file, None where there is none; raises SQ3305 for what is not one."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        if not path.is_symlink():
            return None
        raise unreadable(path, "it is a link to a file that does not exist") from error
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise unreadable(path, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'not a regular file')}")
    return found


class UnreadableError(SinkqlError):
    """Say that a folder, or what lies in it, cannot be read."""


def unreadable(path: Path, why: str) -> UnreadableError:
    """Return the error for what lies in the folder and cannot be read."""
    return UnreadableError(
        "SQ3305",
        f'cannot read "{_shown(path)}": {why}',
        hint="Correct or move it, or leave it out by GLOB; names that begin with . or _ are not read. "
        "The sink then continues.",
    )


def _shown(path: Path) -> str:
    return str(path).encode(errors="backslashreplace").decode()
