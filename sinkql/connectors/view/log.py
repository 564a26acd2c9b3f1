"""A view's folder ↔ the entries of its log, and the places of those that read it.

Entry n is file n of `log` (`sinkql.numbered`), all that a commit says: of two that would write the same one does, and
the other reads who it was. `readers/<id>.json` says how far one reader is; nothing that it still needs goes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sinkql import durable, faults, typed
from sinkql.extension.stream import Context, Marker
from sinkql.numbered import Numbered

_PIN = ".json"
_CACHED = 1000
_FORGOTTEN_SECONDS = 3600.0
"""After so long a query that ended without a word holds nothing any more."""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A file of changes of rows in a bucket; `merges` is 0 for one of a single commit."""

    bucket: int
    file: str
    rows: int
    bytes: int
    merges: int = 0


Contents = Mapping[str, Sequence[Run]]
"""The runs that add up to a view's rows, oldest first, by bucket."""


class Entry(msgspec.Struct, frozen=True):
    """A commit: the `marker`, its changes, and the contents after it; `at` is when it was, in ms, growing.

    `id` tells it from one of its number in another log. The runs have the columns `columns`, with their types, since
    the entry `begins`.
    `changed` is the number of the last entry that has changes, this one or one before; `buckets` is how many there are.
    """

    marker: Marker
    id: str
    at: int
    changed: int
    runs: tuple[Run, ...] = ()
    contents: dict[str, tuple[Run, ...]] = {}
    buckets: int | None = None
    columns: tuple[tuple[str, str], ...] = ()
    begins: int = 0

    @property
    def size(self) -> int:
        """Return the bytes of its changes."""
        return sum(run.bytes for run in self.runs)


class Pin(msgspec.Struct, frozen=True):
    """How far a reader is; `passing` is one of a query, which may end without a word."""

    at: int
    passing: bool = False


# made with the module: threads that are the first to decode a type, and at once, end the process
_ENTRIES, _PINS = typed.decoder(Entry), typed.decoder(Pin)


def view_folder(base: Path, view_id: str) -> Path:
    """Return where a view is kept, in the folder of a catalog."""
    return base / "views" / view_id


def open_log(view_id: str, context: Context) -> ViewLog:
    """Return a view's log, of the catalog that a job's folder is in."""
    return ViewLog(view_folder(context.folder.parent.parent, view_id))


@dataclass(frozen=True, slots=True)
class ViewLog:
    """Entries and readers of the view in a folder."""

    folder: Path
    _known: dict[int, Entry] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[ViewLog], tuple[Path]]:
        return ViewLog, (self.folder,)

    @property
    def _files(self) -> Numbered:
        return Numbered(self.folder / "log")

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
            return found if self._files.there(number) else None
        data = self._files.read(number)
        if data is None:
            return None
        found = self._known[number] = _ENTRIES.decode(data)
        for old in [each for each in list(self._known) if each < number - _CACHED]:
            self._known.pop(old, None)
        return found

    def newest(self) -> tuple[int, Entry] | None:
        """Return the last entry with its number; None where there is none."""
        while number := self.last():
            found = self.entry(number)
            if found is not None:
                return number, found
        return None

    def publish(self, number: int, entry: Entry) -> bool:
        """Make an entry, durably; tell whether it is the log's: there may be one of its number, or may have been."""
        faults.point("view-entry")
        if not self._files.create(number, msgspec.json.encode(entry)):
            return False
        faults.point("view-entry-made")
        if not self._files.follows(number):
            return False  # one of its number was there, and has gone, while this process slept
        self._known[number] = entry
        return True

    def remove(self, number: int) -> None:
        """Delete an entry."""
        self._files.remove(number)
        self._known.pop(number, None)

    @property
    def spill(self) -> Path:
        """Return where rows may be put by that are too many for memory."""
        return self.folder / "spill"

    def run_path(self, run: Run) -> Path:
        """Return where a run is."""
        return self.folder / run_file(run)

    # --- readers -----------------------------------------------------------------------------------------------------

    def pin(self, reader: str, at: int, *, passing: bool = False) -> None:
        """Say how far a reader is: what comes after that stays for it, and the contents then."""
        durable.write(self._pin(reader), msgspec.json.encode(Pin(at, passing)), sync=False)

    def pinned(self, reader: str) -> int | None:
        """Return how far a reader said that it is."""
        try:
            return _PINS.decode(self._pin(reader).read_bytes()).at
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def unpin(self, reader: str) -> None:
        """Forget a reader."""
        self._pin(reader).unlink(missing_ok=True)

    def places(self) -> list[int]:
        """Return how far the readers are; those of queries that ended without a word are forgotten."""
        found = []
        for path in (self.folder / "readers").glob(f"*{_PIN}"):
            try:
                pin = _PINS.decode(path.read_bytes())
                if pin.passing and path.stat().st_mtime < time.time() - _FORGOTTEN_SECONDS:
                    path.unlink(missing_ok=True)
                    continue
            except (FileNotFoundError, msgspec.DecodeError):
                continue
            found.append(pin.at)
        return found

    def _pin(self, reader: str) -> Path:
        return self.folder / "readers" / f"{reader}{_PIN}"


def run_file(run: Run) -> str:
    """Return where a view's folder has a run."""
    return f"runs/b{run.bucket}/{run.file}"


def entry_after(before: tuple[int, Entry] | None, marker: Marker, id_: str) -> tuple[int, Entry]:
    """Return the next entry, which changes no row, and its number."""
    now = time.time_ns() // 1_000_000
    if before is None:
        return 1, Entry(marker, id_, now, 0)
    number, last = before
    return number + 1, msgspec.structs.replace(last, marker=marker, id=id_, at=max(now, last.at + 1), runs=())


def changing(number: int, entry: Entry, runs: Sequence[Run], contents: Contents, buckets: int) -> Entry:
    """Return an entry with changes, and the contents after them, by the buckets that changed."""
    after = {**entry.contents, **{bucket: tuple(each) for bucket, each in contents.items()}}
    changed = number if runs else entry.changed
    return msgspec.structs.replace(entry, runs=tuple(runs), contents=after, changed=changed, buckets=buckets)
