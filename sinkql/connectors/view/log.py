"""Read and write the log of a view: its entries, its files, and the positions of its readers.

Entry n is file n of `log` (`sinkql.storage.numbered_log`), and holds all of a commit. If two processes write the same
entry, one succeeds, and its competitor reads that entry. `sinkql.connectors.view.reader_positions` has the positions of
the readers; entries and files that a reader still needs are not deleted.

The log of a view whose cluster has STATE lies there, and any host can read it. Each host has a folder for it, as a
cache.

When the cluster of a view gets STATE, or the view moves to a cluster with STATE, its log moves there from the catalog's
folder. Entries keep their numbers and ids, so that readers continue in them. Until all entries are there, the file
`MOVING` tells readers to wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_hexdigest

from sinkql import codec, physical
from sinkql.connector_api.stream import Checkpoint, Context
from sinkql.connectors.view.options import read_options
from sinkql.connectors.view.reader_positions import READERS, ReaderPositions
from sinkql.errors import GoneError, SinkqlError
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.object_store.store import ObjectStore
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.numbered_log import StoredNumbered
from sinkql.state_store.store import ObjectStateStore, open_state_store
from sinkql.storage import files
from sinkql.storage.numbered_log import ENTRY_NAMES, EntryLog, FolderNumberedLog

_CACHED = 1000
_LOG = "log"


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A file of changes of a bucket. `merges` is 0 for the changes of a single commit; old runs have no `digest`."""

    bucket: int
    file: str
    rows: int
    bytes: int
    merges: int = 0
    digest: str = ""


class StoredRun(NamedTuple):
    """A run as it was written; old runs have no digest."""

    path: Path
    bytes: int
    digest: str


MOVING = "moving"
"""The file that exists while a log moves to STATE."""
_STORED = "stored"
"""The folder of a log with STATE, in the folder of its view."""

Contents = Mapping[str, Sequence[Run]]
"""The runs that add up to a view's rows, oldest first, by bucket."""


class Entry(msgspec.Struct, frozen=True):
    """A commit: the checkpoint `marker`, the changes, and the contents after it.

    `at` is its time in ms, and always grows. `id` distinguishes entries of one number in different logs. The runs have
    the columns `columns` with their types since the entry `begins`. `indexes` are the indexes in the state of the
    checkpoint. `changed` is the number of the last entry with changes, this or an earlier one; `buckets` is the number
    of buckets.
    """

    marker: Checkpoint
    id: str
    at: int
    changed: int
    runs: tuple[Run, ...] = ()
    contents: dict[str, tuple[Run, ...]] = {}
    buckets: int | None = None
    columns: tuple[tuple[str, str], ...] = ()
    begins: int = 0
    indexes: tuple[str, ...] = ()

    @property
    def content_runs(self) -> Iterator[Run]:
        """Yield the runs of the contents."""
        for runs in self.contents.values():
            yield from runs

    @property
    def size(self) -> int:
        """Return the bytes of its changes."""
        return sum(run.bytes for run in self.runs)


# created at import: two threads that first decode a type together crash the process
_ENTRIES = codec.decoder(Entry)
_SEAL = re.compile(rb',"seal":"([0-9a-f]{16})"\}$')


def view_folder(base: Path, view_id: str) -> Path:
    """Return the folder of a view in the folder of a catalog."""
    return base / "views" / view_id


def position_path(view_id: str, reader: str) -> str:
    """Return the path in STATE of a reader's position in a view's log."""
    return f"{view_id}/{_LOG}/{READERS}/{reader}"


def view_state(read: physical.Read) -> physical.StatePath | None:
    """Return STATE of the cluster of the view that is read."""
    path = read_options(read.options).tuning.state
    return physical.StatePath(path, read.log) if path is not None else None


def open_log(view_id: str, context: Context, state: physical.StatePath | None) -> ViewLog:
    """Return the log of a view of the job's catalog; `state` is STATE of the view's cluster."""
    log = view_log(view_id, context.folder.parent.parent, state, context.store)
    return log.for_remote() if context.remote else log


def view_log(
    view_id: str, base: Path, state: physical.StatePath | None, open_store: Callable[[physical.Connection], ObjectStore]
) -> ViewLog:
    """Return the log of a view of the catalog in a folder."""
    folder = view_folder(base, view_id)
    if state is None:
        return ViewLog(folder)
    store = open_state_store(state, f"{view_id}/{_LOG}", open_store)
    return ViewLog.of(StateDirectory(folder / _STORED, store))


@dataclass(frozen=True, slots=True)
class ViewLog:
    """The entries and readers of the view in a folder; `shared` has the folder and a store if the log lies in one."""

    folder: Path
    shared: StateDirectory | None = None
    directory: StateDirectory = field(init=False, compare=False, repr=False)
    positions: ReaderPositions = field(init=False, compare=False, repr=False)
    _entries: EntryLog[Entry] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        directory = self.shared or StateDirectory(self.folder)
        folder = self.folder / _LOG
        numbered = FolderNumberedLog(folder) if directory.store is None else StoredNumbered(directory, _LOG)
        object.__setattr__(self, "directory", directory)
        object.__setattr__(self, "positions", ReaderPositions(directory))
        object.__setattr__(
            self, "_entries", EntryLog(numbered, _encode, partial(_decode, folder), _CACHED, "view-entry")
        )

    @classmethod
    def of(cls, directory: StateDirectory) -> ViewLog:
        """Return the log in a state directory."""
        return cls(directory.folder, directory)

    def __reduce__(self) -> tuple[Callable[[StateDirectory], ViewLog], tuple[StateDirectory]]:
        return ViewLog.of, (self.directory.for_tasks(),)

    def for_remote(self) -> ViewLog:
        """Return the log for a job whose tasks run on other machines."""
        return ViewLog.of(StateDirectory(self.folder, self.directory.store, remote=self.directory.store is not None))

    @property
    def before(self) -> ViewLog | None:
        """The log that the view had before its cluster had STATE; None without STATE."""
        return ViewLog(self.folder.parent) if self.directory.store is not None else None

    @property
    def is_shared(self) -> bool:
        """Whether any machine can read the log."""
        return isinstance(self.directory.store, ObjectStateStore)

    def numbers(self) -> list[int]:
        """Return the numbers of the present entries in order."""
        return self._entries.files.numbers()

    def last(self) -> int:
        """Return the number of the last entry, 0 without entries."""
        return self._entries.files.last()

    def entry(self, number: int) -> Entry | None:
        """Return an entry; None if it is missing or was deleted."""
        return self._entries.entry(number)

    def refresh(self) -> None:
        """Read the entries that other hosts have published."""
        if isinstance(files := self._entries.files, StoredNumbered):
            files.look()

    def newest(self) -> tuple[int, Entry] | None:
        """Return the last entry with its number; None without entries."""
        return self._entries.newest()

    def publish(self, number: int, entry: Entry) -> bool:
        """Publish an entry durably; return False if another process published that number first."""
        return self._entries.add(number, entry)

    def remove(self, number: int) -> None:
        """Delete an entry and all before it; a process cannot publish them again."""
        self._entries.begin_at(number + 1)

    @property
    def spill(self) -> Path:
        """Return the folder for rows that do not fit into memory."""
        return self.folder / "spill"

    def run_path(self, run: Run) -> Path:
        """Return the path of a run."""
        return self.folder / run_file(run)

    def stored_runs(self, runs: Iterable[Run]) -> Iterator[StoredRun]:
        """Yield the paths, sizes and digests of runs."""
        for run in runs:
            yield StoredRun(self.run_path(run), run.bytes, run.digest)

    def fetch_runs(self, runs: Iterable[Run]) -> None:
        """Fetch runs into the folder; raise FileNotFoundError if one is gone."""
        sizes = {run_file(run): run.bytes for run in runs}
        if missing := self.directory.fetch(sizes):
            raise FileNotFoundError(missing[0])
        self.directory.touch_files(sizes)

    @property
    def is_moving(self) -> bool:
        """Whether the log is moving to STATE, so that some entries may be missing."""
        return self.directory.store is not None and self.directory.store.get(MOVING, BytesIO()) is not None

    def delete_file(self, name: str) -> None:
        """Delete a file beside the entries."""
        self.directory.delete([name])

    # --- readers -----------------------------------------------------------------------------------------------------

    def set_position(self, reader: str, at: int, *, passing: bool = False) -> None:
        """Set the position of a reader: later entries, and the contents at the position, are retained for it."""
        if self.positions.put(reader, at, passing=passing):
            self.refresh()
            self.directory.evict_unused()


def _encode(entry: Entry) -> bytes:
    """Return an entry as JSON, with its digest appended."""
    data = msgspec.json.encode(entry)
    return data[:-1] + b',"seal":"' + xxh3_64_hexdigest(data).encode() + b'"}'


def _decode(folder: Path, number: int, data: bytes) -> Entry:
    """Return the entry of its bytes; raise SQ3452 if they have changed."""
    seal = _SEAL.search(data)
    try:
        if seal is not None and xxh3_64_hexdigest(data[: seal.start()] + b"}") != seal[1].decode():
            raise ValueError("its content has changed")
        return _ENTRIES.decode(data)
    except (ValueError, msgspec.MsgspecError) as error:
        raise damaged_error(folder / ENTRY_NAMES.name(number), str(error)) from error


def damaged_error(path: Path, why: str) -> SinkqlError:
    """Return the error for a file of a view that has changed."""
    return SinkqlError(
        "SQ3452",
        f'file "{path.name}" of a materialized view is damaged',
        detail=f"{path}: {why}",
        hint="Restore the file from a copy. Or delete it: the view's job recomputes its rows at its next start.",
    )


def expired_log_error(view: str, hint: str = "The present rows are read instead.") -> SinkqlError:
    """Return the error for rows that were deleted before they were read."""
    from sinkql.planner.name import short_name  # for messages only: the planner is large

    return GoneError(
        "SQ3451",
        f'materialized view "{short_name(view)}" no longer has the rows of the commit that was read',
        hint=hint,
    )


def run_file(run: Run) -> str:
    """Return the path of a run in the folder of its view."""
    return f"runs/b{run.bucket}/{run.file}"


def entry_after(before: tuple[int, Entry] | None, checkpoint: Checkpoint, id_: str) -> tuple[int, Entry]:
    """Return the next entry, without changes, and its number."""
    now = clock.time_ms()
    if before is None:
        return 1, Entry(checkpoint, id_, now, 0)
    number, last = before
    return number + 1, msgspec.structs.replace(last, marker=checkpoint, id=id_, at=max(now, last.at + 1), runs=())


def changed_runs(number: int, entry: Entry, runs: Sequence[Run], contents: Contents, buckets: int) -> Entry:
    """Return an entry with changes; `contents` are the runs after it, for the buckets that changed."""
    after = {**entry.contents, **{bucket: tuple(bucket_runs) for bucket, bucket_runs in contents.items()}}
    changed = number if runs else entry.changed
    return msgspec.structs.replace(entry, runs=tuple(runs), contents=after, changed=changed, buckets=buckets)


def migrate_log(log: ViewLog) -> None:
    """Move the entries that only the catalog's folder has to the log in STATE."""
    before = log.before
    if before is None:
        return
    newest, last = log.newest(), before.newest()
    number = newest[0] if newest is not None else 0
    if last is not None and last[0] > number:
        same = before.entry(number)
        # otherwise the logs have diverged, and the view is computed from the log in STATE
        if newest is None or (same is not None and same.id == newest[1].id):
            log.directory.upload_bytes(MOVING, b"")
            _move_entries(log, before, number)
    if log.is_moving:
        log.delete_file(MOVING)


def _move_entries(log: ViewLog, before: ViewLog, number: int) -> None:
    last = _fence(before)
    contents = list(last.content_runs) if last is not None else []
    if not all(before.run_path(run).exists() for run in contents):
        return
    log.positions.copy_from(before.positions)
    for path in (before.folder / "attached").rglob("*"):
        if path.is_file():
            log.directory.write_small(path.relative_to(before.folder).as_posix(), path.read_bytes())
    _copy_runs(log, before, contents)
    for later in before.numbers():
        entry = before.entry(later) if later > number else None
        if entry is not None:
            _copy_runs(log, before, entry.runs)
            if not log.publish(later, entry):
                return


def _fence(before: ViewLog) -> Entry | None:
    """Claim the old log, so that no process continues in it; return its last entry, None without entries."""
    while (last := before.newest()) is not None:
        claim = new_id()
        number, entry = entry_after(last, replace(last[1].marker, claim=claim), claim)
        if before.publish(number, entry):
            return entry
    return None


def _copy_runs(log: ViewLog, before: ViewLog, runs: Iterable[Run]) -> None:
    """Copy the files of the old log that exist; a reader that needs a deleted one reads the contents."""
    names = []
    for run in runs:
        path = log.run_path(run)
        if not path.exists() and before.run_path(run).exists():
            with before.run_path(run).open("rb") as data:
                files.create_new(path, data)
        if path.exists():
            names.append(run_file(run))
    log.directory.ensure_uploaded(names)
