"""The state that a marker names: read once, saved before each commit, and computed again where it is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql import durable, physical
from sinkql.errors import LostStateError, SinkqlError
from sinkql.extension.stream import Marker, Reader
from sinkql.runtime.batch.anew import forgotten
from sinkql.runtime.batch.engine import Engine, Outcome
from sinkql.runtime.batch.progress import Progress, SinkRebuilding
from sinkql.runtime.batch.rebuild import rebuild, rebuildable
from sinkql.runtime.state import manifest


@dataclass(slots=True)
class JobState:
    """Keep the state of a job's operators, in the sink's state folder `folder`."""

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    folder: Path
    progress: Progress
    _held: tuple[str | None, manifest.Manifest] | None = None

    @property
    def forgotten(self) -> bool:
        """Tell whether it is lost, and cannot be made of what the table was made of: all rows are to come anew."""
        return self._forgotten.exists()

    @property
    def _forgotten(self) -> Path:
        return self.folder / "forgotten"

    def remember(self) -> None:
        """Take it for there again: the table's rows are computed anew, or what was lost may be put back."""
        self._forgotten.unlink(missing_ok=True)

    def load(self, marker: Marker) -> manifest.Manifest:
        """Return that of a marker; raises SQ34… where it is lost."""
        if self._held is not None and self._held[0] == marker.state:
            return self._held[1]
        if marker.state is None:
            found = manifest.empty(bucketing=self.engine.bucketing, buckets=self.engine.buckets)
        else:
            found = manifest.load(self.folder, marker.state)
            manifest.check(found, bucketing=self.engine.bucketing)
        self._held = (marker.state, found)
        return found

    def known(self, marker: Marker) -> manifest.Manifest | None:
        """Return that of a marker, None where it is lost and the first batch will compute it again."""
        try:
            return self.load(marker)
        except SinkqlError as error:
            if not rebuildable(self.job, error):
                raise
            return None

    def after(self, before: manifest.Manifest, outcome: Outcome, *, epoch: int) -> str | None:
        """Save what a batch makes of it; return its name for a marker, None of a job without state."""
        return self.save(manifest.after(before, outcome.runs), epoch=epoch)

    def save(self, found: manifest.Manifest, *, epoch: int) -> str | None:
        """Save one; return its name for a marker, None of a job without state."""
        if not self.job.stateful():
            return None
        name = manifest.save(self.folder, found, epoch=epoch)
        self._held = (name, found)
        return name

    def again(self, marker: Marker, lost: SinkqlError) -> None:
        """Compute that of a marker again, from the sources; raises `lost` where they cannot be read so far back.

        Where the table's rows can be computed anew, that is what its next start does.
        """
        self.progress(SinkRebuilding(self.job.sink, lost))
        try:
            found = rebuild(self.job, self.readers, self.engine, self.folder, marker, lost)
        except LostStateError:
            if not self.job.renewable or not any(reader.whole_now() for reader in self.readers.values()):
                raise
            durable.write(self._forgotten, b"")
            raise forgotten(self.job) from lost
        self._held = (marker.state, found)

    def sweep(self, marker: Marker, before: str | None) -> None:
        """Delete what neither a marker nor the one before it names."""
        if marker.state is None:
            return
        keep = {name for name in (before, marker.state) if name is not None}
        manifest.sweep(self.folder, keep, epoch=marker.epoch)
