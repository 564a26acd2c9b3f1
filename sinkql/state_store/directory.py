"""A sink's state in its folder here, and in a store that any host reaches → what a batch needs is in the one, what a
marker names in the other.

Files of state are made once, under names that tell their epoch and attempt, or what is in them, and never change. So
the folder is a cache of the store: what is not in it is fetched, whole. A file that the store has is read-only in the
folder; others may be all that there is.

Tasks find all that they need in the folder, where they see it. Where they run on other machines, each executor has a
folder of its own, among Spark's: a task fetches what it needs, and puts what it has written before it tells of it.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from sinkql import physical
from sinkql.connector_api.stream.context import Context
from sinkql.errors import SinkqlError
from sinkql.hash_key import PUBLIC_KEY, HashKey
from sinkql.object_store.objects import Objects, Purpose
from sinkql.object_store.s3 import SCHEME, S3Credentials
from sinkql.object_store.store import ObjectStore
from sinkql.storage import failpoint, files

PURPOSE = Purpose(
    "clusters with STATE in S3",
    "STATE",
    "two processes may write one file of a sink's state",
    "Keep the state in a store that has them (If-None-Match and If-Match), such as S3; or create the cluster without "
    "STATE.",
)
EXECUTOR = "SINKQL_EXECUTOR"
"""The variable that is set where a process belongs to an executor on another machine."""
_AT_ONCE = 8
_READ_ONLY = 0o444
_FREE = 0.1
_IDLE_SECONDS = 86400.0
_UNUSED_SECONDS, _TIDY_SECONDS = 3600.0, 60.0
_T = TypeVar("_T")


class StateStore(Protocol):
    """Keep files under relative names. Methods raise OSError, and SinkqlError where it is reached over a network."""

    def put(self, name: str, path: Path) -> None:
        """Put a file, durably; FileExistsError where another one has the name."""

    def replace(self, name: str, path: Path) -> None:
        """Put a file, durably, in the place of what has the name."""

    def get(self, name: str, file: BinaryIO) -> int | None:
        """Write what a name has to a file, and return its size; None where it has nothing, ValueError if damaged."""

    def list(self, under: str) -> Iterator[tuple[str, float]]:
        """Yield the names that begin so, and when each was put, in seconds since 1970."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete what names have, of those that have something."""

    def with_keys(self) -> StateStore:
        """Return it as a task can have it, which asks nobody for keys."""

    def beside(self, part: str) -> StateStore:
        """Return what keeps another part, such as the state of another sink."""


@dataclass(frozen=True, slots=True)
class FolderStateStore:
    """Keep files in a folder, such as one that several hosts mount."""

    folder: Path

    def put(self, name: str, path: Path) -> None:
        target = self.folder / name
        try:
            with path.open("rb") as data:
                files.create_new(target, data)
        except FileExistsError:
            if not filecmp.cmp(target, path, shallow=False):
                raise

    def replace(self, name: str, path: Path) -> None:
        with path.open("rb") as data, files.replace_atomic(self.folder / name, mode=0o644) as file:
            shutil.copyfileobj(data, file)

    def get(self, name: str, file: BinaryIO) -> int | None:
        try:
            with (self.folder / name).open("rb") as data:
                shutil.copyfileobj(data, file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return file.tell()

    def list(self, under: str) -> Iterator[tuple[str, float]]:
        # a folder is looked through before those in it, as a bucket is in the order of names
        walked = os.walk(self.folder / under)
        found = [Path(folder, name) for folder, _, names in walked for name in names if not name.startswith(".")]
        for path in sorted(found):
            with suppress(FileNotFoundError):
                if path.is_file():
                    yield path.relative_to(self.folder).as_posix(), path.stat().st_mtime

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def with_keys(self) -> FolderStateStore:
        return self

    def beside(self, part: str) -> FolderStateStore:
        return FolderStateStore(self.folder.parent / part)

    def __str__(self) -> str:
        return str(self.folder)


@dataclass(frozen=True, slots=True)
class ObjectStateStore:
    """Keep files as objects of a bucket; each says the digest of what it was made of, which is checked where it is got.

    Keys may run out: they are asked for whenever something is done.
    """

    bucket: str
    prefix: str
    access: ObjectStore = field(repr=False)

    @property
    def objects(self) -> Objects:
        """Return the objects of the bucket, reached with the keys of now."""
        return Objects.of(self.bucket, self.access, PURPOSE)

    def put(self, name: str, path: Path) -> None:
        self.objects.upload(f"{self.prefix}{name}", path)

    def replace(self, name: str, path: Path) -> None:
        self.objects.upload(f"{self.prefix}{name}", path, over=True)

    def get(self, name: str, file: BinaryIO) -> int | None:
        return self.objects.download(f"{self.prefix}{name}", file)

    def list(self, under: str) -> Iterator[tuple[str, float]]:
        for key, put_at in self.objects.list(f"{self.prefix}{under}"):
            yield key.removeprefix(self.prefix), put_at.timestamp()

    def delete(self, names: Iterable[str]) -> None:
        self.objects.delete(f"{self.prefix}{name}" for name in names)

    def with_keys(self) -> ObjectStateStore:
        return ObjectStateStore(self.bucket, self.prefix, S3Credentials.of(self.access))

    def beside(self, part: str) -> ObjectStateStore:
        around = self.prefix.rstrip("/").rpartition("/")[0]
        return ObjectStateStore(self.bucket, f"{around}/{part}/", self.access)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}"


def state_store(
    state: physical.StatePath, part: str, open_store: Callable[[physical.Connection], ObjectStore]
) -> StateStore:
    """Return what keeps a part of what lies at STATE, such as the state of one sink, by its id."""
    path = f"{state.path.rstrip('/')}/{part}"
    if state.connection is None:
        return FolderStateStore(Path(path))
    bucket, _, prefix = path.removeprefix(SCHEME).partition("/")
    return ObjectStateStore(bucket, f"{prefix}/", open_store(state.connection))


@dataclass(slots=True)
class StateDirectory:
    """The files of a sink's state in `folder`, or in a part of it, and in the store, by the same names.

    `fetched` counts the bytes that came from the store, by the folders of files. Where tasks are `remote`, they do not
    see the folder. `hash_key` is what rows are hashed with in its files.
    """

    folder: Path
    store: StateStore | None = None
    remote: bool = False
    hash_key: HashKey = PUBLIC_KEY
    fetched: Counter[str] = field(default_factory=Counter, repr=False)
    _there: set[str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, context: Context, part: str = "") -> StateDirectory:
        """Return that of a job's sink, or of a folder in there."""
        folder = context.folder / part if part else context.folder
        if context.state is None:
            return cls(folder, hash_key=context.hash_key)
        store = state_store(context.state, f"{context.sink_id}/{part}".rstrip("/"), context.store)
        return cls(folder, store, context.remote, context.hash_key)

    def sibling(self, sink_id: str) -> StateDirectory:
        """Return that of another sink, whose state is kept in the same place."""
        store = self.store.beside(sink_id) if self.store is not None else None
        return StateDirectory(self.folder.parent / sink_id, store, self.remote, self.hash_key)

    def for_tasks(self) -> StateDirectory:
        """Return what tasks have of it: the folder; or one of their own, and the store with the keys of now."""
        if not self.remote:
            return StateDirectory(self.folder, hash_key=self.hash_key)
        assert self.store is not None, "nothing that tasks and this process have in common"
        return StateDirectory(self.folder, self.store.with_keys(), remote=True, hash_key=self.hash_key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.folder, self.store, self.remote, self.hash_key)

    def ensure_uploaded(self, names: Iterable[str]) -> None:
        """Have files of the folder in the store, several put at once; call it before anything durable names them.

        Where tasks are remote, what is not in the folder is theirs, and there already.
        """
        if self.store is None:
            return
        there = self._listed(self.store)
        new = [name for name in dict.fromkeys(names) if name not in there]
        self.upload(name for name in new if not self.remote or (self.folder / name).exists())
        there.update(new)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return which of these names neither the folder nor the store has."""
        missing = [name for name in names if not (self.folder / name).exists()]
        if not missing or self.store is None:
            return missing
        there = self._listed(self.store)
        return [name for name in missing if name not in there]

    def _listed(self, store: StateStore) -> set[str]:
        """Return the names that the store has, as far as this process knows."""
        if self._there is None:
            self._there = {name for name, _ in store.list("")}
        return self._there

    def upload(self, names: Iterable[str]) -> None:
        """Put new files of the folder into the store, several at once."""
        if self.store is not None:
            _at_once(self._put, list(names))

    def write_small(self, name: str, data: bytes, *, stored: bool = False) -> None:
        """Write a small file that stays as it is, in the store, unless that has it already, and then in the folder."""
        if self.store is not None and not stored and not _elsewhere(self.folder / name):
            self.upload_bytes(name, data)
            failpoint.point("state-put")
        files.write_atomic(self.folder / name, data)
        if self.store is not None:
            _mark(self.folder / name)

    def upload_bytes(self, name: str, data: bytes) -> None:
        """Put a small file into the store alone; raises FileExistsError where another one has the name."""
        assert self.store is not None
        draft = self.folder / f".{uuid.uuid4().hex}"
        files.write_atomic(draft, data, sync=False)
        try:
            self.store.put(name, draft)
        finally:
            draft.unlink()

    def read_small(self, name: str) -> bytes | None:
        """Return a file that was noted, here or on another host."""
        with suppress(FileNotFoundError):  # it may go as what nobody uses
            return (self.folder / name).read_bytes() if not self.fetch({name: None}) else None
        return None

    def _put(self, name: str) -> None:
        assert self.store is not None
        self.store.put(name, self.folder / name)
        failpoint.point("state-put")
        _mark(self.folder / name)

    def fetch(self, sizes: Mapping[str, int | None]) -> list[str]:
        """Have files of the store in the folder, by their names; return those that neither has.

        One that is there counts if it has the size that is said, or if none is.
        """
        missing = [name for name, size in sizes.items() if not _fits(self.folder / name, size)]
        if self.remote:
            _used(self.folder / name for name in sizes.keys() - set(missing))
        if self.store is None or not missing:
            return missing
        got = [
            size if sizes[name] in (None, size) else None
            for name, size in zip(missing, _at_once(self._get, missing), strict=True)
        ]
        for name, size in zip(missing, got, strict=True):
            if size is not None:
                self.fetched[name.rpartition("/")[0]] += size
                if self._there is not None:
                    self._there.add(name)
        return [name for name, size in zip(missing, got, strict=True) if size is None]

    def _get(self, name: str) -> int | None:
        assert self.store is not None
        try:
            with files.replace_atomic(self.folder / name, mode=_READ_ONLY) as file:
                size = self.store.get(name, file)
                if size is None:
                    raise FileNotFoundError(name)
        except (FileNotFoundError, ValueError):
            return None  # what is damaged is as if it were not there: what can be made again is
        failpoint.point("state-got")
        return size

    def reupload(self, names: Iterable[str]) -> None:
        """Put files of the folder in the place of what the store has of them: some of it is lost or damaged."""
        if self.store is not None:
            _at_once(self._replace, list(names))

    def _replace(self, name: str) -> None:
        assert self.store is not None
        self.store.replace(name, self.folder / name)
        _mark(self.folder / name)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, here and in the store."""
        gone = list(names)
        for name in gone:
            (self.folder / name).unlink(missing_ok=True)
        if self.store is not None:
            self.store.delete(gone)
            if self._there is not None:
                self._there.difference_update(gone)

    def delete_unused(self, names: Collection[str]) -> None:
        """Delete files that nothing needs any more."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        self._delete(lambda store: names)

    def delete_all(self) -> None:
        """Delete all files: they are none that a marker names."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._delete(lambda store: [name for name, _ in store.list("")])

    def _delete(self, found: Callable[[StateStore], Iterable[str]]) -> None:
        """Delete what the store has for tasks elsewhere; what cannot be deleted now is for a later time, or a sweep."""
        if self.store is not None and self.remote:
            with suppress(SinkqlError, OSError):
                self.store.delete(found(self.store))

    def mark_lost(self, names: Iterable[str]) -> None:
        """Take files of the folder, some of which are damaged, for not there; what only it has stays."""
        for name in names:
            if _elsewhere(self.folder / name):
                (self.folder / name).unlink()

    def touch_files(self, names: Iterable[str]) -> None:
        """Say that files are used, which others of the folder are not: `evict_unused` leaves them."""
        if self.store is not None:
            _used(self.folder / name for name in names)

    def evict_unused(self) -> None:
        """Delete files of the folder that the store has, and that nobody has used for a day."""
        for used_at, path in list(_ages(self.folder)):
            if time.time() - used_at > _IDLE_SECONDS and _elsewhere(path):
                path.unlink(missing_ok=True)

    def touch(self) -> None:
        """Say that the folder is used, and make room for it on its disk; called every few hours while a sink runs."""
        if self.store is not None:
            os.utime(self.folder)
            free_disk_space(self.folder.parent)

    def sweep(
        self,
        under: Iterable[str],
        live: Collection[str],
        *,
        epoch_of: Callable[[str], int | None],
        epoch: int,
        age: Callable[[int], float] = lambda epoch: 0.0,
    ) -> int:
        """Delete what nothing reaches of the store's names that begin with one of `under`; return how many.

        As `sinkql.storage.sorted_run.sweep` does it in a folder; files of an epoch stay until they are `age` seconds
        old. What cannot be deleted now is for the next sweep.
        """
        if self.store is None:
            return 0
        gone = []
        with suppress(SinkqlError, OSError):
            for name, put_at in (each for part in under for each in self.store.list(part)):
                own = epoch_of(name.rpartition("/")[2])
                if own is None or own > epoch or name in live or time.time() - put_at < age(own):
                    continue
                gone.append(name)
            if self._there is not None:
                self._there.difference_update(gone)
            self.store.delete(gone)
        return len(gone)


def _arrived(folder: Path, store: StateStore | None, remote: bool, hash_key: HashKey) -> StateDirectory:
    """Return a home that another process sent: an executor has a folder of its own for it."""
    if remote and EXECUTOR in os.environ:
        root = Path(os.environ["SPARK_LOCAL_DIRS"].partition(",")[0]) / "sinkql"
        folder = root / hashlib.sha256(str(folder).encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        evict_old_files(root)
    return StateDirectory(folder, store, remote, hash_key)


def evict_old_files(root: Path) -> None:
    """Delete files of an executor that no task has used for an hour, and of a nearly full disk those used longest ago.

    Once in a minute: who needs one of them fetches it again.
    """
    stamp, now = root / "tidied", time.time()
    if stamp.exists() and now - stamp.stat().st_mtime < _TIDY_SECONDS:
        return
    stamp.touch()
    for used_at, path in sorted(_ages(root)):
        waits = _elsewhere(path) and now - used_at > _TIDY_SECONDS  # others are all that there is
        if path != stamp and (now - used_at > _UNUSED_SECONDS or (waits and _crowded(root))):
            path.unlink(missing_ok=True)


def _ages(root: Path) -> Iterator[tuple[float, Path]]:
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield status.st_mtime, path


def _used(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.utime(path)


def free_disk_space(folders: Path) -> int:
    """Make room on a disk of which less than a tenth is free: delete files that a store has, and return how many.

    They are those of `folders` of sinks that did not run here for a day, those first that ran longest ago.
    """
    removed = 0
    used = sorted((folder.stat().st_mtime, folder) for folder in folders.iterdir() if folder.is_dir())
    for used_at, folder in used:
        if time.time() - used_at < _IDLE_SECONDS or not _crowded(folders):
            break
        for path in filter(_elsewhere, list(folder.rglob("*"))):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _crowded(folder: Path) -> bool:
    usage = shutil.disk_usage(folder)
    return usage.free < usage.total * _FREE


def _mark(path: Path) -> None:
    """Note at a file that the store has it."""
    path.chmod(_READ_ONLY)


def _elsewhere(path: Path) -> bool:
    """Tell whether the store has a file of the folder."""
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        return stat.S_ISREG(mode) and stat.S_IMODE(mode) == _READ_ONLY
    return False


def _fits(path: Path, size: int | None) -> bool:
    try:
        found = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return False
    return size is None or found == size


def _at_once(work: Callable[[str], _T], names: list[str]) -> list[_T]:
    if len(names) <= 1:
        return [work(name) for name in names]
    with ThreadPoolExecutor(min(_AT_ONCE, len(names)), "state") as pool:
        return list(pool.map(work, names))


def check_state_path(path: str, connection: str | None, open_store: Callable[[str], ObjectStore]) -> None:
    """Raise what a sink would meet at STATE: no such bucket, no access, a folder that cannot be written to."""
    if connection is None:
        try:
            files.make_folder(Path(path))
            tried = Path(path) / f".try-{uuid.uuid4().hex}"
            files.write_atomic(tried, b"")
            tried.unlink()
        except OSError as error:
            raise SinkqlError(
                "SQ2616",
                f'STATE "{path}" is a folder that cannot be written to',
                detail=str(error),
                hint="Name a folder in which the user who runs sinks may make files, or s3://bucket/prefix.",
                option=PURPOSE.option,
            ) from None
        return
    bucket, _, prefix = f"{path.rstrip('/')}/".removeprefix(SCHEME).partition("/")
    Objects.of(bucket, open_store(connection), PURPOSE).check(prefix)
