"""Keep the durable log of the files that a source has read, as immutable segments that are named by their hash.

The newest segment, the head, names the segments that it builds on and the previous head, so that a checkpoint holds one
name. As in a log-structured merge tree, eight segments of similar size are merged: a commit writes little more than its
files, and a sweep deletes the segments that no checkpoint needs.

It is no `NumberedLog`: a checkpoint names a segment by its content, so several writers need not agree on a number.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from sinkql import codec
from sinkql.connectors.files.content import SeenFile
from sinkql.errors import SinkqlError
from sinkql.storage import failpoint, files

_MERGED = 8
_HEADS = 64
_STEPS = 64


class LogSegment(msgspec.Struct, frozen=True, array_like=True):
    """Some files of the log. `again` are seen files that have another stamp now and the same content.

    `renamed` are seen files under another name. A head has the name of the head `before` it, and the `older` segments
    with their numbers of files.
    """

    files: tuple[SeenFile, ...]
    again: tuple[SeenFile, ...] = ()
    before: str | None = None
    older: tuple[tuple[str, int], ...] = ()
    renamed: tuple[SeenFile, ...] = ()

    @property
    def all(self) -> tuple[SeenFile, ...]:
        """Return all its files; of two with one name, the newer one last."""
        return *self.again, *self.renamed, *self.files

    @property
    def size(self) -> int:
        """Return the number of its files."""
        return len(self.files) + len(self.again) + len(self.renamed)


class ProcessedFilesLog:
    """The log of one source in a folder, with the newest heads in memory. The head before the first is None.

    Methods raise SQ3303 if a segment is missing or damaged, SQ3306 if a segment cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._heads: dict[str, LogSegment] = {}
        self._seen: dict[str, SeenFile] = {}
        self._renamed: set[str] = set()
        self._seen_head: str | None = None
        self._intact: set[str] = set()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ProcessedFilesLog], tuple[Path]]:
        return ProcessedFilesLog, (self.folder,)

    def seen(self, head: str | None) -> Mapping[str, SeenFile]:
        """Return the files of the log by name, in the same mapping for each `head` after the previous one."""
        with self._lock:
            if head != self._seen_head:
                news = self._since(head, self._seen_head)
                if news is None:
                    self._seen, self._renamed, news = {}, set(), list(self._all(head))
                for segment in news:
                    self._renamed.update(file.name for file in segment.renamed)
                    self._seen.update((file.name, file) for file in segment.all)
                self._seen_head = head
            return self._seen

    def added(self, start: str | None, end: str | None) -> list[SeenFile]:
        """Return the files that `end` has and `start` lacks."""
        if start == end:
            return []
        news = self._since(end, start)
        if news is not None:
            return [file for segment in news for file in segment.files]
        before = self.seen(start)
        files = {file.name: file for segment in self._all(end) for file in segment.files if file.name not in before}
        return list(files.values())

    def append(
        self,
        head: str | None,
        files: Sequence[SeenFile],
        again: Sequence[SeenFile] = (),
        renamed: Sequence[SeenFile] = (),
    ) -> str:
        """Write a head with more files durably, and return its name; the same files give the same name.

        The files listed `again` are among the files that `seen` returned for this head.
        """
        renamed = *renamed, *(file for file in again if file.name in self._renamed)
        again = [file for file in again if file.name not in self._renamed]
        older: list[tuple[str, int]] = []
        if head is not None:
            last = self._head(head)
            older = [*last.older, (head, last.size)]
        while group := _to_merge(older):
            older[older.index(group[0])] = self._merge(group)
            older = [entry for entry in older if entry not in group]
        segment = LogSegment(tuple(files), tuple(again), head, tuple(older), tuple(renamed))
        name = self._write(segment)
        self._cache_head(name, segment)
        return name

    def names(self, head: str | None) -> tuple[str, ...]:
        """Return the segments that a head needs, itself first; only itself if it is missing or damaged.

        A damaged segment is removed, so that it counts as missing and is restored.
        """
        if head is None:
            return ()
        self._check(head)
        needed = self._needed(head) if (self.folder / head).exists() else (head,)
        for name in needed:
            self._check(name)
        return needed

    def unneeded(self, heads: Collection[str | None], *, before: float) -> tuple[str, ...]:
        """Return the segments in the folder that none of the heads needs, and that were written before a time.

        Return none if a head is missing, since its segments are unknown. A lost folder gets back the segments of the
        last head, and the head before it may have been merged.
        """
        try:
            needed = {name for head in heads if head is not None for name in self._needed(head)}
        except SinkqlError:
            return ()
        return tuple(
            sorted(
                path.name
                for path in self.folder.glob("files-*.json")
                if path.name not in needed and path.stat().st_mtime < before
            )
        )

    def _needed(self, head: str) -> tuple[str, ...]:
        return head, *(name for name, _ in self._head(head).older)

    def _check(self, name: str) -> None:
        path = self.folder / name
        if name in self._intact or not path.exists():
            return
        if name == _name(path.read_bytes()):
            self._intact.add(name)
            return
        self._heads.pop(name, None)
        path.unlink()

    def _since(self, head: str | None, start: str | None) -> list[LogSegment] | None:
        """Return the heads after `start` up to `head`, oldest first; None if they are many or do not meet."""
        heads: list[LogSegment] = []
        while head != start:
            if head is None or len(heads) == _STEPS or not (head in self._heads or (self.folder / head).exists()):
                return None
            heads.append(self._head(head))
            head = heads[-1].before
        return heads[::-1]

    def _all(self, head: str | None) -> Iterator[LogSegment]:
        """Yield the segments of a head, older ones first."""
        if head is None:
            return
        last = self._head(head)
        for name, _ in last.older:
            yield self._read(name)
        yield last

    def _head(self, name: str) -> LogSegment:
        if name not in self._heads:
            self._cache_head(name, self._read(name))
        return self._heads[name]

    def _cache_head(self, name: str, head: LogSegment) -> None:
        self._heads[name] = head
        if len(self._heads) > _HEADS:
            del self._heads[next(iter(self._heads))]

    def _merge(self, group: Sequence[tuple[str, int]]) -> tuple[str, int]:
        files: dict[str, SeenFile] = {}
        renamed: dict[str, SeenFile] = {}
        for name, _ in group:
            segment = self._read(name)
            files |= {file.name: file for file in (*segment.files, *segment.again)}
            renamed |= {file.name: file for file in segment.renamed}
        failpoint.point("files-merge")
        merged = LogSegment(tuple(files.values()), renamed=tuple(renamed.values()))
        return self._write(merged), merged.size

    def _write(self, segment: LogSegment) -> str:
        data = msgspec.json.encode(segment)
        name = _name(data)
        failpoint.point("files-listed")
        try:
            if not (self.folder / name).exists():
                files.write_atomic(self.folder / name, data)
        except OSError as error:
            raise SinkqlError(
                "SQ3306",
                f'cannot write the list of read files to "{self.folder}": {error.strerror}',
                hint="Free space there or correct its permissions; the sink continues where it stopped.",
            ) from error
        self._intact.add(name)
        return name

    def _read(self, name: str) -> LogSegment:
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise _lost_error(name) from error
        if name != _name(data):
            raise _lost_error(name)
        return codec.decoder(LogSegment).decode(data)


def _to_merge(older: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """Return eight segments whose numbers of files have the same power of eight; empty if no eight do."""
    levels: dict[int, list[tuple[str, int]]] = {}
    for entry in older:
        level = levels.setdefault(max(1, entry[1]).bit_length() // 3, [])
        level.append(entry)
        if len(level) == _MERGED:
            return level
    return ()


def _name(data: bytes) -> str:
    return f"files-{hashlib.sha256(data).hexdigest()[:24]}.json"


def _lost_error(name: str) -> SinkqlError:
    return SinkqlError(
        "SQ3303",
        f'the list of files already read, "{name}", is missing or damaged',
        hint="Restore the sink's state folder or the table's folder; both hold a copy.",
    )
