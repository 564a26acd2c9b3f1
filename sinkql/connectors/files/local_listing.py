"""A folder → the names in it that a source reads, and their status.

The folders that a listing went through → whether it would find the same names now, without listing them again.

A folder gets another time of change with each name that comes, goes or is replaced, and nobody can set that time back.
Within a tick of the clock two changes have one time, so a folder counts once it was left alone for a while. File
systems of networks and of FUSE may keep no such time, or tell an old one: their folders are always listed.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sinkql.connectors.files.content import SeenFile, UnreadableError, open_file, seen_file, unreadable

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

    @property
    def pinned(self) -> bool:
        """Tell that files can be rewritten while they are read."""
        return False

    def shown(self, name: str) -> str:
        """Return what messages call a file."""
        return str(self.file(name))

    def open(self, file: SeenFile) -> BinaryIO:
        """Open a file; raises SQ3302 where it is gone, SQ3305 where it cannot be read."""
        return open_file(self.file(file.name))

    def now(self, stream: BinaryIO, file: SeenFile) -> SeenFile:
        """Return a file that is open as it is now, with the same parts."""
        return seen_file(file.name, os.fstat(stream.fileno()), file.parts)

    def difference(self, file: SeenFile) -> str:
        """Return what is different about a file now."""
        return _difference(self.file(file.name), file)

    def names(
        self, known: Mapping[str, int] | None = None, visited: VisitedFolders | None = None
    ) -> Iterator[tuple[str, int]]:
        """Yield each name with its inode, less those that `known` has with the same inode.

        This asks nothing about a file that the folder itself does not tell. `visited` gets the folders. Raises SQ3304
        where the folder cannot be listed.
        """
        known = known or {}
        try:
            if self.path.is_file():
                yield self.path.name, -1
                return
            yield from self._below(self.path, "", known, frozenset(), visited)
        except OSError as error:
            raise UnreadableError(
                "SQ3304",
                f'cannot list "{self.path}": {error.strerror}',
                hint="Create the folder, or correct its permissions: the sink continues where it stopped. "
                "If PATH is wrong, correct it in the script, and run sinkql apply with all scripts.",
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

    def files(self) -> list[SeenFile]:
        """Return the files that are there now, by name; raises what `names` and `status` do."""
        found = ((name, self.status(name)) for name in sorted(name for name, _ in self.names()))
        return [seen_file(name, status) for name, status in found if status is not None]

    def _below(
        self,
        folder: Path,
        prefix: str,
        known: Mapping[str, int],
        above: frozenset[tuple[int, int]],
        visited: VisitedFolders | None,
    ) -> Iterator[tuple[str, int]]:
        own = folder.stat()
        if (own.st_dev, own.st_ino) in above:
            return  # a link to a folder that it lies in
        if visited is not None:
            visited.add(folder, own)
        with os.scandir(folder) as entries:
            for entry in entries:
                name, inode = prefix + entry.name, entry.inode()
                if visited is not None and entry.is_symlink():
                    visited.link()
                if known.get(name) == inode or name[len(prefix)] in "._":
                    continue
                if _folder(entry):
                    if self.recursive:
                        inside = above | {(own.st_dev, own.st_ino)}
                        yield from self._below(Path(entry.path), f"{name}/", known, inside, visited)
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


def _difference(path: Path, file: SeenFile) -> str:
    try:
        status = path.stat()
    except OSError as error:
        return f"It cannot be looked at now: {error.strerror}."
    if status.st_size != file.size:
        return f"It had {file.size} bytes, and has {status.st_size} now."
    how = "it was replaced by another file" if status.st_ino != file.inode else "it was rewritten in place"
    before, now = (_time(each) for each in (file.mtime_ns, status.st_mtime_ns))
    when = f"last modified {before} when it was listed, and {now} now" if before != now else f"last modified {now}"
    return f"It has {file.size} bytes as before, but other ones: {how}; {when}."


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 1000 / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


_KEEP_TIMES = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
_TICK_NS = 2_000_000_000
_MOUNTS = Path("/proc/self/mountinfo")

Stamp = tuple[int, int, int, int]


class VisitedFolders:
    """The folders that one listing goes through, as they are just before it."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._folders: dict[str, Stamp] = {}
        self._linked = False

    def add(self, folder: Path, status: os.stat_result) -> None:
        """Take a folder in that is listed next."""
        self._folders[str(folder)] = _stamp(status)

    def link(self) -> None:
        """Say that there is a link: what it leads to may change, and its folder does not."""
        self._linked = True

    def settled(self) -> bool:
        """Tell whether the folders can be compared later."""
        changed = max((stamp[3] for stamp in self._folders.values()), default=self._began)
        devices = {stamp[0]: folder for folder, stamp in self._folders.items()}
        return (
            not self._linked
            and changed < self._began - _TICK_NS
            and all(_keeps_times(folder, device) for device, folder in devices.items())
        )

    def unchanged(self) -> bool:
        """Tell whether the folders are as they were."""
        try:
            return all(_stamp(os.stat(folder)) == stamp for folder, stamp in self._folders.items())
        except OSError:
            return False


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _keeps_times(folder: str, device: int) -> bool:
    """Tell whether the file system of a folder is known to keep times of change.

    What is mounted tells it by its device, since a mount may lie hidden below another one; but the subvolumes of btrfs
    have devices of their own, so there the place has to do.
    """
    mounts, path = _mounts(), Path(os.path.realpath(folder))
    types = {mount.type for mount in mounts if mount.device == device}
    if types:
        return types <= set(_KEEP_TIMES)
    above = [mount for mount in mounts if path.is_relative_to(mount.place)]
    return bool(above) and max(above, key=lambda mount: len(mount.place)).type == "btrfs"


class _Mount(NamedTuple):
    place: str
    type: str
    device: int


def _mounts() -> Sequence[_Mount]:
    """Return what is mounted; of two mounts at one place the last one counts, and comes first."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ()
    return [_mount(line.split(" ")) for line in reversed(lines)]


def _mount(fields: Sequence[str]) -> _Mount:
    major, minor = fields[2].split(":")
    return _Mount(_plain(fields[4]), fields[fields.index("-", 6) + 1], os.makedev(int(major), int(minor)))


def _plain(path: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), path)
