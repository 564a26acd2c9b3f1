"""A folder, look by look → what is new in it; files that were seen before are looked at again in turn."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence

import msgspec

from sinkql.connectors.files.content import ChangedError, SeenFile, changed, listed, seen_file
from sinkql.connectors.files.local_listing import Folder, VisitedFolders
from sinkql.errors import GoneError

_SETTLE_NS = 1_000_000_000
_LISTED_NS = 60_000_000_000
_TURNS = 20
_AT_LEAST = 1000
_COMPARED_BYTES = 256 << 20


class Watch:
    """Look at the files of one source.

    A name with the inode that it had is not asked for more, but one in twenty of them at each look, so that a file that
    is rewritten in place is found within twenty looks; one that is replaced is found at the next. A file whose stamp
    changed is read, and its digests compared: at most 256 MiB at a look. So is one of a new name that has the inode,
    the size and the time of one that was seen and is gone: it was renamed, if it has the digests too. Folders in which
    nothing was new are listed again when they changed, and each minute whatever their times say.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._seen: Mapping[str, SeenFile] = {}
        self._inodes: dict[str, int] = {}
        self._turn = 0
        self._quiet: VisitedFolders | None = None
        self._listed_at = 0
        self._young: dict[str, tuple[SeenFile, int]] = {}
        self._left = 0
        self._again: dict[str, SeenFile] = {}
        self._renamed: dict[str, tuple[SeenFile, str]] = {}
        self._by_inode: dict[int, str] = {}
        self._indexed = 0
        self._listed: dict[str, int] = {}
        self.unread = 0
        """How many files `oldest` found."""

    def __reduce__(self) -> tuple[type[Watch], tuple[Folder]]:
        return Watch, (self.folder,)

    def new(self, seen: Mapping[str, SeenFile], *, settled: bool) -> list[SeenFile]:
        """Return the files that were not seen, by name and without parts; `settled`: that nobody just wrote to.

        `seen` is the same mapping from look to look, with more files in it, or another one to begin anew. Raises SQ3301
        for a file that changed since it was seen, SQ3304 and SQ3305 where the folder or what is in it cannot be read.
        """
        if seen is not self._seen:
            self._seen, self._inodes, self._turn, self._quiet = seen, {}, 0, None
            self._renamed, self._by_inode, self._indexed = {}, {}, 0
        self._left = _COMPARED_BYTES
        quiet, self._quiet = self._quiet, None
        recent = time.monotonic_ns() < self._listed_at + _LISTED_NS
        if self._look_again() and quiet is not None and recent and quiet.unchanged():
            self._quiet = quiet
            return []
        young, self._young, self._listed_at = self._young, {}, time.monotonic_ns()
        found, waiting, visited = [], False, VisitedFolders()
        for name, inode in self.folder.names(self._inodes, visited):
            status = self.folder.status(name)
            if status is None:
                continue
            known = seen.get(name)
            if known is not None and self._same(known, status):
                self._inodes[name] = inode
                continue
            renamed = known is None and self._was_renamed(seen_file(name, status))
            if renamed:
                continue
            waiting = True
            if renamed is None:
                continue
            if known is None and (self._left_alone(seen_file(name, status), young) or not settled):
                found.append(seen_file(name, status))
        if not waiting and visited.settled():
            self._quiet = visited
        return sorted(found, key=lambda file: file.name)

    def again(self) -> Sequence[SeenFile]:
        """Return the files that were compared because of another stamp, to be listed with it."""
        self._again = {
            name: file
            for name, file in self._again.items()
            if name in self._seen and file.stamp != self._seen[name].stamp
        }
        return list(self._again.values())

    def renamed(self) -> Sequence[tuple[SeenFile, str]]:
        """Return the files that were seen under another name and are not listed under theirs, with that name."""
        self._renamed = {name: each for name, each in self._renamed.items() if name not in self._seen}
        return list(self._renamed.values())

    def oldest(self, seen: Mapping[str, SeenFile]) -> float | None:
        """Return when the oldest file that was not seen was written, None where there is none."""
        times = []
        for name, inode in self.folder.names(self._listed):
            if name in seen or name in self._renamed:
                self._listed[name] = inode
                continue
            try:
                times.append(self.folder.file(name).stat().st_mtime)
            except OSError:
                continue  # the next look for new files says what it is
        self.unread = len(times)
        return min(times, default=None)

    def still(self, file: SeenFile) -> SeenFile:
        """Return a file that was read in part, with its present stamp.

        Raises SQ3301 where what was read of it is not as it was, SQ3302 where it is gone.
        """
        with self.folder.open(file) as stream:
            now = self.folder.now(stream, file)
            if now.stamp != file.stamp:
                for _ in listed(stream, self.folder, file, 0, file.parts):
                    pass
        return now

    def _was_renamed(self, file: SeenFile) -> bool | None:
        """Tell whether a file is one that was seen under a name that is gone; None where a later look finds out."""
        before = self._renamed.get(file.name)
        if before is not None and before[0].stamp == file.stamp:
            return True
        known = self._original(file)
        if known is None:
            return False
        if self._left <= 0:
            return None
        self._left -= file.size
        now = msgspec.structs.replace(file, parts=known.parts)
        try:
            with self.folder.open(now) as stream:
                for _ in listed(stream, self.folder, now, 0, now.parts):
                    pass
                if self.folder.now(stream, now).stamp != file.stamp:
                    return False
        except (ChangedError, GoneError):
            return False
        self._renamed[file.name] = now, known.name
        return True

    def _original(self, file: SeenFile) -> SeenFile | None:
        """Return the file that another one may have been, by what a rename leaves as it was; None where it is new."""
        if self._indexed < len(self._seen):
            news = itertools.islice(self._seen.values(), self._indexed, None)
            self._by_inode.update((each.inode, each.name) for each in news)
            self._indexed = len(self._seen)
        known = self._seen.get(self._by_inode.get(file.inode, ""))
        if known is None or (known.size, known.mtime_ns) != (file.size, file.mtime_ns):
            return None
        status = self.folder.status(known.name)
        return known if status is None or status.st_ino != file.inode else None

    def _left_alone(self, file: SeenFile, young: Mapping[str, tuple[SeenFile, int]]) -> bool:
        """Tell whether nobody wrote to a new file for a while; where its time says nothing, it is as it was then.

        A file may keep the time of another machine, and a clock may be set back: its time may lie far ahead.
        """
        if file.mtime_ns < time.time_ns() - _SETTLE_NS:
            return True
        now = time.monotonic_ns()
        before, since = young.get(file.name, (file, now))
        if before != file:
            since = now
        self._young[file.name] = file, since
        return now >= since + _SETTLE_NS

    def _look_again(self) -> bool:
        """Look at the files whose turn it is; False where the folder has to tell more about one."""
        count = max(_AT_LEAST, len(self._inodes) // _TURNS)
        names = list(itertools.islice(self._inodes, self._turn, self._turn + count))
        self._turn = self._turn + count if len(names) == count else 0
        known = len(self._inodes)
        for name, stamp in self.folder.stamps(names):
            if stamp == self._seen[name].stamp:
                continue
            status = self.folder.status(name)
            if status is None or not self._same(self._seen[name], status):
                del self._inodes[name]
        return len(self._inodes) == known

    def _same(self, known: SeenFile, status: os.stat_result) -> bool:
        """Tell whether a file is as it was seen; False where that is for a later look to find out."""
        now = seen_file(known.name, status, known.parts)
        if now.stamp == known.stamp:
            return True
        compared = self._again.get(known.name)
        if compared is not None and compared.stamp == now.stamp:
            return True
        if now.size != known.size:
            raise changed(self.folder, known)
        if self._left <= 0:
            return False
        self._left -= known.size
        with self.folder.open(known) as stream:
            for _ in listed(stream, self.folder, known, 0, known.parts):
                pass
            if self.folder.now(stream, known).stamp != now.stamp:
                return False
        self._again[known.name] = now
        return True
