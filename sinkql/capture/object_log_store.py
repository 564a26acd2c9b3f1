"""A log in an object store. Entries are created only if absent, and `head.json` names the writer and the log's run.

```
<prefix>/head.json                          the run, its writer, and until when; replaced only by its etag
<prefix>/notes/publication.json             small files of the stream
<prefix>/<run>/log/00000000000000000042.json
<prefix>/<run>/log/first/00000000000000000007     the number with which the log begins, after entries were deleted
<prefix>/<run>/data/7-9f….arrow
```
An object store cannot rename a folder. So a discarded log gets another run in the head, and the objects of the old run
are deleted then. A capture checks the head before and after it writes an entry. If the head names another writer, the
capture is fenced. Its entry may be in the log or in a lost one; the capture has not reported it yet. If the log already
begins behind the entry, since its number was used and deleted, the capture deletes it again.

Unlike in a `NumberedLog`, a free number is not enough to add an entry: the head must also name the writer.

The captures of one catalog take turns by its lease. Catalogs on several machines with one source, for example copies,
wait until the other's time is over.

A captured source, and its WITH (…) options → the directory of its log: `open_log_directory` alone chooses the store.
"""

from __future__ import annotations

import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from sinkql import codec, physical
from sinkql.capture.log import LogDirectory, source_folder
from sinkql.capture.log_store import ENTRY_NAMES, FencedLogError, FolderLogStore, failed_records_name
from sinkql.connector_api.cdc import CapturedSource, LogRetention
from sinkql.connector_api.stream.context import OpenNotes, in_folder
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.machine.memory import remembered
from sinkql.machine.randomness import new_id
from sinkql.object_store.objects import Objects, Purpose, TakenError
from sinkql.object_store.s3 import SCHEME, S3Credentials
from sinkql.object_store.store import ObjectStore
from sinkql.storage import failpoint
from sinkql.storage.numbered_log import StoredFirst

if TYPE_CHECKING:
    import pyarrow as pa


LOGS = Purpose(
    "logs in S3",
    "LOG",
    "two captures may write one log",
    "Use an object store that has them (If-None-Match and If-Match), such as S3, or create the source again without "
    "LOG.",
)
_HELD_SECONDS = 180.0
"""How long a writer owns the head: each entry renews it, and there is at least one a minute."""
_FRESH_SECONDS = 0.25
_FIRST_SECONDS = 5.0
_SWEEP_SECONDS = 3600.0
"""A write without a reply may take effect later: only older objects are surely unused."""
_TRIES = 3
_CACHE_BYTES = 32 << 20


class _Head(msgspec.Struct, frozen=True):
    """The run of the log, and its writer until a time: `owner` is a catalog, `epoch` the one of its lease."""

    run: str
    owner: str
    epoch: int
    until: float

    def has_writer_of(self, other: _Head) -> bool:
        """Return whether another head names the same run and writer."""
        return (self.run, self.owner, self.epoch) == (other.run, other.owner, other.epoch)


@dataclass(slots=True)
class ObjectLogStore:
    """The log below a prefix, which ends with a slash. `owner` identifies the catalog of the writer."""

    bucket: str
    prefix: str
    access: ObjectStore = field(repr=False)
    owner: str = ""
    _held: tuple[_Head, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_path(cls, path: str, access: ObjectStore, owner: str = "") -> ObjectLogStore:
        """Return the log at an s3:// path."""
        bucket, _, prefix = path.removeprefix(SCHEME).partition("/")
        return cls(bucket, prefix, access, owner)

    def __reduce__(self) -> tuple[type[ObjectLogStore], tuple[Any, ...]]:
        return ObjectLogStore, (self.bucket, self.prefix, S3Credentials.from_store(self.access))

    @property
    def _objects(self) -> Objects:
        return Objects.open_bucket(self.bucket, self.access, LOGS)

    @property
    def _cache(self) -> _LogCache:
        return _log_cache(self._objects, self.prefix)

    # --- the writer --------------------------------------------------------------------------------------------------

    def open(self, epoch: int) -> None:
        """Acquire the head.

        Raises SQ3442 while another catalog has it, SQ3441 if the store lacks conditional writes.
        """
        for _ in range(_TRIES):
            current = self._head()
            if current is None:
                self._objects.check(self.prefix)
                head = _Head(new_id(), self.owner, epoch, clock.time() + _HELD_SECONDS)
            else:
                self._check_free(current[0], epoch)
                head = _Head(current[0].run, self.owner, epoch, clock.time() + _HELD_SECONDS)
            if self._replace_head(head, current[1] if current is not None else None):
                self._delete_removed_entries()
                return
        raise FencedLogError

    def _delete_removed_entries(self) -> None:
        """Delete entries before the log's beginning that an earlier capture left."""
        numbers, first = _first(self._objects, self._run).entries(ENTRY_NAMES)
        self._objects.delete(_entry_key(self._run, number) for number in numbers if number < first)

    def _check_free(self, head: _Head, epoch: int) -> None:
        if head.owner == self.owner:
            if head.epoch > epoch:
                raise FencedLogError
        elif head.until > clock.time():
            raise SinkqlError(
                "SQ3442",
                f'another catalog writes the log in "{SCHEME}{self.bucket}/{self.prefix}"',
                detail=head.owner,
                hint="Stop the other catalog's sinks, or drop the source in one of the catalogs. "
                "A copy of a catalog has the same sources.",
            )

    def _replace_head(self, head: _Head, etag: str | None) -> bool:
        """Replace the head with this etag, or create it for None; return whether it succeeded."""
        data = msgspec.json.encode(head)
        try:
            tag = self._objects.put(self._head_key, data, absent=etag is None, etag=etag)
        except TakenError:
            current = self._head()
            if current is None or current[0] != head:
                return False
            tag = current[1]
        self._held = head, tag
        return True

    def _check_held(self) -> tuple[_Head, str]:
        """Return the head and its etag. Raises FencedLogError if it names another writer."""
        head = self._head()
        if self._held is None or head is None or not head[0].has_writer_of(self._held[0]):
            raise FencedLogError
        self._held = head
        return head

    def release(self) -> None:
        if self._held is not None:
            head, tag = self._held
            self._replace_head(msgspec.structs.replace(head, until=0.0), tag)
            self._held = None

    @property
    def _head_key(self) -> str:
        return f"{self.prefix}head.json"

    def _head(self) -> tuple[_Head, str] | None:
        return _head_of(self._objects, self.prefix)

    @property
    def _run(self) -> str:
        """Return the prefix of this capture's run. Raises FencedLogError without the head."""
        if self._held is None:
            raise FencedLogError
        return f"{self.prefix}{self._held[0].run}/"

    # --- entries -----------------------------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        run = self._cache.run(fresh=True)
        return _numbers(self._objects, run) if run is not None else []

    def entry(self, number: int) -> bytes | None:
        return self._cache.entry(number)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        run = self._cache.run(fresh=True)
        if run is None:
            return
        numbers = _numbers(self._objects, run)
        entries = self._objects.get_all(_entry_key(run, number) for number in numbers)
        yield from ((number, data) for number, data in zip(numbers, entries, strict=True) if data is not None)

    def add(self, number: int, data: bytes) -> None:
        head, etag = self._check_held()
        if head.until < clock.time() + _HELD_SECONDS * 2 / 3:
            renewed = msgspec.structs.replace(head, until=clock.time() + _HELD_SECONDS)
            if not self._replace_head(renewed, etag):
                raise FencedLogError
        self._create_entry(_entry_key(self._run, number), data)
        self._cache.add(number)
        failpoint.point("entry-put")
        try:
            self._check_held()
        except FencedLogError:
            if number < _first(self._objects, self._run).now():
                self.delete_entry(number)
            raise

    def begin_at(self, number: int, log: str) -> None:
        _first(self._objects, self._run).put(number)

    def _create_entry(self, key: str, data: bytes) -> None:
        """Create an entry. Raises FencedLogError if another capture wrote the number.

        Without a reply, read the entry to find out. An entry contains the time and the lease of its capture, so equal
        bytes are the same entry.
        """
        for attempt in range(1, _TRIES + 1):
            failure: SinkqlError | None = None
            try:
                self._objects.put(key, data, absent=True)
                return
            except TakenError:
                pass
            except SinkqlError as error:
                failure = error
            stored = self._objects.get(key)
            if stored is not None:
                if stored[0] != data:
                    raise FencedLogError
                return
            if failure is not None and (not failure.retryable or attempt == _TRIES):
                raise failure
        raise FencedLogError  # another capture created and deleted it

    def delete_entry(self, number: int, log: str | None = None) -> None:
        self._objects.delete([_entry_key(self._run, number)])

    def discard(self) -> None:
        for _ in range(_TRIES):
            current = self._head()
            if current is None:
                return
            head, tag = current
            if head.owner not in ("", self.owner) and head.until > clock.time():
                raise FencedLogError
            if self._replace_head(msgspec.structs.replace(head, run=new_id()), tag):
                self._objects.delete([key for key, _ in self._objects.list(f"{self.prefix}{head.run}/")])
                return
        raise FencedLogError

    def drop(self) -> None:
        self._objects.delete([key for key, _ in self._objects.list(self.prefix)])

    # --- small files of the stream -----------------------------------------------------------------------------------

    def note(self, name: str, data: bytes) -> None:
        self._check_held()
        self._objects.put(f"{self._notes}{name}", data)

    def noted(self, name: str) -> bytes | None:
        stored = self._objects.get(f"{self._notes}{name}")
        return stored[0] if stored is not None else None

    def unnote(self, name: str) -> None:
        self._objects.delete([f"{self._notes}{name}"])

    @property
    def _notes(self) -> str:
        return f"{self.prefix}notes/"

    # --- data files --------------------------------------------------------------------------------------------------

    @contextmanager
    def open_file(self, name: str) -> Iterator[BinaryIO]:
        data = BytesIO()
        yield data
        self._objects.put(f"{self._run}data/{name}", data.getvalue())

    def write(self, name: str, data: bytes) -> None:
        self._objects.put(f"{self._run}data/{name}", data)

    def read(self, name: str) -> pa.Buffer:
        """Return the whole content of a data file, as its digest covers all of it."""
        import pyarrow as pa

        run = self._run if self._held is not None else self._cache.run()
        stored = self._objects.get(f"{run}data/{name}") if run is not None else None
        if stored is None:
            raise FileNotFoundError(name)
        return pa.py_buffer(stored[0])

    def remove(self, name: str) -> None:
        names = (name, failed_records_name(name))
        self._objects.delete(f"{self._run}data/{file_name}" for file_name in names)

    def sweep(self, named: Container[str]) -> None:
        """Delete old data files that are not `named`, and old objects of discarded runs."""
        data, before = f"{self._run}data/", clock.time() - _SWEEP_SECONDS
        for key, written_at in self._objects.list(self.prefix):
            name = key.removeprefix(data).removesuffix(failed_records_name("")) if key.startswith(data) else None
            is_used = key.startswith((self._run, self._notes)) if name is None else name in named
            if not is_used and key != self._head_key and written_at.timestamp() < before:
                self._objects.delete([key])


def _head_of(objects: Objects, prefix: str) -> tuple[_Head, str] | None:
    stored = objects.get(f"{prefix}head.json")
    return (codec.decoder(_Head).decode(stored[0]), stored[1]) if stored is not None else None


def _numbers(objects: Objects, run: str) -> list[int]:
    numbers, first = _first(objects, run).entries(ENTRY_NAMES)
    return [number for number in numbers if number >= first]


def _entry_key(run: str, number: int) -> str:
    return f"{run}log/{ENTRY_NAMES.name(number)}"


def _first(objects: Objects, run: str) -> StoredFirst:
    return StoredFirst(objects, f"{run}log/", lambda key: objects.put(key, b""))


@dataclass(slots=True)
class _LogCache:
    """The entries of a log that the readers of this process share, so that each is fetched once.

    The run of the log and the absence of an entry are cached for a moment, the log's first number for some seconds.
    """

    objects: Objects
    prefix: str
    clock: Callable[[], float] = clock.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _run: str | None = None
    _first: int = 0
    _run_read_at: float = float("-inf")
    _first_read_at: float = float("-inf")
    _entries: OrderedDict[int, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _absent: dict[int, float] = field(default_factory=dict)

    def run(self, *, fresh: bool = False) -> str | None:
        """Return the prefix of the run, None if there is no log."""
        with self._lock:
            return self._read_run(fresh=fresh)

    def entry(self, number: int) -> bytes | None:
        """Return an entry, None if it is absent."""
        with self._lock:
            run = self._read_run()
            if run is None or number < self._first:
                return None
            if number in self._entries:
                self._entries.move_to_end(number)
                return self._entries[number]
            if self.clock() < self._absent.get(number, float("-inf")) + _FRESH_SECONDS:
                return None
            stored = self.objects.get(_entry_key(run, number))
            if stored is None:
                self._absent[number] = self.clock()
                return None
            self._first = max(self._first, _first(self.objects, run).now())
            if number < self._first:  # it was deleted, and written again by a suspended capture
                return None
            self._absent.pop(number, None)
            self._store(number, stored[0])
            return stored[0]

    def add(self, number: int) -> None:
        """Record that an entry exists now."""
        with self._lock:
            self._absent.pop(number, None)

    def _read_run(self, *, fresh: bool = False) -> str | None:
        if not fresh and self.clock() < self._run_read_at + _FRESH_SECONDS:
            return self._run
        head = _head_of(self.objects, self.prefix)
        run = f"{self.prefix}{head[0].run}/" if head is not None else None
        if run != self._run or fresh:
            self._absent.clear()
        if run != self._run:
            self._entries.clear()
            self._bytes = 0
        if fresh or run != self._run or self.clock() >= self._first_read_at + _FIRST_SECONDS:
            self._read_first(run)
        self._run = run
        self._run_read_at = self.clock()
        return run

    def _read_first(self, run: str | None) -> None:
        """Read the log's first number, and drop the entries before it from the cache."""
        self._first = _first(self.objects, run).now() if run is not None else 0
        for number in [number for number in self._entries if number < self._first]:
            self._bytes -= len(self._entries.pop(number))
        self._first_read_at = self.clock()

    def _store(self, number: int, data: bytes) -> None:
        self._entries[number] = data
        self._bytes += len(data)
        while self._bytes > _CACHE_BYTES:
            self._bytes -= len(self._entries.popitem(last=False)[1])


@remembered(64)
def _log_cache(objects: Objects, prefix: str) -> _LogCache:
    return _LogCache(objects, prefix)


OpenJobStore = Callable[[physical.Connection], ObjectStore]


def open_log_directory(
    catalog_folder: Path,
    source: CapturedSource,
    options: LogRetention,
    open_store: OpenJobStore,
    owner: str | None = None,
    open_notes: OpenNotes = in_folder,
) -> LogDirectory:
    """Return the log directory of a source of the catalog in a folder.

    `owner` identifies a catalog that several hosts share; otherwise the host and the folder do.
    """
    folder = source_folder(catalog_folder, source.id)
    store = open_notes(source.id, folder)
    if options.log is None:
        return LogDirectory(folder, FolderLogStore(folder), store)
    assert source.log is not None, "a path of an object store has a connection"
    path = f"{options.log.path.rstrip('/')}/{source.id}/"
    default_owner = f"{socket.gethostname()}:{folder.absolute()}"
    log_store = ObjectLogStore.from_path(path, open_store(source.log), owner or default_owner)
    return LogDirectory(folder, log_store, store)
