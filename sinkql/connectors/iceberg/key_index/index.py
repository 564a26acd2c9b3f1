"""The key index of an upsert sink: which runs and files it is made of. A cache of the table, never the truth.

How a writer uses it:

* At the start: `Index.load(folder, marker.index, key)`, and where that is None, `rebuild(…)`, also for a new table.
  Whenever the table's current snapshot is not the one that this writer just committed, so at the start too (a claim
  repeats the marker, others may have written before it): `catch_up(index, table, …)`, the index itself if it is true.
* `begin()`: an index is saved before a task is built from it, `index.save(folder)`: tasks read it from there.
* `commit()`: `new = index.after(changes, epoch=…, commit=task.commit)`, then `new.save(folder)`, whose result goes
  into the marker as `index`; `home.keep(new.reached)`, then the Iceberg commit. Done: `new` is the index from now on.
  Failed: the old one is.
  A conflict with a foreign commit that added or removed files: the attempt is to be redone on the index brought up to
  date, because new rows may have the same keys, or the files that delete files point at may be gone.
* Now and then: `sweep(…)`.
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
    """A run file; its keys belong to `bucket` of `buckets` under `bucketing`. Bucket None: keys of any bucket.

    `files` are the least and the greatest number of a data file that it may name, where that is known.
    """

    name: str
    rows: int
    bucket: int | None = None
    buckets: int = 0
    bucketing: str = ""
    files: tuple[int, int] | None = None

    @property
    def mixed(self) -> bool:
        """Tell whether its keys are of any bucket."""
        return self.bucket is None

    def may_name(self, files: Iterable[int]) -> bool:
        """Tell whether it may name one of these files."""
        return self.files is None or any(self.files[0] <= number <= self.files[1] for number in files)


class Link(msgspec.Struct, frozen=True, array_like=True):
    """An older manifest whose layer counts still, and the digest of its content."""

    name: str
    digest: str


class IndexChange(msgspec.Struct, frozen=True):
    """What a task's files change in the index `index`: those of one bucket of `buckets` under `bucketing`.

    `files` are the new data files by number; `dead` counts rows that died, by file id; `deletes` are the new delete
    files' paths, each with the ids of the data files that it names. A file of which every row is dead leaves the
    table, so no delete file needs to name it. `run` holds the bucket's new entries and takes the place of the older
    runs named in `merged`. With `whole`, what names a file has all its dead rows, and takes the place of what did so
    before, as deletion vectors do.
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
    """A delete file made of others: its path, how many positions it has, and the numbers of the files it names."""

    path: str
    rows: int
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a compaction changes: data files `removed`, new `files` of their live rows, and `runs` that say where.

    Delete files `merged` become `deletes`, which name what is left of their targets.
    """

    removed: frozenset[int]
    files: dict[int, FileRecord]
    runs: tuple[Run, ...]
    merged: frozenset[int]
    deletes: tuple[MergedDeletes, ...]


class _Manifest(msgspec.Struct, frozen=True):
    """What is in a manifest's file, after its digest; `older` are the manifests whose layers lie below its own.

    `hashed` tells which secret the keys are hashed with.
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
    """The index as of one state of the table; runs and layers come newest first.

    `older` are the manifests that hold the layers below the first. `idle` are paths of files in the table that hold
    nothing any more, and leave it with the next commit; `leaving` are those that leave it with this one.
    What is saved with a commit becomes true with it: valid iff the marker names it.
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
        """Return the manifest's file name, unique to the attempt that makes it."""
        return f"{self.sink}-{self.epoch}-{self.commit}.index"

    @cached_property
    def files(self) -> dict[int, FileRecord]:
        """Return all data files with live rows, by number."""
        found = merged(self.layers, whole=True).files
        return {number: note for number, note in found.items() if note is not None}

    @cached_property
    def deletes(self) -> dict[int, DeleteRecord]:
        """Return all delete files that name a data file of the table, by number."""
        found = merged(self.layers, whole=True).deletes
        return {number: note for number, note in found.items() if note is not None}

    @property
    def reached(self) -> set[str]:
        """Return the names of the manifests and runs that it is made of."""
        return _reached(self.name, self.runs, self.older)

    def paths(self) -> set[str]:
        """Return the paths of all files that the table has."""
        files = {note.path for note in self.files.values()}
        return files | {note.path for note in self.deletes.values()} | set(self.idle)

    def delete(self, number: int) -> DeleteRecord:
        """Return a delete file; raises KeyError for one that is not in the table."""
        found = delete_of(self.layers, number)
        if found is None:
            raise KeyError(number)
        return found

    def file(self, number: int) -> FileRecord:
        """Return a data file; raises KeyError for one that is not in the table."""
        found = file_of(self.layers, number)
        if found is None:
            raise KeyError(number)
        return found

    @classmethod
    def load(
        cls, folder: Path, name: str, key: Sequence[KeyColumn], *, runs: bool = True, hash_key: HashKey = PUBLIC_KEY
    ) -> Index | None:
        """Read a manifest; None where it, or what it names, is missing or damaged, or of another key: then rebuild.

        So it is where its keys are hashed otherwise.

        Without `runs` these may be elsewhere.
        """
        try:
            index = replace(_read(folder, name, hashed=hash_key.fingerprint), hash_key=hash_key)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        if index.key != tuple(key):
            return None
        return index if not runs or all(_whole(folder, run) for run in index.runs) else None

    def save(self, folder: Path) -> str:
        """Make the manifest durable, and return its name; saving the same again is allowed, another one is an error."""
        path = folder / self.name
        if path.exists():
            if path.read_bytes() != self._data:
                raise FileExistsError(path)
            return self.name
        storage_files.write_atomic(path, self._data)
        failpoint.point("index-manifest")
        return self.name

    def probed(self, bucket: int, *, buckets: int, bucketing: str) -> tuple[Run, ...]:
        """Return the runs that may hold a bucket's keys, newest first; those of another bucketing may hold any."""
        same = (buckets, bucketing)
        return tuple(run for run in self.runs if run.bucket in (None, bucket) or (run.buckets, run.bucketing) != same)

    def after(self, changes: Iterable[IndexChange], *, epoch: int, commit: str) -> Index:
        """Return the index that is true once what these tasks wrote is committed; saves nothing.

        `changes` are at most one a bucket. Raises ValueError for one of another index.
        """
        step = _Step(self)
        merged: set[str] = set()
        fresh: list[Run] = []
        for change in changes:
            if change.index != self.name:
                raise ValueError(f"a change of index {change.index}, not of {self.name}")
            step.take(change)
            merged.update(change.merged)
            if change.run is not None:
                fresh.append(change.run)
        kept = (run for run in self.runs if run.name not in merged)
        step.bury()
        return self._stepped(step, epoch=epoch, commit=commit, runs=(*reversed(fresh), *kept))

    def rewritten(self, rewrite: Rewrite, *, epoch: int, commit: str) -> Index:
        """Return the index that is true once a compaction is committed; saves nothing."""
        step = _Step(self)
        step.move(rewrite)
        return self._stepped(step, epoch=epoch, commit=commit, runs=(*rewrite.runs, *self.runs))

    def _stepped(self, step: _Step, *, epoch: int, commit: str, runs: tuple[Run, ...]) -> Index:
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
        """Return the index below a new layer, merged with the newest older ones when it is time."""
        layers = (layer, *self.layers)
        older = (Link(self.name, self._digest), *self.older)
        length = TIERS.due(each.size for each in layers)
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
    """What one commit changes about the files of an index."""

    def __init__(self, index: Index) -> None:
        self._layers = index.layers
        self.layer = Layer({}, {})
        self.idle: list[str] = []
        self.leaving: set[str] = set()
        self.next_file_id, self.next_delete_id = index.next_file_id, index.next_delete_id
        self._dead: Counter[int] = Counter()
        self._named: dict[int, tuple[int, ...]] = {}
        self._whole = False

    def take(self, change: IndexChange) -> None:
        """Note a task's files."""
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
        self._whole |= change.whole

    def bury(self) -> None:
        """Find the files that hold nothing any more: no live row, or no position in a file of the table."""
        released: Counter[int] = Counter()
        for number, dead in self._dead.items():
            known = file_of(self._layers, number)
            assert known is not None, "dead rows of a file that is gone"
            note = FileRecord("", 0, dead, self._named.get(number, ()))
            whole = known + note
            assert whole.dead <= whole.rows, "more dead rows than rows"
            if whole.dead == whole.rows:
                self.layer.files[number] = None
                self.leaving.add(whole.path)
                released.update(whole.deletes)
            elif self._whole:
                self.layer.files[number] = structs.replace(whole, deletes=note.deletes, again=True)
                released.update(known.deletes)
            else:
                self.layer.files[number] = note
        for number, count in released.items():
            self._release(number, count)

    def move(self, rewrite: Rewrite) -> None:
        """Note what a compaction does."""
        released: Counter[int] = Counter()
        for number in rewrite.removed:
            known = file_of(self._layers, number)
            assert known is not None, "a file that is gone was written again"
            self.layer.files[number] = None
            self.leaving.add(known.path)
            released.update(known.deletes)
        self.layer.files.update(rewrite.files)
        self.next_file_id = max((self.next_file_id, *(number + 1 for number in rewrite.files)))
        for number in rewrite.merged:
            merged = delete_of(self._layers, number)
            assert merged is not None, "a delete file that is gone was merged"
            self.layer.deletes[number] = None
            self.leaving.add(merged.path)
        for each in rewrite.deletes:
            self._name_anew(each, rewrite.merged)
        for number, count in released.items():
            if number not in rewrite.merged:
                self._release(number, count)

    def _name_anew(self, deletes: MergedDeletes, merged: frozenset[int]) -> None:
        self.layer.deletes[self.next_delete_id] = DeleteRecord(deletes.path, len(deletes.targets), deletes.rows)
        for target in deletes.targets:
            known = self.layer.files.get(target) or file_of(self._layers, target)
            assert known is not None, "a file that is gone was named"
            left = (number for number in known.deletes if number not in merged)
            self.layer.files[target] = structs.replace(known, deletes=(*left, self.next_delete_id), again=True)
        self.next_delete_id += 1

    def _release(self, number: int, count: int) -> None:
        fresh = self.layer.deletes.get(number)
        known = fresh or delete_of(self._layers, number)
        assert known is not None, "a file named by a delete file that is gone"
        left = known.targets - count
        if fresh and left:
            self.layer.deletes[number] = DeleteRecord(known.path, left, known.rows)
        elif fresh:  # it comes with this very commit, so it leaves with the next
            del self.layer.deletes[number]
            self.idle.append(known.path)
        elif left:
            self.layer.deletes[number] = DeleteRecord("", -count)
        else:
            self.layer.deletes[number] = None
            self.leaving.add(known.path)


@lru_cache(maxsize=8)
def open_index(folder: Path, name: str) -> Index:
    """Read a saved manifest for the tasks of a batch, which in one process read it once; SQ3411 where it is lost."""
    try:
        return _read(folder, name, layer_of=_known_layer)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise _damaged("manifest", name, str(error)) from error


def fetched_index(home: StateDirectory, name: str) -> Index:
    """Read a manifest that was saved for tasks, wherever this one runs; raises SQ3411."""
    if not home.remote:
        return open_index(home.folder, name)
    try:
        return _fetched_index(home, name)
    except LostIndexError:  # its copies here may be damaged, those of the store are not
        home.mark_lost(path.name for path in home.folder.glob("*.index"))
        return _fetched_index(home, name)


def _fetched_index(home: StateDirectory, name: str) -> Index:
    home.fetch({name: None})
    home.fetch({each: None for each, size in files(home.folder, name).items() if size is None})
    return open_index(home.folder, name)


def fetch_runs(home: StateDirectory, runs: Iterable[Run]) -> None:
    """Have runs that tasks have written elsewhere in the folder; raises SQ3411 for one that is lost."""
    if home.remote and (lost := home.fetch({run.name: size_of(run.rows) for run in runs})):
        raise _damaged("run", lost[0], f"{home.store} does not have it")


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
        raise ValueError(f"{name}: its keys are hashed with another secret")
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
def _known_layer(path: Path, digest: str) -> Layer:
    """Return the layer of an older manifest, which many batches have in common."""
    return _layer(path, digest)


def _manifest(path: Path, digest: str | None = None) -> _Manifest:
    data = path.read_bytes()
    said, body = data[:_DIGEST].decode(), data[_DIGEST:]
    if said != xxhash.xxh3_128_hexdigest(body) or said != (digest or said):
        raise ValueError(f"{path}: its content is not what its digest says")
    manifest = codec.decoder(_Manifest).decode(body)
    if manifest.version != _VERSION:
        raise ValueError(f"{path}: version {manifest.version}, expected {_VERSION}")
    return manifest


def files(folder: Path, name: str) -> dict[str, int | None]:
    """Return the files that a saved manifest names, and itself, each with its size where that is known.

    Of one that is missing or damaged nothing is known.
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
    home: StateDirectory,
    *,
    sink: str,
    epoch: int,
    manifests: Collection[str],
    indexes: Collection[Index] = (),
    age: float = _OLD,
) -> int:
    """Delete a sink's run and manifest files that nothing reaches, and return how many.

    `manifests` are those that the last two markers of a table just reloaded name, `indexes` those in use. Files of a
    later epoch than `epoch` or of another sink stay; those of earlier ones until they are `age` seconds old, for an
    earlier run of the sink may still look at them. Never call it while the outcome of a commit is unknown.
    """
    folder = home.folder
    home.fetch(dict.fromkeys(manifests))
    kept = {name for index in indexes for name in index.reached}
    for name in manifests:
        kept.add(name)
        try:
            found = _manifest(folder / name)
        except (OSError, ValueError, msgspec.MsgspecError):
            continue  # named, but lost or damaged: it reaches nothing
        kept.update(_reached(name, found.runs, found.older))
    own = re.compile(rf"(?:[a-z]+\d*-)*{re.escape(sink)}-(\d+)-.+\.(?:run|index)")

    def epoch_of(name: str) -> int | None:
        found = own.fullmatch(name.lstrip("."))
        return int(found[1]) if found is not None else None

    live = {folder / name for name in kept}
    mine: list[Path] = []
    earlier: list[Path] = []
    for path in folder.iterdir():
        (mine if epoch_of(path.name) == epoch else earlier).append(path)
    removed = sorted_run.sweep(mine, live, epoch_of=epoch_of, epoch=epoch)
    removed += sorted_run.sweep(earlier, live, epoch_of=epoch_of, epoch=epoch, age=age)
    return removed + home.sweep(
        ("",), kept, epoch_of=epoch_of, epoch=epoch, age=lambda own: 0.0 if own == epoch else age
    )


def _reached(name: str, runs: Iterable[Run], older: Iterable[Link]) -> set[str]:
    return {name} | {run.name for run in runs} | {link.name for link in older}


def _whole(folder: Path, run: Run) -> bool:
    try:
        return (folder / run.name).stat().st_size == size_of(run.rows)
    except OSError:
        return False
