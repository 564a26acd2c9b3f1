"""The key index of an upsert sink: which runs and files it is made of. A cache of the table, never the truth.

How a writer uses it:

* At the start: `Index.load(folder, marker.index, key)`, and where that is None, `rebuild(…)`, also for a new table.
  Whenever the table's current snapshot is not the one that this writer just committed, so at the start too (a claim
  repeats the marker, others may have written before it): `catch_up(index, table, …)`, the index itself if it is true.
* `begin()`: an index is saved before a task is built from it, `index.save(folder)`: tasks read it from there.
* `commit()`: `new = index.after(results, epoch=…, commit=task.commit)`, then `new.save(folder)`, whose result goes
  into the marker as `index`, then the Iceberg commit. Done: `new` is the index from now on. Failed: the old one is.
  A conflict with a foreign commit that added or removed files: the attempt is to be redone on the index brought up to
  date, because new rows may have the same keys, or the files that delete files point at may be gone.
* Now and then: `sweep(…)`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from sinkql import faults
from sinkql.connector.stream import WriteResult
from sinkql.connectors.iceberg.result import UpsertResult
from sinkql.connectors.iceberg.run import Entries, merge, open_run, size_of

_VERSION = 1


class KeyColumn(msgspec.Struct, frozen=True):
    """A key column as the table has it; another type hashes otherwise."""

    name: str
    id: int
    type: str


class Run(msgspec.Struct, frozen=True):
    """A run file; its keys belong to `bucket` of `buckets` under `bucketing`. Bucket None: keys of any bucket."""

    name: str
    rows: int
    bucket: int | None = None
    buckets: int = 0
    bucketing: str = ""


class IndexedFile(msgspec.Struct, frozen=True, array_like=True):
    """A data file of the table: its path byte for byte, its rows, and how many of them are dead."""

    path: str
    rows: int
    dead: int = 0


class Index(msgspec.Struct, frozen=True):
    """The index as of one state of the table; runs come newest first, `deletes` are the delete files' paths.

    What is saved with a commit becomes true with it: valid iff the marker names it.
    """

    sink: str
    epoch: int
    commit: str
    key: tuple[KeyColumn, ...]
    runs: tuple[Run, ...] = ()
    files: dict[int, IndexedFile] = {}
    deletes: tuple[str, ...] = ()
    next_file_id: int = 0
    version: int = _VERSION

    @property
    def name(self) -> str:
        """Return the manifest's file name, unique to the attempt that makes it."""
        return f"{self.sink}-{self.epoch}-{self.commit}.index"

    @classmethod
    def load(cls, folder: Path, name: str, key: Sequence[KeyColumn]) -> Index | None:
        """Read a manifest; None where it, or a run, is missing or damaged, or is for another key: then rebuild."""
        try:
            index = read_manifest(folder / name)
        except (OSError, msgspec.MsgspecError):
            return None
        if index.version != _VERSION or index.key != tuple(key):
            return None
        return index if all(_whole(folder, run) for run in index.runs) else None

    def save(self, folder: Path) -> str:
        """Make the manifest durable, and return its name; saving the same again is no error, another one is."""
        data = msgspec.json.encode(self)
        path = folder / self.name
        if path.exists() and path.read_bytes() == data:
            return self.name
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        faults.point("index-manifest")
        return self.name

    def probed(self, bucket: int, *, buckets: int, bucketing: str) -> tuple[Run, ...]:
        """Return the runs that may hold a bucket's keys, newest first; those of another bucketing may hold any."""
        same = (buckets, bucketing)
        return tuple(run for run in self.runs if run.bucket in (None, bucket) or (run.buckets, run.bucketing) != same)

    def after(self, results: Iterable[WriteResult], *, epoch: int, commit: str) -> Index:
        """Return the index that is true once these results of one `UpsertTask` are committed; saves nothing.

        `results` hold at most one a bucket. Raises ValueError for results of a task on another index.
        """
        files, runs = dict(self.files), list(self.runs)
        deletes, next_file_id = list(self.deletes), self.next_file_id
        for result in results:
            data = result.data
            if not isinstance(data, UpsertResult):
                continue  # a bucket without rows
            if data.index != self.name:
                raise ValueError(f"a result on index {data.index}, not on {self.name}")
            if data.file is not None:
                assert data.file_id not in files, "two results of one bucket"
                files[data.file_id] = IndexedFile(data.file.path, data.file.rows)
            for file_id, dead in data.dead.items():
                known = files[file_id]
                files[file_id] = IndexedFile(known.path, known.rows, known.dead + dead)
            deletes += [entry.path for entry in data.deletes]
            next_file_id = max(next_file_id, data.file_id + 1)
            merged = set(data.merged)
            runs = [run for run in runs if run.name not in merged]
            if data.run is not None:
                runs.insert(0, Run(data.run, data.run_rows, result.bucket, data.buckets, data.bucketing))
        return msgspec.structs.replace(
            self,
            epoch=epoch,
            commit=commit,
            runs=tuple(runs),
            files=files,
            deletes=tuple(deletes),
            next_file_id=next_file_id,
        )

    def entries(self, folder: Path) -> Entries:
        """Return every live key, sorted, from all runs."""
        runs = [open_run(folder / run.name) for run in self.runs]
        return merge([Entries.none(), *runs], keep_tombstones=False)


def read_manifest(path: Path) -> Index:
    """Read a manifest file; raises OSError or msgspec.MsgspecError."""
    return msgspec.json.decode(path.read_bytes(), type=Index)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(
    folder: Path,
    *,
    sink: str,
    epoch: int,
    manifests: Collection[str],
    indexes: Collection[Index] = (),
    age: float = 3600.0,
) -> int:
    """Delete a sink's run and manifest files that nothing reaches, and return how many.

    `manifests` are those that the last two markers of a table just reloaded name, `indexes` those in use. Files of a
    later epoch than `epoch`, younger than `age` seconds, or of another sink stay. Never call it while the outcome of a
    commit is unknown.
    """
    kept = set(manifests) | {index.name for index in indexes} | {run.name for index in indexes for run in index.runs}
    for name in manifests:
        try:
            kept |= {run.name for run in read_manifest(folder / name).runs}
        except (OSError, msgspec.MsgspecError):
            continue  # named, but lost or damaged: it reaches nothing
    own = re.compile(rf"(?:[a-z]+\d*-)?{re.escape(sink)}-(\d+)-.+\.(?:run|index)")
    deleted = 0
    for path in folder.iterdir():
        match = own.fullmatch(path.name)
        if match is None or path.name in kept or int(match[1]) > epoch:
            continue
        if time.time() - path.stat().st_mtime >= age:
            path.unlink(missing_ok=True)
            deleted += 1
    return deleted


def _whole(folder: Path, run: Run) -> bool:
    try:
        return (folder / run.name).stat().st_size == size_of(run.rows)
    except OSError:
        return False
