"""Files → splits → Arrow rows: each file once, by name, whatever happens in between.

Offsets: `segments`, the log of files that were read whole; `partial`, a file of JSON lines that was read up to byte
`at`, or None. A batch takes new files by name, in parts where one is longer than a batch may be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sinkql import physical
from sinkql.connector.stream import Context, Limit, Offsets, RowError, Split, Tally
from sinkql.connectors.files.csv_rows import CsvRows, HeaderError
from sinkql.connectors.files.json_lines import JsonLines
from sinkql.connectors.files.listing import Folder, SeenFile, read_segment, write_segment
from sinkql.errors import SinkqlError

_SPLIT_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 20
_MOST_SEGMENTS = 16
_MOST_ERRORS = 20
_GUESSED_ROW_BYTES = 20
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True, slots=True)
class FilesReader:
    """Read one FILES source; `log` is the folder of the segments."""

    source: str
    folder: Folder
    log: Path
    columns: tuple[physical.Column, ...]
    format: dict[str, Any]
    follow: bool
    skip_errors: bool
    max_files: int | None

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> FilesReader:
        """Return the reader of a planned source."""
        options = read.options
        return cls(
            read.name,
            Folder(Path(options["path"]).absolute(), options["glob"], options["recursive"]),
            context.folder / "files",
            read.columns,
            options["format"],
            options["follow"],
            options["on_error"] == "skip",
            options["tuning"]["max_files_per_commit"],
        )

    # --- offsets ---------------------------------------------------------------------------------------------------

    def initial(self, *, at_end: bool) -> Offsets:
        """Return no file yet, or with `at_end` every file that is there now."""
        start: Offsets = {"segments": [], "partial": None}
        return self.target(start) if at_end else start

    def target(self, start: Offsets) -> Offsets:
        """Return all files that are there now."""
        new = self.folder.new(self._seen(start), settled=False)
        return {"segments": self._with(start["segments"], new), "partial": None}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return `start` and as many new files as the limit lets in; a CSV or compressed file is never divided."""
        seen = self._seen(start)
        if until is not None:
            new = [file for file in self._files(until) if file.name not in seen]
        else:
            new = self.folder.new(seen, settled=True)
        partial = start["partial"]
        if partial is not None:
            new = [SeenFile(**partial["file"])] + [file for file in new if file.name != partial["file"]["name"]]
        end = self._within(start, new, limit)
        if until is not None and end["partial"] is None and self._seen(end).keys() >= self._seen(until).keys():
            return until  # the same files in other segments: who waits for the target compares offsets
        return end

    def _within(self, start: Offsets, new: list[SeenFile], limit: Limit) -> Offsets:
        taken: list[SeenFile] = []
        rows, size = limit.rows, limit.bytes
        for file in new:
            if self.max_files is not None and len(taken) == self.max_files:
                break
            partial = start["partial"]
            at = partial["at"] if partial is not None and partial["file"]["name"] == file.name else 0
            cut, count = self._cut(file, at, rows, size)
            if cut is not None:
                return self._moved(start, taken, {"file": asdict(file), "at": cut})
            if taken and not self._divisible(file) and (count > rows or file.size > size):
                break
            taken.append(file)
            rows, size = rows - count, size - (file.size - at)
            if rows <= 0 or size <= 0:
                break
        if not taken:
            return start
        return self._moved(start, taken, None)

    def _moved(self, start: Offsets, taken: list[SeenFile], partial: dict[str, Any] | None) -> Offsets:
        return {"segments": self._with(start["segments"], taken), "partial": partial}

    def _cut(self, file: SeenFile, at: int, rows: int, size: int) -> tuple[int | None, int]:
        """Return the byte up to which `rows` and `size` let the file be read from `at`, None for its end; and its rows.

        The rows of a compressed file are only guessed.
        """
        path = self.folder.check(file)
        if file.name.endswith(_COMPRESSED):
            return None, file.size // _GUESSED_ROW_BYTES
        count, position = 0, at
        with path.open("rb") as lines:
            lines.seek(at)
            while block := lines.read(_BLOCK_BYTES):
                here = block.count(b"\n")
                full, over = count + here >= rows, position + len(block) - at > size
                if self._divisible(file) and (full or over):
                    cut = position + _after_lines(block, max(1, rows - count) if full else here)
                    if at < cut < file.size:
                        return cut, rows if full else count + here
                count += here
                position += len(block)
        return None, count

    def _divisible(self, file: SeenFile) -> bool:
        return self.format["name"] == "JSON" and not file.name.endswith(_COMPRESSED)

    def _with(self, segments: list[str], files: list[SeenFile]) -> list[str]:
        if not files:
            return list(segments)
        if len(segments) < _MOST_SEGMENTS:
            return [*segments, write_segment(self.log, files)]
        whole = [file for name in segments for file in read_segment(self.log, name)]
        return [write_segment(self.log, [*whole, *files])]

    def _files(self, offsets: Offsets) -> list[SeenFile]:
        return [file for name in offsets["segments"] for file in read_segment(self.log, name)]

    def _seen(self, offsets: Offsets) -> dict[str, SeenFile]:
        return {file.name: file for file in self._files(offsets)}

    def attachments(self, offsets: Offsets) -> tuple[str, ...]:
        """Return the log's segments, as paths below the sink's state folder."""
        return tuple(f"files/{name}" for name in offsets["segments"])

    def committed(self, end: Offsets) -> None:
        """Do nothing: files stay where they are."""

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the oldest file that was not read to its end, by the time it was written."""
        seen = self._seen(offsets)
        times = [status.st_mtime for name, status in self.folder.names() if name not in seen]
        return max(0.0, time.time() - min(times)) if times else 0.0

    def finished(self, offsets: Offsets) -> bool:
        """Tell whether a source with FOLLOW = false has no file left to read."""
        return (
            not self.follow and offsets["partial"] is None and not self.folder.new(self._seen(offsets), settled=False)
        )

    # --- rows --------------------------------------------------------------------------------------------------------

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the files between two offsets; long ones of JSON lines in ranges of 64 MiB."""
        before = self._seen(start)
        files = [(file, file.size) for file in self._files(end) if file.name not in before]
        if end["partial"] is not None:
            files.append((SeenFile(**end["partial"]["file"]), end["partial"]["at"]))
        found: list[Split] = []
        for file, stop in files:
            partial = start["partial"]
            at = partial["at"] if partial is not None and partial["file"]["name"] == file.name else 0
            step = _SPLIT_BYTES if self._divisible(file) else max(1, stop - at)
            found.extend(
                {"file": asdict(file), "from": begin, "to": min(begin + step, stop)}
                for begin in range(at, max(stop, at + 1), step)
            )
        return found

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, less those that do not decode; raises SQ3101 for the first one unless skipping."""
        file = SeenFile(**split["file"])
        path = self.folder.check(file)
        tally.bytes += split["to"] - split["from"]
        if self.format["name"] == "CSV":
            yield from self._read_csv(path, file, tally)
        else:
            yield from self._read_json(path, file, split, tally)

    def _read_csv(self, path: Path, file: SeenFile, tally: Tally) -> Iterator[pa.RecordBatch]:
        rows = CsvRows(self.columns, self.format["header"], self.format["delimiter"])
        with pa.input_stream(str(path), compression="detect") as stream:
            try:
                for decoded in rows.decode(stream):
                    tally.rows += decoded.records
                    for number, (message, text) in sorted(decoded.failures.items()):
                        self._failed(f"{file.name}:{number}", message, text.encode(), tally)
                    yield decoded.batch
            except (HeaderError, pa.ArrowInvalid) as error:
                raise SinkqlError(
                    "SQ3102", f'file "{path}" cannot be read as CSV: {error}', hint="Mend the file, or take it away."
                ) from error

    def _read_json(self, path: Path, file: SeenFile, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        decoder = JsonLines(self.columns, whole=self.format["whole"])
        number = 0
        for block in self._blocks(path, file, split):
            batch, failures, lines = decoder.decode(block)
            tally.rows += batch.num_rows + len(failures)
            if failures:
                before = number + _lines_before(path, split["from"])
                places = [place for place, line in enumerate(block.split(b"\n"), 1) if line.strip()]
                for row, message in sorted(failures.items()):
                    self._failed(f"{file.name}:{before + places[row]}", message, lines[row], tally)
            number += block.count(b"\n")
            yield batch

    def _blocks(self, path: Path, file: SeenFile, split: Split) -> Iterator[bytes]:
        """Yield whole lines, about a megabyte at a time: those that begin in the split's range."""
        if not self._divisible(file):
            with pa.input_stream(str(path), compression="detect") as stream:
                yield from _whole_lines(stream, None)
            return
        with path.open("rb") as stream:
            begin = split["from"]
            if begin > 0:
                stream.seek(begin - 1)
                begin = begin - 1 + len(stream.readline())
            yield from _whole_lines(stream, split["to"] - begin)

    def _failed(self, position: str, message: str, raw: bytes, tally: Tally) -> None:
        if not self.skip_errors:
            shown = raw[:200].decode(errors="replace")
            raise SinkqlError(
                "SQ3101",
                f'source "{self.source}" has a row that does not decode at {position}: {message}',
                detail=f"The row is {shown}",
                hint="Mend the file, or create the source WITH (ON ERROR = SKIP); the sink goes on where it stopped.",
            )
        tally.failed += 1
        if len(tally.errors) < _MOST_ERRORS:
            tally.errors.append(RowError(position, "SQ3101", message, raw[:1000]))


def _after_lines(block: bytes, lines: int) -> int:
    """Return the place just after so many lines of a block."""
    at = 0
    for _ in range(lines):
        at = block.find(b"\n", at) + 1
    return at


def _lines_before(path: Path, position: int) -> int:
    with path.open("rb") as stream:
        return stream.read(position).count(b"\n")


def _whole_lines(stream: Any, size: int | None) -> Iterator[bytes]:
    """Yield blocks of whole lines until those that begin within `size` bytes are all there."""
    left = size
    rest = b""
    while left is None or left > 0:
        block = stream.read(_BLOCK_BYTES if left is None else min(_BLOCK_BYTES, left))
        if not block:
            break
        if left is not None:
            left -= len(block)
            if left == 0 and not block.endswith(b"\n"):
                block += stream.readline()
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest.strip():
        yield rest
