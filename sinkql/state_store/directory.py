"""The state directory of a sink: a folder on this machine that is a cache of the state store.

Files of state are immutable. Their names contain their epoch and attempt, or a digest of their content. A batch reads
them in the folder; files that a checkpoint names are in the store, and are fetched whole if the folder lacks them. A
file that the store has is read-only in the folder (`cleanup`).

Tasks on this machine share the folder. Executors on other machines have a folder each, among Spark's local folders:
a task fetches the files it needs, and uploads the files it wrote before it reports them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sinkql.connector_api.stream.context import Context
from sinkql.errors import SinkqlError
from sinkql.hash_key import PUBLIC_KEY, HashKey
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.state_store import cleanup
from sinkql.state_store.store import StateStore, open_state_store
from sinkql.storage import failpoint, files

EXECUTOR = "SINKQL_EXECUTOR"
"""The environment variable that is set in a process of an executor on another machine."""
_PARALLEL_TRANSFERS = 8
_T = TypeVar("_T")


@dataclass(slots=True)
class StateDirectory:
    """The state of a sink, or a part of it: the same names in `folder` and in the store.

    `fetched` counts the bytes that came from the store, by the parent folders of files. `remote` tasks do not see the
    folder. `hash_key` is the key of the row hashes in the files. Without a store, the folder alone has the state.
    """

    folder: Path
    store: StateStore | None = None
    remote: bool = False
    hash_key: HashKey = PUBLIC_KEY
    fetched: Counter[str] = field(default_factory=Counter, repr=False)
    _stored_names: set[str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, context: Context, part: str = "") -> StateDirectory:
        """Return the state directory of a job's sink, or of a subfolder of it."""
        folder = context.folder / part if part else context.folder
        if context.state is None:
            return cls(folder, hash_key=context.hash_key)
        store = open_state_store(context.state, f"{context.sink_id}/{part}".rstrip("/"), context.store)
        return cls(folder, store, context.remote, context.hash_key)

    @property
    def required_store(self) -> StateStore:
        """Return the store; raise LookupError if the state is in the folder alone."""
        if self.store is None:
            raise LookupError(f"{self.folder} has no state store")
        return self.store

    def sibling(self, sink_id: str) -> StateDirectory:
        """Return the state directory of another sink of the same cluster."""
        store = self.store.sibling(sink_id) if self.store is not None else None
        return StateDirectory(self.folder.parent / sink_id, store, self.remote, self.hash_key)

    def for_tasks(self) -> StateDirectory:
        """Return the directory that tasks use: this folder, or a folder of the executor and the store."""
        if not self.remote:
            return StateDirectory(self.folder, hash_key=self.hash_key)
        return StateDirectory(self.folder, self.required_store.with_keys(), remote=True, hash_key=self.hash_key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.folder, self.store, self.remote, self.hash_key)

    # --- files that the store must have ---

    def ensure_uploaded(self, names: Iterable[str]) -> None:
        """Upload the files of the folder that the store lacks. Call it before anything durable names them.

        With remote tasks, the files that the folder lacks are files of tasks, which uploaded them.
        """
        if self.store is None:
            return
        stored = self._names_in(self.store)
        new = [name for name in dict.fromkeys(names) if name not in stored]
        self.upload(name for name in new if not self.remote or (self.folder / name).exists())
        stored.update(new)

    def upload(self, names: Iterable[str]) -> None:
        """Upload new files of the folder, several in parallel."""
        if self.store is not None:
            _in_parallel(self._put, list(names))

    def reupload(self, names: Iterable[str]) -> None:
        """Upload files of the folder again, replacing files of the store that are lost or damaged."""
        if self.store is not None:
            _in_parallel(self._replace, list(names))

    def upload_bytes(self, name: str, data: bytes) -> None:
        """Upload a small file to the store alone; raise FileExistsError if another file has the name."""
        store = self.required_store
        temporary = self.folder / f".{new_id()}"
        files.write_atomic(temporary, data, sync=False)
        try:
            store.put(name, temporary)
        finally:
            temporary.unlink()

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names that neither the folder nor the store has."""
        missing = [name for name in names if not (self.folder / name).exists()]
        if not missing or self.store is None:
            return missing
        stored = self._names_in(self.store)
        return [name for name in missing if name not in stored]

    # --- files that the folder must have ---

    def fetch(self, sizes: Mapping[str, int | None]) -> list[str]:
        """Fetch the files that the folder lacks, or has with another size; return the names found nowhere.

        `sizes` maps names to sizes in bytes; None accepts any size.
        """
        missing = [name for name, size in sizes.items() if not _has_size(self.folder / name, size)]
        if self.remote:
            cleanup.mark_used(self.folder / name for name in sizes.keys() - set(missing))
        if self.store is None or not missing:
            return missing
        lost = []
        for name, size in zip(missing, _in_parallel(self._get, missing), strict=True):
            if size is None or sizes[name] not in (None, size):
                lost.append(name)
                continue
            self.fetched[name.rpartition("/")[0]] += size
            if self._stored_names is not None:
                self._stored_names.add(name)
        return lost

    def write_small(self, name: str, data: bytes, *, stored: bool = False) -> None:
        """Write a small immutable file to the store, unless it is `stored` already, and then to the folder."""
        if self.store is not None and not stored and not cleanup.is_stored(self.folder / name):
            self.upload_bytes(name, data)
            failpoint.point("state-put")
        files.write_atomic(self.folder / name, data)
        if self.store is not None:
            cleanup.mark_stored(self.folder / name)

    def read_small(self, name: str) -> bytes | None:
        """Return a small file that this or another host wrote; None if it does not exist."""
        with suppress(FileNotFoundError):  # it may have been evicted in the meantime
            return (self.folder / name).read_bytes() if not self.fetch({name: None}) else None
        return None

    # --- files that are no longer needed ---

    def delete(self, names: Iterable[str]) -> None:
        """Delete files of the folder and of the store."""
        unneeded = list(names)
        for name in unneeded:
            (self.folder / name).unlink(missing_ok=True)
        if self.store is not None:
            self.store.delete(unneeded)
            if self._stored_names is not None:
                self._stored_names.difference_update(unneeded)

    def delete_unused(self, names: Collection[str]) -> None:
        """Delete files that nothing needs any longer, here and where remote tasks stored them."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        self._delete_remote(lambda store: names)

    def delete_all(self) -> None:
        """Delete all files, of which no checkpoint names any."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._delete_remote(lambda store: [name for name, _ in store.list("")])

    def mark_lost(self, names: Iterable[str]) -> None:
        """Treat files of the folder as missing because some are damaged. Files that only the folder has stay."""
        for name in names:
            if cleanup.is_stored(self.folder / name):
                (self.folder / name).unlink()

    def sweep(
        self,
        under: Iterable[str],
        live: Collection[str],
        *,
        epoch_of: Callable[[str], int | None],
        epoch: int,
        age: Callable[[int], float] = lambda epoch: 0.0,
    ) -> int:
        """Delete unreferenced files of the store whose names begin with one of `under`; return how many.

        Works like `sinkql.storage.sorted_run.sweep` in a folder; files of an epoch stay until they are `age` seconds
        old. If a file cannot be deleted now, the next sweep tries again.
        """
        if self.store is None:
            return 0
        unreferenced = []
        with suppress(SinkqlError, OSError):
            for name, stored_at in (entry for part in under for entry in self.store.list(part)):
                file_epoch = epoch_of(name.rpartition("/")[2])
                if file_epoch is None or file_epoch > epoch or name in live:
                    continue
                if clock.time() - stored_at >= age(file_epoch):
                    unreferenced.append(name)
            if self._stored_names is not None:
                self._stored_names.difference_update(unreferenced)
            self.store.delete(unreferenced)
        return len(unreferenced)

    # --- the cache ---

    def touch_files(self, names: Iterable[str]) -> None:
        """Record that files are in use, so that `evict_unused` keeps them."""
        if self.store is not None:
            cleanup.mark_used(self.folder / name for name in names)

    def evict_unused(self) -> None:
        """Delete the files of the folder that the store has and no batch used for a day."""
        cleanup.evict_unused_files(self.folder)

    def touch(self) -> None:
        """Record that the folder is in use, and free space on its disk. Call it every few hours while a sink runs."""
        if self.store is not None:
            os.utime(self.folder)
            cleanup.free_disk_space(self.folder.parent)

    def _names_in(self, store: StateStore) -> set[str]:
        """Return the names in the store, as this process knows them; the first call lists them."""
        if self._stored_names is None:
            self._stored_names = {name for name, _ in store.list("")}
        return self._stored_names

    def _put(self, name: str) -> None:
        self.required_store.put(name, self.folder / name)
        failpoint.point("state-put")
        cleanup.mark_stored(self.folder / name)

    def _replace(self, name: str) -> None:
        self.required_store.replace(name, self.folder / name)
        cleanup.mark_stored(self.folder / name)

    def _get(self, name: str) -> int | None:
        store = self.required_store
        try:
            with files.replace_atomic(self.folder / name, mode=cleanup.READ_ONLY) as file:
                size = store.get(name, file)
                if size is None:
                    raise FileNotFoundError(name)
        except (FileNotFoundError, ValueError):
            return None  # a damaged file counts as missing: state recovery may compute it again
        failpoint.point("state-got")
        return size

    def _delete_remote(self, names: Callable[[StateStore], Iterable[str]]) -> None:
        """Delete files that remote tasks stored. If that fails now, a later sweep deletes them."""
        if self.store is not None and self.remote:
            with suppress(SinkqlError, OSError):
                self.store.delete(names(self.store))


def _received(folder: Path, store: StateStore | None, remote: bool, hash_key: HashKey) -> StateDirectory:
    """Return a state directory that another process sent; in an executor, with the executor's folder for it."""
    if remote and EXECUTOR in os.environ:
        root = Path(os.environ["SPARK_LOCAL_DIRS"].partition(",")[0]) / "sinkql"
        folder = root / hashlib.sha256(str(folder).encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        cleanup.evict_old_files(root)
    return StateDirectory(folder, store, remote, hash_key)


def _has_size(path: Path, size: int | None) -> bool:
    try:
        present = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return False
    return size is None or present == size


def _in_parallel(work: Callable[[str], _T], names: list[str]) -> list[_T]:
    if len(names) <= 1:
        return [work(name) for name in names]
    with ThreadPoolExecutor(min(_PARALLEL_TRANSFERS, len(names)), "state") as pool:
        return list(pool.map(work, names))
