"""A view's folder ↔ the entries of its log, and the places of those that read it.

Entry n is file n of `log` (`sinkql.storage.numbered_log`), all that a commit says: of two that would write the same one
does, and the other reads who it was. `sinkql.connectors.view.reader_positions` has how far readers are; nothing that
one still needs goes.

The log of a view whose cluster has STATE lies there, and any host reads it. Each host has a folder for it, which is a
cache.

A view whose cluster gets STATE, or that goes to one with it → its log goes on there, from the catalog's folder.

Entries keep their numbers and ids, so that readers go on in them; while some are there and others not, the file
`MOVING` tells them to wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
from xxhash import xxh3_64_hexdigest

from sinkql import codec, physical
from sinkql.connector_api.stream import Checkpoint, Context
from sinkql.connectors.view.reader_positions import READERS, ReaderPositions
from sinkql.errors import GoneError, SinkqlError
from sinkql.object_store.store import ObjectStore
from sinkql.planner.name import short_name
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.numbered_log import StoredNumbered
from sinkql.state_store.store import ObjectStateStore, open_state_store
from sinkql.storage import failpoint, files
from sinkql.storage.numbered_log import FolderNumberedLog, NumberedLog, file_name

_CACHED = 1000
_LOG = "log"


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A file of changes of rows in a bucket; `merges` is 0 for one of a single commit; older ones have no `digest`."""

    bucket: int
    file: str
    rows: int
    bytes: int
    merges: int = 0
    digest: str = ""


class Stored(NamedTuple):
    """A file of changes as it was written; older ones have no digest."""

    path: Path
    bytes: int
    digest: str


MOVING = "moving"
"""The file that is there while a log is taken to STATE."""
_STORED = "stored"
"""The folder of a log that lies in a store, in that of its view."""

Contents = Mapping[str, Sequence[Run]]
"""The runs that add up to a view's rows, oldest first, by bucket."""


class Entry(msgspec.Struct, frozen=True):
    """A commit: the `marker`, its changes, and the contents after it; `at` is when it was, in ms, growing.

    `id` tells it from one of its number in another log. The runs have the columns `columns`, with their types, since
    the entry `begins`. `indexes` are those that the state of the marker has, as of this entry.
    `changed` is the number of the last entry that has changes, this one or one before; `buckets` is how many there are.
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
    def kept(self) -> Iterator[Run]:
        """Yield the runs of the contents."""
        for runs in self.contents.values():
            yield from runs

    @property
    def size(self) -> int:
        """Return the bytes of its changes."""
        return sum(run.bytes for run in self.runs)


# made with the module: threads that are the first to decode a type, and at once, end the process
_ENTRIES = codec.decoder(Entry)
_SEAL = re.compile(rb',"seal":"([0-9a-f]{16})"\}$')


def view_folder(base: Path, view_id: str) -> Path:
    """Return where a view is kept, in the folder of a catalog."""
    return base / "views" / view_id


def pins_part(view_id: str, reader: str) -> str:
    """Return the part of STATE that has how far a reader is in a view's log."""
    return f"{view_id}/{_LOG}/{READERS}/{reader}"


def state_of(read: physical.Read) -> physical.StatePath | None:
    """Return STATE of the cluster of a view whose log is read."""
    path = read.options.get("tuning", {}).get("state")
    return physical.StatePath(path, read.log) if path is not None else None


def open_log(view_id: str, context: Context, state: physical.StatePath | None) -> ViewLog:
    """Return a view's log, of the catalog that a job's folder is in; `state` is STATE of the view's cluster."""
    log = kept_log(view_id, context.folder.parent.parent, state, context.store)
    return log.for_remote() if context.remote else log


def kept_log(
    view_id: str, base: Path, state: physical.StatePath | None, open_store: Callable[[physical.Connection], ObjectStore]
) -> ViewLog:
    """Return a view's log, of the catalog in a folder."""
    folder = view_folder(base, view_id)
    if state is None:
        return ViewLog(folder)
    store = open_state_store(state, f"{view_id}/{_LOG}", open_store)
    return ViewLog.of(StateDirectory(folder / _STORED, store))


@dataclass(frozen=True, slots=True)
class ViewLog:
    """Entries and readers of the view in a folder; `kept` has it and a store, where the log is in one."""

    folder: Path
    kept: StateDirectory | None = None
    home: StateDirectory = field(init=False, compare=False, repr=False)
    pins: ReaderPositions = field(init=False, compare=False, repr=False)
    _known: dict[int, Entry] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", self.kept or StateDirectory(self.folder))
        object.__setattr__(self, "pins", ReaderPositions(self.home))

    @classmethod
    def of(cls, home: StateDirectory) -> ViewLog:
        """Return the log in a folder, and in its store."""
        return cls(home.folder, home)

    def __reduce__(self) -> tuple[Callable[[StateDirectory], ViewLog], tuple[StateDirectory]]:
        return ViewLog.of, (self.home.for_tasks(),)

    def for_remote(self) -> ViewLog:
        """Return it for a job whose tasks run on other machines."""
        return ViewLog.of(StateDirectory(self.folder, self.home.store, remote=self.home.store is not None))

    @property
    def before(self) -> ViewLog | None:
        """The log that the view had before its cluster had STATE; None where it has none."""
        return ViewLog(self.folder.parent) if self.home.store is not None else None

    @property
    def everywhere(self) -> bool:
        """Whether any machine reaches the log."""
        return isinstance(self.home.store, ObjectStateStore)

    @property
    def _files(self) -> NumberedLog:
        return FolderNumberedLog(self.folder / _LOG) if self.home.store is None else StoredNumbered(self.home, _LOG)

    def numbers(self) -> list[int]:
        """Return the numbers of the entries that are there, in order."""
        return self._files.numbers()

    def last(self) -> int:
        """Return the number of the last entry, 0 where there is none."""
        return self._files.last()

    def entry(self, number: int) -> Entry | None:
        """Return an entry; None where it is not there, or not any more."""
        found = self._known.get(number)
        if found is not None:
            return found if self._files.exists(number) else None
        data = self._files.read(number)
        if data is None:
            return None
        found = self._known[number] = _decoded(data, self.folder / _LOG / file_name(number))
        for old in [each for each in list(self._known) if each < number - _CACHED]:
            self._known.pop(old, None)
        return found

    def look(self) -> None:
        """Have what other hosts have made by now."""
        if isinstance(files := self._files, StoredNumbered):
            files.look()

    def newest(self) -> tuple[int, Entry] | None:
        """Return the last entry with its number; None where there is none."""
        while number := self.last():
            found = self.entry(number)
            if found is not None:
                return number, found
        return None

    def publish(self, number: int, entry: Entry) -> bool:
        """Make an entry, durably; tell whether it is the log's: there may be one of its number, or may have been."""
        failpoint.point("view-entry")
        if not self._files.create(number, _sealed(msgspec.json.encode(entry))):
            return False
        failpoint.point("view-entry-made")
        if not self._files.stays(number):
            return False  # one of its number was there, and has gone, while this process slept
        self._known[number] = entry
        return True

    def remove(self, number: int) -> None:
        """Delete an entry and all before it; whoever makes one of them again, it is not there."""
        self._files.begin_at(number + 1)
        for old in [each for each in list(self._known) if each <= number]:
            self._known.pop(old, None)

    @property
    def spill(self) -> Path:
        """Return where rows may be put by that are too many for memory."""
        return self.folder / "spill"

    def run_path(self, run: Run) -> Path:
        """Return where a run is."""
        return self.folder / run_file(run)

    def stored(self, runs: Iterable[Run]) -> Iterator[Stored]:
        """Yield where runs are, and what tells that they are as they were written."""
        for run in runs:
            yield Stored(self.run_path(run), run.bytes, run.digest)

    def bring(self, runs: Iterable[Run]) -> None:
        """Have runs in the folder; raises FileNotFoundError where one is gone."""
        sizes = {run_file(run): run.bytes for run in runs}
        if missing := self.home.fetch(sizes):
            raise FileNotFoundError(missing[0])
        self.home.touch_files(sizes)

    @property
    def moving(self) -> bool:
        """Whether the log is being taken to where it is, so that not all of its entries are there yet."""
        return self.home.store is not None and self.home.store.get(MOVING, BytesIO()) is not None

    def forget(self, name: str) -> None:
        """Delete a file beside the entries."""
        self.home.delete([name])

    # --- readers -----------------------------------------------------------------------------------------------------

    def pin(self, reader: str, at: int, *, passing: bool = False) -> None:
        """Say how far a reader is: what comes after that stays for it, and the contents then."""
        if self.pins.put(reader, at, passing=passing):
            self.look()
            self.home.evict_unused()


def _sealed(data: bytes) -> bytes:
    """Return an entry with a digest of it at its end."""
    return data[:-1] + b',"seal":"' + xxh3_64_hexdigest(data).encode() + b'"}'


def _decoded(data: bytes, path: Path) -> Entry:
    """Return what an entry says; raises SQ3452 where it is not as it was written."""
    seal = _SEAL.search(data)
    try:
        if seal is not None and xxh3_64_hexdigest(data[: seal.start()] + b"}") != seal[1].decode():
            raise ValueError("it is not as it was written")
        return _ENTRIES.decode(data)
    except (ValueError, msgspec.MsgspecError) as error:
        raise damaged(path, str(error)) from error


def damaged(path: Path, why: str) -> SinkqlError:
    """Return the error for a file of a view that does not say what was written."""
    return SinkqlError(
        "SQ3452",
        f'file "{path.name}" of a materialized view is damaged',
        detail=f"{path}: {why}",
        hint="Put the file back from a copy. Or delete it: the view's job computes its rows again at its next start.",
    )


def log_expired(view: str, hint: str = "They are read again, as they are now.") -> SinkqlError:
    """Return what is said where rows that were to be read are not there any more."""
    return GoneError(
        "SQ3451",
        f'materialized view "{short_name(view)}" no longer has the rows of the commit that was read',
        hint=hint,
    )


def run_file(run: Run) -> str:
    """Return where a view's folder has a run."""
    return f"runs/b{run.bucket}/{run.file}"


def entry_after(before: tuple[int, Entry] | None, marker: Checkpoint, id_: str) -> tuple[int, Entry]:
    """Return the next entry, which changes no row, and its number."""
    now = time.time_ns() // 1_000_000
    if before is None:
        return 1, Entry(marker, id_, now, 0)
    number, last = before
    return number + 1, msgspec.structs.replace(last, marker=marker, id=id_, at=max(now, last.at + 1), runs=())


def changed_runs(number: int, entry: Entry, runs: Sequence[Run], contents: Contents, buckets: int) -> Entry:
    """Return an entry with changes, and the contents after them, by the buckets that changed."""
    after = {**entry.contents, **{bucket: tuple(each) for bucket, each in contents.items()}}
    changed = number if runs else entry.changed
    return msgspec.structs.replace(entry, runs=tuple(runs), contents=after, changed=changed, buckets=buckets)


def migrate_log(log: ViewLog) -> None:
    """Publish in a log in STATE what the catalog's folder has more of it, if anything."""
    before = log.before
    if before is None:
        return
    newest, last = log.newest(), before.newest()
    number = newest[0] if newest is not None else 0
    if last is not None and last[0] > number:
        same = before.entry(number)
        # else it went another way, and what is to come is computed from where it is
        if newest is None or (same is not None and same.id == newest[1].id):
            log.home.upload_bytes(MOVING, b"")
            _take_all(log, before, number)
    if log.moving:
        log.forget(MOVING)


def _take_all(log: ViewLog, before: ViewLog, number: int) -> None:
    _fence(before)
    last = before.newest()
    assert last is not None
    contents = list(last[1].kept)
    if not all(before.run_path(run).exists() for run in contents):
        return
    log.pins.take(before.pins)
    for path in (before.folder / "attached").rglob("*"):
        if path.is_file():
            log.home.write_small(path.relative_to(before.folder).as_posix(), path.read_bytes())
    _take(log, before, contents)
    for each in before.numbers():
        entry = before.entry(each) if each > number else None
        if entry is not None:
            _take(log, before, entry.runs)
            if not log.publish(each, entry):
                return


def _fence(before: ViewLog) -> None:
    """Claim the log that is left, so that nobody else goes on in it."""
    while (last := before.newest()) is not None:
        claim = uuid4().hex
        number, entry = entry_after(last, replace(last[1].marker, claim=claim), claim)
        if before.publish(number, entry):
            return


def _take(log: ViewLog, before: ViewLog, runs: Iterable[Run]) -> None:
    """Have the files of another log, as far as they are there: who reads what is gone reads the contents."""
    names = []
    for run in runs:
        path = log.run_path(run)
        if not path.exists() and before.run_path(run).exists():
            with before.run_path(run).open("rb") as data:
                files.create_new(path, data)
        if path.exists():
            names.append(run_file(run))
    log.home.ensure_uploaded(names)
