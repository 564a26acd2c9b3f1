"""Copy the files in which sources keep their positions between a sink's state folder and its table.

A position is lost with its file. So the table gets a copy before a commit names the position, and a folder without the
file gets it from the table. A file that no checkpoint needs is deleted in both places: the copy first, because the file
tells its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sinkql.connector_api.stream import FileBackedReader, FileKeeper, JobOffsets, Reader
from sinkql.errors import LostPositionError, SinkqlError
from sinkql.storage import failpoint, files


@dataclass(slots=True)
class SourceFiles:
    """The source files of a sink whose state folder is `folder`; `keeper` has their copies, if the sink has one."""

    readers: Mapping[str, Reader]
    keeper: FileKeeper | None
    folder: Path
    _attached: set[str] = field(default_factory=set)

    def restore(self, offsets: JobOffsets) -> None:
        """Restore the files that the folder lacks; raises SQ3412 if the table lacks one too."""
        for source, reader in self._readers():
            if source not in offsets:
                continue
            tried = set[str]()
            while missing := [
                name for name in reader.required_files(offsets[source]) if not (self.folder / name).exists()
            ]:
                for name in missing:
                    self._restore_file(source, name, again=name in tried)
                tried |= set(missing)
        failpoint.point("restored")

    def _restore_file(self, source: str, name: str, *, again: bool) -> None:
        data = self.keeper.load_file(name) if self.keeper is not None else None
        if data is None or again:
            raise LostPositionError(
                "SQ3412",
                f'the position of source "{source}" is lost',
                detail=f'file "{name}" is neither in the state folder nor, undamaged, in the table folder',
                hint="Restore the file, or drop the sink and create it again with a new table.",
            )
        files.write_atomic(self.folder / name, data)

    def attach(self, offsets: JobOffsets) -> None:
        """Copy the files to the table that it lacks."""
        if self.keeper is not None:
            self._attach(self.keeper, offsets)
        failpoint.point("attached")

    def _attach(self, keeper: FileKeeper, offsets: JobOffsets) -> None:
        for source, reader in self._readers():
            for name in reader.required_files(offsets[source]):
                if name not in self._attached:
                    keeper.store_file(name, (self.folder / name).read_bytes())
                    self._attached.add(name)

    def refresh(self, offsets: JobOffsets) -> None:
        """Write old copies again, so that no cleaner of the table takes them for orphan files."""
        if self.keeper is not None:
            self.keeper.refresh_files(self._contents(offsets))

    def _contents(self, offsets: JobOffsets) -> dict[str, bytes]:
        """Return the contents of the files that can be read."""
        contents: dict[str, bytes] = {}
        for source, reader in self._readers():
            with suppress(SinkqlError):
                for name in reader.required_files(offsets[source]):
                    with suppress(OSError):
                        contents[name] = (self.folder / name).read_bytes()
        return contents

    def sweep(self, needed: Sequence[JobOffsets], *, before: float) -> None:
        """Delete the files that were written before a time and that none of the offsets needs."""
        for source, reader in self._readers():
            needed_offsets = [offsets[source] for offsets in needed if source in offsets]
            for name in reader.removable_files(needed_offsets, before=before):
                failpoint.point("position-unneeded")
                if self.keeper is not None and not self.keeper.delete_file(name):
                    continue
                self._attached.discard(name)
                failpoint.point("position-detached")
                (self.folder / name).unlink(missing_ok=True)

    def _readers(self) -> Iterator[tuple[str, FileBackedReader]]:
        """Yield the sources whose positions are in files, and the part of the reader for them."""
        for source, reader in self.readers.items():
            if reader.files is not None:
                yield source, reader.files
