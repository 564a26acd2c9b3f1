"""List the names in a folder that a source reads, and decide later whether a listing would find the same names.

A folder gets a new change time with each name that is added, removed or replaced, and no process can set that time
back. Two changes within one tick of the clock have the same time. So a listing is trusted only if the folder was left
alone for a while before it. Network and FUSE file systems may keep no change time, or report an old one: their folders
are always listed.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sinkql.connectors.files.content import SeenFile, UnreadableError, open_file, seen_file, unreadable
from sinkql.machine import clock

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of one source, or its single file. Names that begin with . or _ are not read."""

    path: Path
    pattern: str
    recursive: bool

    def file(self, name: str) -> Path:
        """Return the path of a listed file."""
        return self.path if self.path.is_file() else self.path / name

    @property
    def pinned(self) -> bool:
        """Return False: files can be rewritten while they are read."""
        return False

    def shown(self, name: str) -> str:
        """Return the name of a file in messages."""
        return str(self.file(name))

    def open(self, file: SeenFile) -> BinaryIO:
        """Open a file; raise SQ3302 if it is gone, SQ3305 if it cannot be read."""
        return open_file(self.file(file.name))

    def now(self, stream: BinaryIO, file: SeenFile) -> SeenFile:
        """Return the present state of an open file, with the same parts."""
        return seen_file(file.name, os.fstat(stream.fileno()), file.parts)

    def difference(self, file: SeenFile) -> str:
        """Describe how a file differs from its listed state."""
        return _difference(self.file(file.name), file)

    def names(
        self, listed: Mapping[str, int] | None = None, visited: VisitedFolders | None = None
    ) -> Iterator[tuple[str, int]]:
        """Yield each name with its inode, without names that `listed` has with the same inode.

        Only folders are read, not the files themselves. `visited` collects the folders. Raises SQ3304 if a folder
        cannot be listed.
        """
        listed = listed or {}
        try:
            if self.path.is_file():
                yield self.path.name, -1
                return
            yield from self._names_below(self.path, "", listed, frozenset(), visited)
        except OSError as error:
            raise UnreadableError(
                "SQ3304",
                f'cannot list "{self.path}": {error.strerror}',
                hint="Create the folder, or correct its permissions: the sink continues where it stopped. "
                "If PATH is wrong, correct it in the script, and run sinkql apply with all scripts.",
            ) from error

    def stamps(self, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, int, int, int] | None]]:
        """Yield each file's size, times and inode; None for an error, whose cause `status` finds."""
        single = self.path.is_file()
        for name in names:
            try:
                status = os.stat(self.path if single else f"{self.path}/{name}")  # a tenth of Path's cost
            except OSError:
                yield name, None
                continue
            yield name, (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a file, None if it was removed; raise SQ3305 if it is not a file."""
        path = self.file(name)
        status = regular(path)
        if status is None:
            return None
        if not name.isprintable() and any("\ud800" <= character <= "\udfff" for character in name):
            raise unreadable(path, "its name is not UTF-8")
        return status

    def files(self) -> list[SeenFile]:
        """Return the present files by name; raise the errors of `names` and `status`."""
        statuses = ((name, self.status(name)) for name in sorted(name for name, _ in self.names()))
        return [seen_file(name, status) for name, status in statuses if status is not None]

    def _names_below(
        self,
        folder: Path,
        prefix: str,
        listed: Mapping[str, int],
        above: frozenset[tuple[int, int]],
        visited: VisitedFolders | None,
    ) -> Iterator[tuple[str, int]]:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in above:
            return  # a link to a folder above it
        if visited is not None:
            visited.add(folder, status)
        with os.scandir(folder) as entries:
            for entry in entries:
                name, inode = prefix + entry.name, entry.inode()
                if visited is not None and entry.is_symlink():
                    visited.add_link()
                if listed.get(name) == inode or name[len(prefix)] in "._":
                    continue
                if _is_folder(entry):
                    if self.recursive:
                        inside = above | {(status.st_dev, status.st_ino)}
                        yield from self._names_below(Path(entry.path), f"{name}/", listed, inside, visited)
                elif fnmatch.fnmatchcase(entry.name, self.pattern):
                    yield name, inode


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # such as a link to itself: `status` raises the error


def regular(path: Path) -> os.stat_result | None:
    """Return the status of a regular file, None if it is missing; raise SQ3305 if it is not a regular file."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        if not path.is_symlink():
            return None
        raise unreadable(path, "its target does not exist") from error
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise unreadable(path, f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'not a regular file')}")
    return status


def _difference(path: Path, file: SeenFile) -> str:
    try:
        status = path.stat()
    except OSError as error:
        return f"It cannot be examined now: {error.strerror}."
    if status.st_size != file.size:
        return f"It had {file.size} bytes, and now has {status.st_size}."
    how = "it was replaced by another file" if status.st_ino != file.inode else "it was rewritten in place"
    before, now = (_time_text(mtime) for mtime in (file.mtime_ns, status.st_mtime_ns))
    when = f"last modified {before} when it was listed, and now {now}" if before != now else f"last modified {now}"
    return f"It still has {file.size} bytes, but different ones: {how}; {when}."


def _time_text(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 1000 / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


_KEEP_TIMES = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
_TICK_NS = 2_000_000_000
_MOUNTS = Path("/proc/self/mountinfo")

Stamp = tuple[int, int, int, int]


class VisitedFolders:
    """The folders of one listing, with their stamps from just before they were listed."""

    def __init__(self) -> None:
        self._began = clock.time_ns()
        self._folders: dict[str, Stamp] = {}
        self._linked = False

    def add(self, folder: Path, status: os.stat_result) -> None:
        """Add a folder before it is listed."""
        self._folders[str(folder)] = _stamp(status)

    def add_link(self) -> None:
        """Note that a folder has a link: its target may change without a change of the folder."""
        self._linked = True

    def is_settled(self) -> bool:
        """Return whether the folders can be compared later."""
        changed = max((stamp[3] for stamp in self._folders.values()), default=self._began)
        devices = {stamp[0]: folder for folder, stamp in self._folders.items()}
        return (
            not self._linked
            and changed < self._began - _TICK_NS
            and all(_keeps_times(folder, device) for device, folder in devices.items())
        )

    def is_unchanged(self) -> bool:
        """Return whether the folders have the same stamps now."""
        try:
            return all(_stamp(os.stat(folder)) == stamp for folder, stamp in self._folders.items())
        except OSError:
            return False


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _keeps_times(folder: str, device: int) -> bool:
    """Return whether the file system of a folder keeps change times.

    The device finds the file system, since a mount may lie hidden below another one. The subvolumes of btrfs have other
    devices than their mount, so there the path decides.
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
    """Return the mounts; of two mounts at one path, the last one counts and comes first."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ()
    return [_mount(line.split(" ")) for line in reversed(lines)]


def _mount(fields: Sequence[str]) -> _Mount:
    major, minor = fields[2].split(":")
    return _Mount(_unescaped(fields[4]), fields[fields.index("-", 6) + 1], os.makedev(int(major), int(minor)))


def _unescaped(path: str) -> str:
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), path)
