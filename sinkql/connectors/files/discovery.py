"""Find new files of a folder, and check at each listing whether some of the files already read have changed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence

import msgspec

from sinkql.connectors.files.content import ChangedError, SeenFile, changed, listed, seen_file
from sinkql.connectors.files.local_listing import Folder, VisitedFolders
from sinkql.errors import GoneError
from sinkql.machine import clock

_SETTLE_NS = 1_000_000_000
_LISTED_NS = 60_000_000_000
_TURNS = 20
_AT_LEAST = 1000
_COMPARED_BYTES = 256 << 20


class Watch:
    """The state of one source's folder from listing to listing.

    A file whose name and inode were seen before is not examined again, except for one in twenty at each listing. So a
    file that is rewritten in place is noticed within twenty listings, and a replaced file with the next. If the stamp
    of a file changed, its bytes are read and the digests compared: at most 256 MiB at one listing.

    A new name with the inode, size and time of a seen file that is gone is a renamed file if the digests agree too.
    Folders without new files are listed again if they changed, and every minute.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._seen: Mapping[str, SeenFile] = {}
        self._inodes: dict[str, int] = {}
        self._turn = 0
        self._quiet: VisitedFolders | None = None
        self._listed_at = 0
        self._recent: dict[str, tuple[SeenFile, int]] = {}
        self._bytes_left = 0
        self._compared: dict[str, SeenFile] = {}
        self._renamed: dict[str, tuple[SeenFile, str]] = {}
        self._by_inode: dict[int, str] = {}
        self._indexed = 0
        self._listed: dict[str, int] = {}
        self.unread = 0
        """The number of files that `oldest` counted."""

    def __reduce__(self) -> tuple[type[Watch], tuple[Folder]]:
        return Watch, (self.folder,)

    def new(self, seen: Mapping[str, SeenFile], *, settled: bool) -> list[SeenFile]:
        """Return the new files by name, without parts; with `settled` only files that no process writes to.

        `seen` is the same mapping at each call, with more files; another mapping starts over. Raises SQ3301 for a file
        that changed after it was seen, SQ3304 and SQ3305 if the folder or a file cannot be read.
        """
        if seen is not self._seen:
            self._seen, self._inodes, self._turn, self._quiet = seen, {}, 0, None
            self._renamed, self._by_inode, self._indexed = {}, {}, 0
        self._bytes_left = _COMPARED_BYTES
        quiet, self._quiet = self._quiet, None
        recent = clock.monotonic_ns() < self._listed_at + _LISTED_NS
        if self._recheck() and quiet is not None and recent and quiet.is_unchanged():
            self._quiet = quiet
            return []
        recent_files, self._recent, self._listed_at = self._recent, {}, clock.monotonic_ns()
        files, waiting, visited = [], False, VisitedFolders()
        for name, inode in self.folder.names(self._inodes, visited):
            status = self.folder.status(name)
            if status is None:
                continue
            before = seen.get(name)
            if before is not None and self._is_same(before, status):
                self._inodes[name] = inode
                continue
            renamed = before is None and self._was_renamed(seen_file(name, status))
            if renamed:
                continue
            waiting = True
            if renamed is None:
                continue
            if before is None and (self._is_left_alone(seen_file(name, status), recent_files) or not settled):
                files.append(seen_file(name, status))
        if not waiting and visited.is_settled():
            self._quiet = visited
        return sorted(files, key=lambda file: file.name)

    def again(self) -> Sequence[SeenFile]:
        """Return the files whose stamp changed and whose content did not, to be logged with the new stamp."""
        self._compared = {
            name: file
            for name, file in self._compared.items()
            if name in self._seen and file.stamp != self._seen[name].stamp
        }
        return list(self._compared.values())

    def renamed(self) -> Sequence[tuple[SeenFile, str]]:
        """Return seen files that have a new name not yet logged, each with its old name."""
        self._renamed = {name: entry for name, entry in self._renamed.items() if name not in self._seen}
        return list(self._renamed.values())

    def oldest(self, seen: Mapping[str, SeenFile]) -> float | None:
        """Return the modification time of the oldest unread file; None if all were read."""
        times = []
        for name, inode in self.folder.names(self._listed):
            if name in seen or name in self._renamed:
                self._listed[name] = inode
                continue
            try:
                times.append(self.folder.file(name).stat().st_mtime)
            except OSError:
                continue  # the next listing reports it
        self.unread = len(times)
        return min(times, default=None)

    def still(self, file: SeenFile) -> SeenFile:
        """Return a file that was read in part, with its present stamp.

        Raises SQ3301 if the part that was read has changed, SQ3302 if the file is gone.
        """
        with self.folder.open(file) as stream:
            now = self.folder.now(stream, file)
            if now.stamp != file.stamp:
                for _ in listed(stream, self.folder, file, 0, file.parts):
                    pass
        return now

    def _was_renamed(self, file: SeenFile) -> bool | None:
        """Return whether a file was seen under a name that is gone; None if a later listing decides."""
        before = self._renamed.get(file.name)
        if before is not None and before[0].stamp == file.stamp:
            return True
        original = self._original(file)
        if original is None:
            return False
        if self._bytes_left <= 0:
            return None
        self._bytes_left -= file.size
        now = msgspec.structs.replace(file, parts=original.parts)
        try:
            with self.folder.open(now) as stream:
                for _ in listed(stream, self.folder, now, 0, now.parts):
                    pass
                if self.folder.now(stream, now).stamp != file.stamp:
                    return False
        except (ChangedError, GoneError):
            return False
        self._renamed[file.name] = now, original.name
        return True

    def _original(self, file: SeenFile) -> SeenFile | None:
        """Return the seen file that this one may be under a new name; None if it is new."""
        if self._indexed < len(self._seen):
            news = itertools.islice(self._seen.values(), self._indexed, None)
            self._by_inode.update((seen.inode, seen.name) for seen in news)
            self._indexed = len(self._seen)
        original = self._seen.get(self._by_inode.get(file.inode, ""))
        if original is None or (original.size, original.mtime_ns) != (file.size, file.mtime_ns):
            return None
        status = self.folder.status(original.name)
        return original if status is None or status.st_ino != file.inode else None

    def _is_left_alone(self, file: SeenFile, recent_files: Mapping[str, tuple[SeenFile, int]]) -> bool:
        """Return whether no process wrote to a new file for a while.

        If the time of a file lies ahead, its state must stay the same for that long: it may have the time of another
        machine, and a clock may be set back.
        """
        if file.mtime_ns < clock.time_ns() - _SETTLE_NS:
            return True
        now = clock.monotonic_ns()
        before, since = recent_files.get(file.name, (file, now))
        if before != file:
            since = now
        self._recent[file.name] = file, since
        return now >= since + _SETTLE_NS

    def _recheck(self) -> bool:
        """Examine the files whose turn it is; return False if one of them requires listing the folder."""
        count = max(_AT_LEAST, len(self._inodes) // _TURNS)
        names = list(itertools.islice(self._inodes, self._turn, self._turn + count))
        self._turn = self._turn + count if len(names) == count else 0
        count_before = len(self._inodes)
        for name, stamp in self.folder.stamps(names):
            if stamp == self._seen[name].stamp:
                continue
            status = self.folder.status(name)
            if status is None or not self._is_same(self._seen[name], status):
                del self._inodes[name]
        return len(self._inodes) == count_before

    def _is_same(self, before: SeenFile, status: os.stat_result) -> bool:
        """Return whether a file is as it was seen; False if a later listing decides."""
        now = seen_file(before.name, status, before.parts)
        if now.stamp == before.stamp:
            return True
        compared = self._compared.get(before.name)
        if compared is not None and compared.stamp == now.stamp:
            return True
        if now.size != before.size:
            raise changed(self.folder, before)
        if self._bytes_left <= 0:
            return False
        self._bytes_left -= before.size
        with self.folder.open(before) as stream:
            for _ in listed(stream, self.folder, before, 0, before.parts):
                pass
            if self.folder.now(stream, before).stamp != now.stamp:
                return False
        self._compared[before.name] = now
        return True
