"""A log in a bucket: entries are put where there are none, and `head.json` says who may write, and where the log lies.

```
<prefix>/head.json                          the run, whose capture it is, up to when: overwritten on its etag alone
<prefix>/notes/publication.json             what its stream knows of the server
<prefix>/<run>/log/00000000000000000042.json
<prefix>/<run>/log/first/00000000000000000007     with which entry the log begins, where some were forgotten
<prefix>/<run>/data/7-9f….arrow
```
A bucket has no names to exchange, so a log that is discarded loses its place: the head gets another run, and what is
below the old one is deleted then. A capture looks at the head before it puts an entry and after: one that finds itself
there no more is fenced, whether its entry is in the log or in one that is lost; it has told nobody of it yet. Where its
entry is below the first one, as its number was there and is forgotten, it takes it back.

Captures of one catalog take turns by its lease. Catalogs on several machines that have one source, such as a copy, wait
for the other's time to be over.

A captured source, and what its WITH (…) says → where its log lies: the one place that chooses.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from sinkql import codec, physical
from sinkql.capture.log import LogDirectory, source_folder
from sinkql.capture.log_store import FencedLogError, FolderLogStore, entry_name, entry_number, failed_records_name
from sinkql.connector_api.cdc import CapturedSource, LogRetention
from sinkql.connector_api.stream.context import OpenNotes, in_folder
from sinkql.errors import SinkqlError
from sinkql.object_store.objects import Objects, Purpose, TakenError
from sinkql.object_store.s3 import SCHEME, S3Credentials
from sinkql.object_store.store import ObjectStore
from sinkql.storage import failpoint
from sinkql.storage.numbered_log import first_in, first_name

if TYPE_CHECKING:
    import pyarrow as pa


LOGS = Purpose(
    "logs in S3",
    "LOG",
    "two captures may write one log",
    "Keep the log in a store that has them (If-None-Match and If-Match), such as S3; or create the source again "
    "without LOG.",
)
_HELD_SECONDS = 180.0
"""For how long a head is held: an entry comes each minute at least, and prolongs it."""
_FRESH_SECONDS = 0.25
_FORGOTTEN_SECONDS = 5.0
_SWEPT_SECONDS = 3600.0
"""A put whose reply was lost may be done later: only what is older belongs to nobody."""
_TRIES = 3
_FIRST = "log/first/"
_KEPT_BYTES = 32 << 20


class _Head(msgspec.Struct, frozen=True):
    """Where the log lies, and who writes it up to when: `owner` is a catalog, `epoch` that of its lease."""

    run: str
    owner: str
    epoch: int
    until: float

    def held_by(self, other: _Head) -> bool:
        """Tell whether another head is of the same capture."""
        return (self.run, self.owner, self.epoch) == (other.run, other.owner, other.epoch)


@dataclass(slots=True)
class ObjectLogStore:
    """The log below a prefix, which ends with a slash; `owner` tells the catalog of whoever writes from others."""

    bucket: str
    prefix: str
    access: ObjectStore = field(repr=False)
    owner: str = ""
    _held: tuple[_Head, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, path: str, access: ObjectStore, owner: str = "") -> ObjectLogStore:
        """Return the log at a path with s3://."""
        bucket, _, prefix = path.removeprefix(SCHEME).partition("/")
        return cls(bucket, prefix, access, owner)

    def __reduce__(self) -> tuple[type[ObjectLogStore], tuple[Any, ...]]:
        return ObjectLogStore, (self.bucket, self.prefix, S3Credentials.of(self.access))

    @property
    def _objects(self) -> Objects:
        return Objects.of(self.bucket, self.access, LOGS)

    @property
    def _seen(self) -> _Seen:
        return _seen(self._objects, self.prefix)

    # --- who writes --------------------------------------------------------------------------------------------------

    def open(self, epoch: int) -> None:
        """Take the head; raises SQ3442 while another catalog has it, SQ3441 where a store cannot say who has."""
        for _ in range(_TRIES):
            found = self._head()
            if found is None:
                self._objects.check(self.prefix)
                head = _Head(uuid.uuid4().hex, self.owner, epoch, time.time() + _HELD_SECONDS)
            else:
                self._check_free(found[0], epoch)
                head = _Head(found[0].run, self.owner, epoch, time.time() + _HELD_SECONDS)
            if self._take(head, found[1] if found is not None else None):
                self._tidy()
                return
        raise FencedLogError

    def _tidy(self) -> None:
        """Delete entries below the first one: of captures that ended before they did."""
        numbers, first = _there(self._objects, self._run)
        self._objects.delete(f"{self._run}log/{entry_name(number)}" for number in numbers if number < first)

    def _check_free(self, head: _Head, epoch: int) -> None:
        if head.owner == self.owner:
            if head.epoch > epoch:
                raise FencedLogError
        elif head.until > time.time():
            raise SinkqlError(
                "SQ3442",
                f'another catalog writes the log in "{SCHEME}{self.bucket}/{self.prefix}"',
                detail=head.owner,
                hint="Stop its sinks, or drop the source there or here: a copy of a catalog has its sources, too.",
            )

    def _take(self, head: _Head, etag: str | None) -> bool:
        """Put the head in the place of the one with an etag, or of none; tell whether it is there."""
        data = msgspec.json.encode(head)
        try:
            tag = self._objects.put(self._head_key, data, absent=etag is None, etag=etag)
        except TakenError:
            found = self._head()
            if found is None or found[0] != head:
                return False
            tag = found[1]
        self._held = head, tag
        return True

    def _check_held(self) -> _Head:
        """Return the head; raises FencedLogError where it is not this capture's any more."""
        found = self._head()
        if self._held is None or found is None or not found[0].held_by(self._held[0]):
            raise FencedLogError
        self._held = found
        return found[0]

    def release(self) -> None:
        if self._held is not None:
            head, tag = self._held
            self._take(msgspec.structs.replace(head, until=0.0), tag)
            self._held = None

    @property
    def _head_key(self) -> str:
        return f"{self.prefix}head.json"

    def _head(self) -> tuple[_Head, str] | None:
        return _head_of(self._objects, self.prefix)

    @property
    def _run(self) -> str:
        """Return the prefix of the run that this capture writes."""
        if self._held is None:
            raise FencedLogError
        return f"{self.prefix}{self._held[0].run}/"

    # --- entries -----------------------------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        run = self._seen.run(fresh=True)
        return _listed(self._objects, run) if run is not None else []

    def entry(self, number: int) -> bytes | None:
        return self._seen.entry(number)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        run = self._seen.run(fresh=True)
        if run is None:
            return
        numbers = _listed(self._objects, run)
        found = self._objects.get_all(f"{run}log/{entry_name(number)}" for number in numbers)
        yield from ((number, data) for number, data in zip(numbers, found, strict=True) if data is not None)

    def add(self, number: int, data: bytes) -> None:
        head = self._check_held()
        if head.until < time.time() + _HELD_SECONDS * 2 / 3:
            assert self._held is not None
            longer = msgspec.structs.replace(head, until=time.time() + _HELD_SECONDS)
            if not self._take(longer, self._held[1]):
                raise FencedLogError
        key = f"{self._run}log/{entry_name(number)}"
        self._certainly(key, data)
        self._seen.come(number)
        failpoint.point("entry-put")
        try:
            self._check_held()
        except FencedLogError:
            if number < _first(self._objects, self._run):
                self.forget(number)
            raise

    def begin_at(self, number: int, log: str) -> None:
        noted = [key for key, _ in self._objects.list(f"{self._run}{_FIRST}")]
        if number <= first_in(key.rpartition("/")[2] for key in noted):
            return
        self._objects.put(f"{self._run}{_FIRST}{first_name(number)}", b"")
        self._objects.delete(noted)

    def _certainly(self, key: str, data: bytes) -> None:
        """Put an entry, and find out whether it is there where no reply says so; raises FencedLogError for another's.

        An entry has the time and the lease of its capture in it: one with the same bytes is the same.
        """
        for tried in range(_TRIES):
            failed: SinkqlError | None = None
            try:
                self._objects.put(key, data, absent=True)
                return
            except TakenError:
                pass
            except SinkqlError as error:
                failed = error
            found = self._objects.get(key)
            if found is not None:
                if found[0] != data:
                    raise FencedLogError
                return
            if failed is not None and (not failed.retryable or tried + 1 == _TRIES):
                raise failed
        raise FencedLogError  # it came and went

    def forget(self, number: int, log: str | None = None) -> None:
        self._objects.delete([f"{self._run}log/{entry_name(number)}"])

    def discard(self) -> None:
        for _ in range(_TRIES):
            found = self._head()
            if found is None:
                return
            head, tag = found
            if head.owner not in ("", self.owner) and head.until > time.time():
                raise FencedLogError
            if self._take(msgspec.structs.replace(head, run=uuid.uuid4().hex), tag):
                self._objects.delete([key for key, _ in self._objects.list(f"{self.prefix}{head.run}/")])
                return
        raise FencedLogError

    def drop(self) -> None:
        self._objects.delete([key for key, _ in self._objects.list(self.prefix)])

    # --- notes -------------------------------------------------------------------------------------------------------

    def note(self, name: str, data: bytes) -> None:
        self._check_held()
        self._objects.put(f"{self._notes}{name}", data)

    def noted(self, name: str) -> bytes | None:
        found = self._objects.get(f"{self._notes}{name}")
        return found[0] if found is not None else None

    def unnote(self, name: str) -> None:
        self._objects.delete([f"{self._notes}{name}"])

    @property
    def _notes(self) -> str:
        return f"{self.prefix}notes/"

    # --- data files --------------------------------------------------------------------------------------------------

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        data = BytesIO()
        yield data
        self._objects.put(f"{self._run}data/{name}", data.getvalue())

    def write(self, name: str, data: bytes) -> None:
        self._objects.put(f"{self._run}data/{name}", data)

    def read(self, name: str) -> pa.Buffer:
        """Return what a file has, all at once: its digest is that of all of it."""
        import pyarrow as pa

        run = self._run if self._held is not None else self._seen.run()
        found = self._objects.get(f"{run}data/{name}") if run is not None else None
        if found is None:
            raise FileNotFoundError(name)
        return pa.py_buffer(found[0])

    def remove(self, name: str) -> None:
        self._objects.delete(f"{self._run}data/{each}" for each in (name, failed_records_name(name)))

    def sweep(self, named: Container[str]) -> None:
        """Delete data files that are not named, and what is left of runs that were discarded, once they are old."""
        data, before = f"{self._run}data/", time.time() - _SWEPT_SECONDS
        for key, put_at in self._objects.list(self.prefix):
            name = key.removeprefix(data).removesuffix(failed_records_name("")) if key.startswith(data) else None
            ours = key.startswith((self._run, self._notes)) if name is None else name in named
            if not ours and key != self._head_key and put_at.timestamp() < before:
                self._objects.delete([key])


def _head_of(objects: Objects, prefix: str) -> tuple[_Head, str] | None:
    found = objects.get(f"{prefix}head.json")
    return (codec.decoder(_Head).decode(found[0]), found[1]) if found is not None else None


def _listed(objects: Objects, run: str) -> list[int]:
    numbers, first = _there(objects, run)
    return [number for number in numbers if number >= first]


def _there(objects: Objects, run: str) -> tuple[list[int], int]:
    """Return the numbers of the entries that a bucket has, and with which one the log begins.

    Names are listed in their order: where an entry is listed, it is known whether it is below.
    """
    keys = [key.removeprefix(run) for key, _ in objects.list(f"{run}log/")]
    numbers = [number for key in keys if (number := entry_number(key.rpartition("/")[2])) is not None]
    return numbers, first_in(key.removeprefix(_FIRST) for key in keys if key.startswith(_FIRST))


def _first(objects: Objects, run: str) -> int:
    return first_in(key.rpartition("/")[2] for key, _ in objects.list(f"{run}{_FIRST}"))


@dataclass(slots=True)
class _Seen:
    """What readers of a process have seen of a log, which many sinks read: an entry is asked for once.

    Where the log lies, and that no entry follows, is known for a moment; with which entry it begins for some seconds.
    """

    objects: Objects
    prefix: str
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _run: str | None = None
    _first: int = 0
    _looked_at: float = float("-inf")
    _listed_at: float = float("-inf")
    _entries: OrderedDict[int, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _absent: dict[int, float] = field(default_factory=dict)

    def run(self, *, fresh: bool = False) -> str | None:
        """Return the prefix of the run; None where there is no log."""
        with self._lock:
            return self._look(fresh=fresh)

    def entry(self, number: int) -> bytes | None:
        """Return an entry; None where there is none."""
        with self._lock:
            run = self._look()
            if run is None or number < self._first:
                return None
            if number in self._entries:
                self._entries.move_to_end(number)
                return self._entries[number]
            if self.clock() < self._absent.get(number, float("-inf")) + _FRESH_SECONDS:
                return None
            found = self.objects.get(f"{run}log/{entry_name(number)}")
            if found is None:
                self._absent[number] = self.clock()
                return None
            self._first = max(self._first, _first(self.objects, run))
            if number < self._first:  # it was forgotten, and put again by a capture that slept
                return None
            self._absent.pop(number, None)
            self._keep(number, found[0])
            return found[0]

    def come(self, number: int) -> None:
        """An entry is there now."""
        with self._lock:
            self._absent.pop(number, None)

    def _look(self, *, fresh: bool = False) -> str | None:
        if not fresh and self.clock() < self._looked_at + _FRESH_SECONDS:
            return self._run
        head = _head_of(self.objects, self.prefix)
        run = f"{self.prefix}{head[0].run}/" if head is not None else None
        if run != self._run or fresh:
            self._absent.clear()
        if run != self._run:
            self._entries.clear()
            self._bytes = 0
        if fresh or run != self._run or self.clock() >= self._listed_at + _FORGOTTEN_SECONDS:
            self._forget(run)
        self._run = run
        self._looked_at = self.clock()
        return run

    def _forget(self, run: str | None) -> None:
        """Forget entries that the log has no more."""
        self._first = _first(self.objects, run) if run is not None else 0
        for number in [each for each in self._entries if each < self._first]:
            self._bytes -= len(self._entries.pop(number))
        self._listed_at = self.clock()

    def _keep(self, number: int, data: bytes) -> None:
        self._entries[number] = data
        self._bytes += len(data)
        while self._bytes > _KEPT_BYTES:
            self._bytes -= len(self._entries.popitem(last=False)[1])


@lru_cache(maxsize=64)
def _seen(objects: Objects, prefix: str) -> _Seen:
    return _Seen(objects, prefix)


OpenJobStore = Callable[[physical.Connection], ObjectStore]


def log_folder(
    catalog_folder: Path,
    source: CapturedSource,
    keeping: LogRetention,
    open_store: OpenJobStore,
    owner: str | None = None,
    open_notes: OpenNotes = in_folder,
) -> LogDirectory:
    """Return what is kept of a source of the catalog in a folder.

    Whoever captures it is that catalog: `owner` tells one that several hosts share.
    """
    folder = source_folder(catalog_folder, source.id)
    notes = open_notes(source.id, folder)
    if keeping.log is None:
        return LogDirectory(folder, FolderLogStore(folder), notes)
    assert source.log is not None, "a path of an object store has a connection"
    path = f"{keeping.log.path.rstrip('/')}/{source.id}/"
    here = f"{socket.gethostname()}:{folder.absolute()}"
    return LogDirectory(folder, ObjectLogStore.of(path, open_store(source.log), owner or here), notes)
