"""The key index of an upsert sink: a cache that combines runs and files, with the table as the source of truth.

A writer uses it as follows:

* At the start: `Index.load(folder, checkpoint.index, key)`. If that returns None, or the table is new: `rebuild(…)`.
* Whenever the table's current snapshot is not the writer's last commit: `catch_up(index, table, …)`, which returns the
  same index if it is current. This includes the start, as a claim repeats the checkpoint, and others may have written
  before.
* `begin()`: Saves the index with `index.save(folder)`, because tasks read it from there.
* `commit()`: `new = index.after(changes, epoch=…, commit=task.commit)`, then `new.save(folder)`, whose result goes into
  the checkpoint as `index`. Then `state.keep(new.reached)`, then the Iceberg commit. If the commit succeeds, `new`
  becomes the index; otherwise the old one stays.
* After a conflict with a commit of another writer that added or removed files: redo the attempt on the updated index.
  New rows may have the same keys, or the files that delete files refer to may no longer exist.
* From time to time: `sweep(…)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import msgspec
import xxhash
from msgspec import structs

from sinkql import codec
from sinkql.connectors.iceberg.key_index.key_hash import KeyColumn
from sinkql.connectors.iceberg.key_index.layer import (
    TIERS,
    DeleteRecord,
    FileRecord,
    Layer,
    delete_of,
    file_of,
    merged,
)
from sinkql.connectors.iceberg.key_index.run import size_of
from sinkql.errors import LostIndexError
from sinkql.hash_key import PUBLIC_KEY, HashKey
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint, sorted_run
from sinkql.storage import files as storage_files

_VERSION = 7
_DIGEST = 32
_OLD = 3600.0


class Run(msgspec.Struct, frozen=True):
    """A run file with keys of `bucket` of `buckets` under `bucketing`; if `bucket` is None, of any bucket.

    `files` are the lowest and highest number of a data file that it may name, if known.
    """

    name: str
    rows: int
    bucket: int | None = None
    buckets: int = 0
    bucketing: str = ""
    files: tuple[int, int] | None = None

    @property
    def mixed(self) -> bool:
        """Return whether the run has keys of any bucket."""
        return self.bucket is None

    def may_name(self, files: Iterable[int]) -> bool:
        """Return whether the run may name one of these files."""
        return self.files is None or any(self.files[0] <= number <= self.files[1] for number in files)


class Link(msgspec.Struct, frozen=True, array_like=True):
    """An older manifest whose layer is still used, and the digest of its content."""

    name: str
    digest: str


class IndexChange(msgspec.Struct, frozen=True):
    """The changes of one task's files to the index `index`, for one bucket of `buckets` under `bucketing`.

    `files` are the new data files by number. `dead` counts the rows that died, by file id. `deletes` are the paths of
    new delete files, each with the ids of the data files that it names. A file with only dead rows leaves the table, so
    no delete file names it. `run` holds the bucket's new entries, and replaces the older runs named in `merged`. With
    `whole`, a delete entry holds all dead rows of its data files and replaces their older ones, as deletion vectors do.
    """

    index: str
    files: dict[int, FileRecord] = {}
    deletes: dict[str, tuple[int, ...]] = {}
    dead: dict[int, int] = {}
    run: Run | None = None
    merged: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class MergedDeletes:
    """A delete file merged from others: its path, its number of positions, and the numbers of the files it names."""

    path: str
    rows: int
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The changes of a compaction: data files `removed`, new `files` of their live rows, and `runs` with the new
    places.

    The delete files `merged` are replaced by `deletes`, which name the remaining targets.
    """

    removed: frozenset[int]
    files: dict[int, FileRecord]
    runs: tuple[Run, ...]
    merged: frozenset[int]
    deletes: tuple[MergedDeletes, ...]


class _Manifest(msgspec.Struct, frozen=True):
    """The content of a manifest file after its digest; `older` are the manifests of the layers below.

    `hashed` identifies the secret with which the keys are hashed.
    """

    version: int
    sink: str
    epoch: int
    commit: str
    key: tuple[KeyColumn, ...]
    hashed: str
    runs: tuple[Run, ...]
    layer: Layer
    older: tuple[Link, ...]
    idle: tuple[str, ...]
    next_file_id: int
    next_delete_id: int


@dataclass(frozen=True)
class Index:
    """The index for one state of the table; runs and layers are in order, newest first.

    `older` are the manifests that hold the layers below the first one. `idle` are paths of files in the table without
    any useful content, which leave it with the next commit. `leaving` are the files that leave it with this commit.

    An index that is saved with a commit becomes valid with it: it is valid only if the checkpoint names it.
    """

    sink: str
    epoch: int
    commit: str
    key: tuple[KeyColumn, ...]
    runs: tuple[Run, ...] = ()
    layers: tuple[Layer, ...] = (Layer(),)
    older: tuple[Link, ...] = ()
    idle: tuple[str, ...] = ()
    next_file_id: int = 0
    next_delete_id: int = 0
    leaving: frozenset[str] = field(default=frozenset(), compare=False)
    hash_key: HashKey = PUBLIC_KEY

    @property
    def name(self) -> str:
        """Return the manifest's file name, unique to the attempt that creates it."""
        return f"{self.sink}-{self.epoch}-{self.commit}.index"

    @cached_property
    def files(self) -> dict[int, FileRecord]:
        """Return all data files with live rows, by number."""
        records = merged(self.layers, whole=True).files
        return {number: record for number, record in records.items() if record is not None}

    @cached_property
    def deletes(self) -> dict[int, DeleteRecord]:
        """Return all delete files that name a data file of the table, by number."""
        records = merged(self.layers, whole=True).deletes
        return {number: record for number, record in records.items() if record is not None}

    @property
    def reached(self) -> set[str]:
        """Return the names of the manifests and runs of the index."""
        return _reached(self.name, self.runs, self.older)

    def paths(self) -> set[str]:
        """Return the paths of all files of the table."""
        files = {record.path for record in self.files.values()}
        return files | {record.path for record in self.deletes.values()} | set(self.idle)

    def delete(self, number: int) -> DeleteRecord:
        """Return a delete file; raise KeyError if it is not in the table."""
        record = delete_of(self.layers, number)
        if record is None:
            raise KeyError(number)
        return record

    def file(self, number: int) -> FileRecord:
        """Return a data file; raise KeyError if it is not in the table."""
        record = file_of(self.layers, number)
        if record is None:
            raise KeyError(number)
        return record

    @classmethod
    def load(
        cls, folder: Path, name: str, key: Sequence[KeyColumn], *, runs: bool = True, hash_key: HashKey = PUBLIC_KEY
    ) -> Index | None:
        """Read a manifest; return None if it must be rebuilt.

        It must be rebuilt if the manifest or a file that it names is missing or damaged. The same applies to another
        key or another secret for the hashes. Without `runs`, run files may be missing from the folder.
        """
        try:
            index = replace(_read(folder, name, hashed=hash_key.fingerprint), hash_key=hash_key)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        if index.key != tuple(key):
            return None
        return index if not runs or all(_is_complete(folder, run) for run in index.runs) else None

    def save(self, folder: Path) -> str:
        """Write the manifest durably, and return its name.

        Saving the same manifest again is allowed; saving another one under its name raises FileExistsError.
        """
        path = folder / self.name
        if path.exists():
            if path.read_bytes() != self._data:
                raise FileExistsError(path)
            return self.name
        storage_files.write_atomic(path, self._data)
        failpoint.point("index-manifest")
        return self.name

    def probed(self, bucket: int, *, buckets: int, bucketing: str) -> tuple[Run, ...]:
        """Return the runs that may hold a bucket's keys, newest first; runs of another bucketing may hold any."""
        same = (buckets, bucketing)
        return tuple(run for run in self.runs if run.bucket in (None, bucket) or (run.buckets, run.bucketing) != same)

    def after(self, changes: Iterable[IndexChange], *, epoch: int, commit: str) -> Index:
        """Return the index that becomes valid with the commit of these changes; nothing is saved.

        `changes` has at most one change per bucket. Raises ValueError for a change of another index.
        """
        step = _Step(self)
        merged: set[str] = set()
        fresh: list[Run] = []
        for change in changes:
            if change.index != self.name:
                raise ValueError(f"the change is for index {change.index}, not for {self.name}")
            step.take(change)
            merged.update(change.merged)
            if change.run is not None:
                fresh.append(change.run)
        older_runs = (run for run in self.runs if run.name not in merged)
        step.bury()
        return self._apply_step(step, epoch=epoch, commit=commit, runs=(*reversed(fresh), *older_runs))

    def rewritten(self, rewrite: Rewrite, *, epoch: int, commit: str) -> Index:
        """Return the index that becomes valid with the commit of a compaction; nothing is saved."""
        step = _Step(self)
        step.move(rewrite)
        return self._apply_step(step, epoch=epoch, commit=commit, runs=(*rewrite.runs, *self.runs))

    def _apply_step(self, step: _Step, *, epoch: int, commit: str, runs: tuple[Run, ...]) -> Index:
        return replace(
            self.under(step.layer),
            epoch=epoch,
            commit=commit,
            runs=runs,
            idle=tuple(step.idle),
            next_file_id=step.next_file_id,
            next_delete_id=step.next_delete_id,
            leaving=frozenset((*step.leaving, *self.idle)),
        )

    def under(self, layer: Layer) -> Index:
        """Return the index below a new layer, merged with the newest older layers if that is due."""
        layers = (layer, *self.layers)
        older = (Link(self.name, self._digest), *self.older)
        length = TIERS.due(older_layer.size for older_layer in layers)
        if length:
            layers = (merged(layers[:length], whole=length == len(layers)), *layers[length:])
            older = older[length - 1 :]
        return replace(self, layers=layers, older=older)

    @cached_property
    def _data(self) -> bytes:
        manifest = _Manifest(
            _VERSION,
            self.sink,
            self.epoch,
            self.commit,
            self.key,
            self.hash_key.fingerprint,
            self.runs,
            self.layers[0],
            self.older,
            self.idle,
            self.next_file_id,
            self.next_delete_id,
        )
        body = msgspec.json.encode(manifest)
        return xxhash.xxh3_128_hexdigest(body).encode() + body

    @property
    def _digest(self) -> str:
        return self._data[:_DIGEST].decode()


class _Step:
    """The changes of one commit to the files of an index."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.layer = Layer({}, {})
        self.idle: list[str] = []
        self.leaving: set[str] = set()
        self.next_file_id, self.next_delete_id = index.next_file_id, index.next_delete_id
        self._dead: Counter[int] = Counter()
        self._named: dict[int, tuple[int, ...]] = {}
        self._is_complete = False

    def take(self, change: IndexChange) -> None:
        """Add a task's files."""
        assert self.layer.files.keys().isdisjoint(change.files), "two changes of one bucket"
        self.layer.files.update(change.files)
        self.next_file_id = max((self.next_file_id, *(number + 1 for number in change.files)))
        for path, targets in change.deletes.items():
            rows = sum(change.dead.get(target, 0) for target in targets)
            self.layer.deletes[self.next_delete_id] = DeleteRecord(path, len(targets), rows)
            for target in targets:
                self._named[target] = (*self._named.get(target, ()), self.next_delete_id)
            self.next_delete_id += 1
        self._dead.update(change.dead)
        self._is_complete |= change.whole

    def bury(self) -> None:
        """Find the files that become useless: without a live row, or without a position in a file of the table."""
        released: Counter[int] = Counter()
        for number, dead in self._dead.items():
            record = self._index.file(number)
            change = FileRecord("", 0, dead, self._named.get(number, ()))
            whole = record + change
            assert whole.dead <= whole.rows, "more dead rows than rows"
            if whole.dead == whole.rows:
                self.layer.files[number] = None
                self.leaving.add(whole.path)
                released.update(whole.deletes)
            elif self._is_complete:
                self.layer.files[number] = structs.replace(whole, deletes=change.deletes, again=True)
                released.update(record.deletes)
            else:
                self.layer.files[number] = change
        for number, count in released.items():
            self._release(number, count)

    def move(self, rewrite: Rewrite) -> None:
        """Add the changes of a compaction."""
        released: Counter[int] = Counter()
        for number in rewrite.removed:
            record = self._index.file(number)
            self.layer.files[number] = None
            self.leaving.add(record.path)
            released.update(record.deletes)
        self.layer.files.update(rewrite.files)
        self.next_file_id = max((self.next_file_id, *(number + 1 for number in rewrite.files)))
        for number in rewrite.merged:
            delete_file = self._index.delete(number)
            self.layer.deletes[number] = None
            self.leaving.add(delete_file.path)
        for deletes in rewrite.deletes:
            self._add_merged_deletes(deletes, rewrite.merged)
        for number, count in released.items():
            if number not in rewrite.merged:
                self._release(number, count)

    def _add_merged_deletes(self, deletes: MergedDeletes, merged_ids: frozenset[int]) -> None:
        self.layer.deletes[self.next_delete_id] = DeleteRecord(deletes.path, len(deletes.targets), deletes.rows)
        for target in deletes.targets:
            record = self.layer.files.get(target) or self._index.file(target)
            left = (number for number in record.deletes if number not in merged_ids)
            self.layer.files[target] = structs.replace(record, deletes=(*left, self.next_delete_id), again=True)
        self.next_delete_id += 1

    def _release(self, number: int, count: int) -> None:
        fresh = self.layer.deletes.get(number)
        delete_file = fresh or self._index.delete(number)
        left = delete_file.targets - count
        if fresh and left:
            self.layer.deletes[number] = DeleteRecord(delete_file.path, left, delete_file.rows)
        elif fresh:  # it was added by this commit, so it can leave only with the next
            del self.layer.deletes[number]
            self.idle.append(delete_file.path)
        elif left:
            self.layer.deletes[number] = DeleteRecord("", -count)
        else:
            self.layer.deletes[number] = None
            self.leaving.add(delete_file.path)


@lru_cache(maxsize=8)
def open_index(folder: Path, name: str) -> Index:
    """Read a saved manifest once per process for the tasks of a batch; raise SQ3411 if it is lost."""
    try:
        return _read(folder, name, layer_of=_cached_layer)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise _damaged("manifest", name, str(error)) from error


def fetched_index(state: StateDirectory, name: str) -> Index:
    """Read a manifest that was saved for tasks, on any machine; raises SQ3411."""
    if not state.remote:
        return open_index(state.folder, name)
    try:
        return _fetched_index(state, name)
    except LostIndexError:  # the local copies may be damaged, while the state store has good ones
        state.mark_lost(path.name for path in state.folder.glob("*.index"))
        return _fetched_index(state, name)


def _fetched_index(state: StateDirectory, name: str) -> Index:
    state.fetch({name: None})
    state.fetch({file_name: None for file_name, size in files(state.folder, name).items() if size is None})
    return open_index(state.folder, name)


def fetch_runs(state: StateDirectory, runs: Iterable[Run]) -> None:
    """Fetch runs that tasks wrote on other machines; raise SQ3411 if one is lost."""
    if state.remote and (lost := state.fetch({run.name: size_of(run.rows) for run in runs})):
        raise _damaged("run", lost[0], f"{state.store} does not have it")


def _damaged(what: str, name: str, why: str) -> LostIndexError:
    return LostIndexError(
        "SQ3411", f'index {what} "{name}" is damaged', detail=why, hint="Start the sink again to rebuild it."
    )


def _read(
    folder: Path, name: str, *, layer_of: Callable[[Path, str], Layer] | None = None, hashed: str | None = None
) -> Index:
    """Read a manifest and the layers below it; raises OSError, ValueError or msgspec.MsgspecError."""
    manifest = _manifest(folder / name)
    if hashed not in (None, manifest.hashed):
        raise ValueError(f"{name}: the keys are hashed with another secret")
    layers = ((layer_of or _layer)(folder / link.name, link.digest) for link in manifest.older)
    return Index(
        manifest.sink,
        manifest.epoch,
        manifest.commit,
        manifest.key,
        manifest.runs,
        (manifest.layer, *layers),
        manifest.older,
        manifest.idle,
        manifest.next_file_id,
        manifest.next_delete_id,
    )


def _layer(path: Path, digest: str) -> Layer:
    return _manifest(path, digest).layer


@lru_cache(maxsize=256)
def _cached_layer(path: Path, digest: str) -> Layer:
    """Return the layer of an older manifest, which many batches share."""
    return _layer(path, digest)


def _manifest(path: Path, digest: str | None = None) -> _Manifest:
    data = path.read_bytes()
    stored_digest, body = data[:_DIGEST].decode(), data[_DIGEST:]
    if stored_digest != xxhash.xxh3_128_hexdigest(body) or stored_digest != (digest or stored_digest):
        raise ValueError(f"{path}: the content does not match its digest")
    manifest = codec.decoder(_Manifest).decode(body)
    if manifest.version != _VERSION:
        raise ValueError(f"{path}: version {manifest.version}, expected {_VERSION}")
    return manifest


def files(folder: Path, name: str) -> dict[str, int | None]:
    """Return the names of a saved manifest and the files that it names, each with its size if that is known.

    The result is empty if the manifest is missing or damaged.
    """
    try:
        manifest = _manifest(folder / name)
    except (OSError, ValueError, msgspec.MsgspecError):
        return {}
    return {
        **{run.name: size_of(run.rows) for run in manifest.runs},
        **dict.fromkeys((name, *(link.name for link in manifest.older))),
    }


def sweep(
    state: StateDirectory,
    *,
    sink: str,
    epoch: int,
    manifests: Collection[str],
    indexes: Collection[Index] = (),
    age: float = _OLD,
) -> int:
    """Delete a sink's run and manifest files that no index reaches, and return their number.

    `manifests` are named by the last two checkpoints of a table that was just reloaded; `indexes` are in use. Files of
    other sinks or of epochs after `epoch` stay. Files of earlier epochs stay until they are `age` seconds old, because
    an earlier run of the sink may still read them. Never call it while the outcome of a commit is unknown.
    """
    folder = state.folder
    state.fetch(dict.fromkeys(manifests))
    reached = {name for index in indexes for name in index.reached}
    for name in manifests:
        reached.add(name)
        try:
            manifest = _manifest(folder / name)
        except (OSError, ValueError, msgspec.MsgspecError):
            continue  # lost or damaged: its files are unknown
        reached.update(_reached(name, manifest.runs, manifest.older))
    pattern = re.compile(rf"(?:[a-z]+\d*-)*{re.escape(sink)}-(\d+)-.+\.(?:run|index)")

    def epoch_of(name: str) -> int | None:
        manifest = pattern.fullmatch(name.lstrip("."))
        return int(manifest[1]) if manifest is not None else None

    live = {folder / name for name in reached}
    own_paths: list[Path] = []
    earlier: list[Path] = []
    for path in folder.iterdir():
        (own_paths if epoch_of(path.name) == epoch else earlier).append(path)
    removed = sorted_run.sweep(own_paths, live, epoch_of=epoch_of, epoch=epoch)
    removed += sorted_run.sweep(earlier, live, epoch_of=epoch_of, epoch=epoch, age=age)
    return removed + state.sweep(
        ("",), reached, epoch_of=epoch_of, epoch=epoch, age=lambda pattern: 0.0 if pattern == epoch else age
    )


def _reached(name: str, runs: Iterable[Run], older: Iterable[Link]) -> set[str]:
    return {name} | {run.name for run in runs} | {link.name for link in older}


def _is_complete(folder: Path, run: Run) -> bool:
    try:
        return (folder / run.name).stat().st_size == size_of(run.rows)
    except OSError:
        return False
