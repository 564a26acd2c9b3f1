"""The files in which sources keep positions, in a sink's state folder ↔ copies of them with its table.

A position is lost with its file, so the table has a copy before a commit names it, and gives it back to a folder that
lacks it. What no marker needs goes in both places: the table's copy first, for the other one tells its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sinkql.connector_api.stream import JobOffsets, Reader, Writer
from sinkql.errors import LostPositionError, SinkqlError
from sinkql.storage import failpoint, files


@dataclass(slots=True)
class SourceFiles:
    """Keep those of a sink's readers, whose state folder is `folder`."""

    readers: Mapping[str, Reader]
    writer: Writer
    folder: Path
    _attached: set[str] = field(default_factory=set)

    def restore(self, offsets: JobOffsets) -> None:
        """Bring back those that are not in the folder; raises SQ3412 for one that the table does not have either."""
        for source in (each for each in self.readers if each in offsets):
            reader, tried = self.readers[source], set[str]()
            while missing := [
                name for name in reader.required_files(offsets[source]) if not (self.folder / name).exists()
            ]:
                for name in missing:
                    self._bring_back(source, name, again=name in tried)
                tried |= set(missing)
        failpoint.point("restored")

    def _bring_back(self, source: str, name: str, *, again: bool) -> None:
        data = self.writer.load_file(name)
        if data is None or again:
            raise LostPositionError(
                "SQ3412",
                f'the position of source "{source}" is lost',
                detail=f'file "{name}" is neither in the state folder nor, undamaged, in the table folder',
                hint="Restore the file, or drop the sink and create it again, into a new table.",
            )
        files.write_atomic(self.folder / name, data)

    def attach(self, offsets: JobOffsets) -> None:
        """Give the table a copy of each that it does not have."""
        for source, reader in self.readers.items():
            for name in reader.required_files(offsets[source]):
                if name not in self._attached:
                    self.writer.store_file(name, (self.folder / name).read_bytes())
                    self._attached.add(name)
        failpoint.point("attached")

    def contents(self, offsets: JobOffsets) -> dict[str, bytes]:
        """Return what is in them, of those that can be read."""
        files: dict[str, bytes] = {}
        for source, reader in self.readers.items():
            with suppress(SinkqlError):
                for name in reader.required_files(offsets[source]):
                    with suppress(OSError):
                        files[name] = (self.folder / name).read_bytes()
        return files

    def sweep(self, needed: Sequence[JobOffsets], *, before: float) -> None:
        """Delete those that none of the offsets needs, of those that were written before a time."""
        for source, reader in self.readers.items():
            kept = [offsets[source] for offsets in needed if source in offsets]
            for name in reader.removable_files(kept, before=before):
                failpoint.point("position-unneeded")
                if not self.writer.delete_file(name):
                    continue
                self._attached.discard(name)
                failpoint.point("position-detached")
                (self.folder / name).unlink(missing_ok=True)
