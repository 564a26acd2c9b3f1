"""A table of a captured source, as its log has it → splits of data files. Nothing in it reaches the server.

Offsets are a `Place`: entry `entry` of log `log` and all before it were read. A log that was lost begins again with
other entries, in which places are found by `to`, the position of the server; while a snapshot is read by its
generation too. Before the first entry a sink waits for a generation of its table that it can read from its beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sinkql import physical
from sinkql.capture import mark
from sinkql.capture.log import DataFile, Entry, Generation, LogFolder, Part, source_folder
from sinkql.capture.resume import takes
from sinkql.errors import GoneError, SinkqlError
from sinkql.extension.capture import CapturedTable, Keeping, Position, captured_source, captured_table
from sinkql.extension.stream import Context, Limit, Offsets, Reader, Split, Tally, invalid_row
from sinkql.extension.types import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

_SPLIT_ROWS = 1 << 18
_SPLIT_BYTES = 64 << 20
_IDLE_SECONDS = 300.0
_IDLE_BYTES = 64 << 20
"""After so long, or so much of other tables, a sink commits how far it is without a row."""
_PATIENCE_SECONDS = 60.0


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a sink is: `done` once it has all chunks of its generation; changes up to `high` may be in them.

    `chunks` of run `run` it has; `begin` is the entry where it began to read.
    """

    log: str = ""
    entry: int = -1
    to: Position = ""
    generation: int | None = None
    last: list[Any] | None = None
    chunks: int = 0
    done: bool = False
    high: Position = ""
    begin: int = -1
    run: str = ""

    def at(self, table: str) -> mark.At:
        """Return what tells the capture of it."""
        return mark.At(
            table,
            self.to,
            self.log,
            self.entry,
            self.generation,
            self.last,
            self.chunks,
            self.done,
            self.high,
            self.run,
        )

    def offsets(self) -> Offsets:
        """Return it as offsets."""
        found: Offsets = msgspec.to_builtins(self)
        return found

    @property
    def began(self) -> bool:
        """Tell whether it is in a log."""
        return bool(self.log)


class _Target(msgspec.Struct, frozen=True):
    """The target of a run that ends: all that had committed up to a position, in a whole snapshot."""

    until: Position


def _place(offsets: Offsets) -> Place:
    return msgspec.convert(offsets, Place)


@dataclass(slots=True)
class _Walk:
    """A walk through the entries after a place: how far it is, and what it took in."""

    place: Place
    rows: int = 0
    bytes: int = 0
    passed: int = 0
    began_at: float | None = None
    at: float = 0.0
    turned: bool = False
    """Whether the place says more than that time has gone by."""

    def idle(self) -> bool:
        """Tell whether what it found is not worth a commit."""
        waited = self.at - self.began_at if self.began_at is not None else 0.0
        return not self.turned and not self.rows and waited < _IDLE_SECONDS and self.passed < _IDLE_BYTES


@dataclass(frozen=True, slots=True)
class LogReader(Reader):
    """Read a table of a captured source from its log. `name` is the source's, `sink_id` who reads."""

    name: str
    sink_id: str
    log: LogFolder
    table: CapturedTable
    keeping: Keeping
    change: physical.Change = "upsert"
    holes: bool = False

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> LogReader:
        """Return the reader of a planned table; SQ3430 for one that is in no catalog."""
        source, keeping = captured_source(read.connector, read.options, None)
        if not source.id:
            raise SinkqlError(
                "SQ3430",
                f'source "{read.name}" was compiled, not created: nothing captures it',
                hint="Run CREATE SOURCE with sinkql exec, and run the sink from that catalog.",
            )
        folder = source_folder(context.folder.parent.parent, source.id)
        table = captured_table(read)
        return cls(read.name, context.sink_id, LogFolder(folder), table, keeping, read.change, read.holes)

    @property
    def folder(self) -> Path:
        """Return the folder of all that is kept of the source."""
        return self.log.folder

    # --- where a sink begins, and where a run ends -------------------------------------------------------------------

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the place before any log, or the log's present end."""
        if not at_end:
            return Place().offsets()
        now = self._ask()
        place = Place(now.log, now.entry, now.at, done=True)
        if not (self.folder / "at" / f"{self.sink_id}.json").exists():
            self._tell(place)
        return place.offsets()

    def target(self, start: Offsets) -> Offsets:
        """Return all that has committed on the server by now; SQ3431 where no capture answers."""
        return msgspec.to_builtins(_Target(self._ask().to))  # type: ignore[no-any-return]  # of any struct

    def reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether a target is reached: the snapshot is whole, and no change of it is still to come."""
        place, until = _place(offsets), msgspec.convert(target, _Target).until
        return place.done and place.to >= until and place.to >= place.high

    def target_at(self, offsets: Offsets) -> Offsets:
        """Return the target of all that had committed up to a place: its snapshot may not be read twice."""
        return msgspec.to_builtins(_Target(_place(offsets).to))  # type: ignore[no-any-return]  # of any struct

    def _ask(self) -> mark.Answer:
        found = mark.ask(self.folder, self.table.id, patience=_PATIENCE_SECONDS)
        if found is not None:
            return found
        said = mark.word(self.folder)
        failure = said.failure() if said is not None else None
        raise failure or SinkqlError(
            "SQ3431",
            f'the process that captures the source of "{self.name}" does not answer',
            hint="The sink tries again by itself. If it goes on, see whether the machine or the server is overloaded.",
        )

    # --- what there is -----------------------------------------------------------------------------------------------

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return how far whole entries go within the limit, at least one.

        A batch ends before an entry that empties the table, or has other columns than the sink needs. Raises what the
        capture cannot get over where nothing more is there.
        """
        begun = self._found(_place(start))
        if begun is None:
            self._check_capture()
            return start
        walk = _Walk(begun)
        for entry in self._entries(begun, until):
            if walk.began_at is None:
                walk.began_at = entry.at
            over = until is not None and "until" in until and self.reached(walk.place.offsets(), until)
            if over or not self._take(walk, entry, limit):
                break
        if walk.place.entry == begun.entry and until is None:
            self._check_capture()
        if walk.idle() and until is None:
            return start
        return walk.place.offsets() if walk.place != begun or walk.turned else start

    def _entries(self, begun: Place, until: Offsets | None) -> Iterator[Entry]:
        """Yield what comes after a place in its log, up to a target or another place."""
        for entry in self.log.after(begun.entry):
            if entry.log != begun.log:
                return
            if until is not None and "until" not in until and entry.entry > until["entry"]:
                return
            yield entry

    def _take(self, walk: _Walk, entry: Entry, limit: Limit) -> bool:
        """Go past an entry; tell whether to go on, False where the batch ends before it or at it."""
        part = self._part(walk.place, entry)
        first = walk.rows == 0
        if part is not None:
            if not first and (part.emptied or (part.moved and self.holes)):
                return False
            rows = sum(each.rows for each in part.files)
            size = sum(each.bytes for each in part.files)
            if not first and (walk.rows + rows > limit.rows or walk.bytes + size > limit.bytes):
                return False
            if not self._fits(part, entry, first=first):
                return False
            walk.rows += rows
            walk.bytes += size
            walk.turned |= part.emptied
        if not self._keeps_columns(entry, first=first):
            return False
        before = walk.place
        walk.place = _after(before, entry, part, self.table.id)
        walk.passed += entry.size
        walk.at = entry.at
        walk.turned |= (walk.place.done, walk.place.generation) != (before.done, before.generation)
        return True

    def _part(self, place: Place, entry: Entry) -> Part | None:
        """Return what an entry has for a sink at a place."""
        match entry.kind:
            case "changes":
                if self.change == "retract" and not place.done:
                    return None  # they are in the one chunk that is to come
                return entry.tables.get(self.table.id) if entry.to > place.to else None
            case "chunk":
                return entry.tables.get(self.table.id) if _takes(place, entry.generation) else None
            case _:
                return None

    def _fits(self, part: Part, entry: Entry, *, first: bool) -> bool:
        """Tell whether a part can be taken; raises where it cannot and is the first of a batch."""
        if part.emptied and self.keeping.on_truncate == "fail":
            raise SinkqlError(
                "SQ3432",
                f'table "{".".join(self.table.name)}" was truncated on the server',
                detail=f"up to position {entry.to}, and the source says ON TRUNCATE = FAIL",
                hint="Create the source again without that option, and its sinks into new tables.",
            )
        if self.keeping.on_error == "fail" and any(each.failed for each in part.files):
            if not first:
                return False
            bad = next(each for each in part.files if each.failed)
            error = self._failed(bad)[0]
            raise invalid_row(self.name, error.position, error.message, error.raw)
        return True

    def _keeps_columns(self, entry: Entry, *, first: bool) -> bool:
        """Tell whether the table has, from an entry on, the columns that the sink needs; raises at the first."""
        if entry.kind != "schema" or entry.table != self.table.id:
            return True
        now = {each.name: each for each in entry.columns}
        lost = [each.name for each in self.table.columns if not _same(each, now)]
        if not lost and tuple(entry.key) == self.table.key:
            return True
        if not first:
            return False
        what = f'column "{lost[0]}"' if lost else "its key"
        raise SinkqlError(
            "SQ3433",
            f'table "{".".join(self.table.name)}" has changed on the server: {what} is another one, or gone',
            detail=entry.problem,
            hint="Create the source again with the table's columns, and its sinks into new tables; "
            "columns that no sink needs can be left out with EXCLUDE COLUMNS.",
        )

    def _check_capture(self) -> None:
        said = mark.word(self.folder)
        failure = said.failure() if said is not None else None
        if failure is not None:
            raise failure

    # --- places ------------------------------------------------------------------------------------------------------

    def _found(self, place: Place) -> Place | None:
        """Return the place in the log as it is now, None where there is nothing yet; SQ3434 where it is not in it."""
        if not place.began:
            return self._joined()
        here = self.log.entry(place.entry)
        if here is not None and here.log == place.log:
            return place
        following = self.log.entry(place.entry + 1)
        if following is not None and following.log == place.log:
            return place
        return self._moved(place)

    def _joined(self) -> Place | None:
        """Return the place before a generation of the table that is there from its beginning; wish for one."""
        wish = self.folder / "want" / f"{self.sink_id}.json"
        if not wish.exists():
            mark.put(self.folder, "want", self.sink_id, mark.Want(self.table.id))
        said = mark.word(self.folder)
        number = said.joinable.get(self.table.id) if said is not None else None
        entry = self.log.entry(number) if number is not None else None
        if entry is None or entry.kind != "begin" or entry.table != self.table.id:
            return None
        return Place(entry.log, entry.entry - 1, entry.start)

    def _moved(self, place: Place) -> Place | None:
        """Return where a place of a log that was lost is in the present one."""
        numbers = self.log.numbers()
        if not numbers:
            return None
        before = None
        for number in numbers:
            entry = self.log.entry(number)
            if entry is None:
                continue  # it was forgotten meanwhile
            if entry.start > place.to:
                break
            if entry.start == place.to or (self.table.key and entry.to > place.to):
                before = entry
                break
        if before is None:
            last = self.log.entry(numbers[-1])
            if last is None or last.to < place.to:
                return None  # it has not come so far again, or was lost once more
            if last.to == place.to:
                return msgspec.structs.replace(place, log=last.log, entry=last.entry)
            raise SinkqlError(
                "SQ3434",
                f'the log of "{self.name}" no longer has the changes that follow those in the sink\'s table',
                detail=f"they follow position {place.to}",
                hint="Drop the sink and create it again, into a new table.",
            )
        return msgspec.structs.replace(place, log=before.log, entry=before.entry - 1)

    # --- what is read ------------------------------------------------------------------------------------------------

    def cleared(self, start: Offsets, end: Offsets) -> bool:
        """Tell whether the table was emptied before the rows between two places."""
        return any(part.emptied for part in self._parts(start, end))

    def snapshotting(self, start: Offsets) -> bool:
        """Tell whether chunks are still to come, or changes that may be in them."""
        place = _place(start)
        return not place.done or place.to < place.high

    def _beginning(self, place: Place) -> Place | None:
        """Return where a sink began that is at a place now; None where that is not in the log any more."""
        entry = self.log.entry(place.begin)
        if entry is None or entry.log != place.log:
            return None
        return Place(entry.log, entry.entry - 1, entry.start)

    def _parts(self, start: Offsets, end: Offsets) -> Iterator[Part]:
        stop = _place(end)
        begun = self._found(_place(start)) if _place(start).began else self._beginning(stop)
        if begun is None:  # a first batch is read elsewhere then; what is in a table cannot be read again
            raise GoneError(
                "SQ3435",
                f'the log of "{self.name}" no longer begins where the sink did',
                detail=f"it had read up to position {stop.to}",
                hint="A sink that has committed nothing yet begins again by itself.",
            )
        if begun.log != stop.log:
            raise self._again("the log began again")
        place = begun
        for entry in self._entries(begun, end):
            part = self._part(place, entry)
            if part is not None:
                yield part
            place = _after(place, entry, part, self.table.id)
        if place.entry != stop.entry:
            raise self._again("the log began again")

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return groups of data files, a quarter of a million rows each, in order; one where rows come and go.

        What was there before the table was emptied is in none of them.
        """
        parts = list(self._parts(start, end))
        emptied = max((number for number, part in enumerate(parts) if part.emptied), default=0)
        groups = self._groups([file for part in parts[emptied:] for file in part.files])
        return [{"log": end["log"], "files": msgspec.to_builtins(files)} for files in groups]

    def _groups(self, files: Sequence[DataFile]) -> list[list[DataFile]]:
        groups: list[list[DataFile]] = []
        rows = size = 0
        for file in files:
            full = rows + file.rows > _SPLIT_ROWS or size + file.bytes > _SPLIT_BYTES
            if not groups or (full and self.change != "retract"):
                groups.append([])
                rows = size = 0
            groups[-1].append(file)
            rows, size = rows + file.rows, size + file.bytes
        return groups

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of data files, in order; those that come and go within the split are left out."""
        batches = self._batches(split, tally)
        if self.change != "retract":
            yield from batches
            return
        from sinkql.capture.retract import net

        yield from net(list(batches))

    def _batches(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        from sinkql.capture import datafile

        for file in msgspec.convert(split["files"], list[DataFile]):
            tally.rows += file.rows + file.failed
            tally.bytes += file.bytes
            tally.failed += file.failed
            if file.failed:
                tally.errors.extend(self._failed(file)[: max(0, 10 - len(tally.errors))])
            try:
                for batch in datafile.read(self.log.data, file):
                    yield self._projected(batch)
            except datafile.DamagedError as error:
                raise self._damaged(split["log"], file) from error

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        wanted = [(each.name, arrow_type(each.type)) for each in self.table.columns]
        if self.change != "append":
            wanted.append(("$diff", pa.int64()))
        names = [name for name, _ in wanted]
        there = set(batch.schema.names)
        # a column that the table did not have when the row was written
        arrays = [batch.column(name) if name in there else pa.nulls(batch.num_rows, type_) for name, type_ in wanted]
        if self.holes:
            for name, type_ in (("$hole", pa.binary()), ("$from", self._key_type())):
                names.append(name)
                arrays.append(batch.column(name) if name in there else pa.nulls(batch.num_rows, type_))
        return pa.record_batch(arrays, names=names)

    def _key_type(self) -> pa.DataType:
        import pyarrow as pa

        types = {each.name: each.type for each in self.table.columns}
        return pa.struct([(name, arrow_type(types[name])) for name in self.table.key])

    def _failed(self, file: DataFile) -> Sequence[Any]:
        from sinkql.capture import datafile

        try:
            return datafile.failed(self.log.data, file)
        except datafile.DamagedError as error:
            raise self._damaged("", file) from error

    def _damaged(self, log: str, file: DataFile) -> SinkqlError:
        mark.put(self.folder, "", "damaged", mark.Damaged(log, file.name))
        return self._again(f"file {file.name} is damaged or gone")

    def _again(self, detail: str) -> SinkqlError:
        return SinkqlError(
            "SQ3435",
            f'the log of "{self.name}" has to be read again from the server',
            detail=detail,
            hint="The sink continues by itself once that is done.",
        )

    # --- what sinks tell ---------------------------------------------------------------------------------------------

    def verify(self, offsets: Offsets) -> None:
        """Tell the capture where the sink is, where that is not known; SQ3434 where the log does not go on there."""
        place = _place(offsets)
        if place.began:
            # a sink that waits for a generation is at its beginning until it has committed
            known = [self.folder / what / f"{self.sink_id}.json" for what in ("at", "want")]
            if not any(path.exists() for path in known):
                self._tell(place)
            self._found(place)

    def committed(self, end: Offsets) -> None:
        """Tell the capture how far the sink's table is."""
        place = _place(end)
        if not place.began:
            return
        self._tell(place)
        (self.folder / "want" / f"{self.sink_id}.json").unlink(missing_ok=True)

    def _tell(self, place: Place) -> None:
        mark.put(self.folder, "at", self.sink_id, place.at(self.table.id))

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the oldest entry beyond the place that has rows of the table, in seconds."""
        place = _place(offsets)
        for entry in self.log.after(place.entry) if place.began else ():
            if entry.log != place.log:
                break
            if self._part(place, entry) is not None:
                return max(0.0, time.time() - entry.at)
        return 0.0


def _after(place: Place, entry: Entry, part: Part | None, table: str) -> Place:
    """Return the place after an entry that has `part` for a sink."""
    high, generation = place.high, entry.generation
    if part is not None:
        high = max(high, part.high)
    found = msgspec.structs.replace(place, entry=entry.entry, to=max(place.to, entry.to), high=high)
    if entry.kind == "begin" and entry.table == table and place.generation is None and not place.done:
        return msgspec.structs.replace(found, generation=_number(generation), begin=entry.entry)
    if entry.kind == "chunk" and generation is not None and _takes(place, generation):
        return msgspec.structs.replace(
            found,
            last=generation.last,
            chunks=generation.chunks,
            run=generation.run,
            done=generation.done,
            high=max(high, generation.high),
        )
    return found


def _takes(place: Place, generation: Generation | None) -> bool:
    """Tell whether a sink takes a chunk: of its generation, and none is between those that it has and this one."""
    if generation is None or generation.number != place.generation or place.done:
        return False
    return takes(place.run, place.chunks, generation)


def _number(generation: Generation | None) -> int:
    assert generation is not None, "a beginning says of what"
    return generation.number


def _same(column: physical.Column, now: dict[str, Any]) -> bool:
    """Tell whether a column is as it was planned; one that has NULL no more is."""
    found = now.get(column.name)
    return found is not None and found.type == column.type and (column.nullable or not found.nullable)
