"""The indexes of other jobs in which a batch looks up, as of where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sinkql import physical
from sinkql.connector_api.stream import JobOffsets, Offsets, Reader, ViewLogReader
from sinkql.errors import LostStateError
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import IndexRuns, files_of, no_index
from sinkql.state_store.directory import StateDirectory


@dataclass(frozen=True, slots=True)
class IndexLookup:
    """Find the indexes of views in which a job looks up: each view's job keeps its own beside this one's state."""

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    home: StateDirectory

    def indexes_at(self, start: JobOffsets, end: JobOffsets) -> Mapping[str, IndexRuns]:
        """Return those that a batch takes, by arrangement; raises SQ3453 for one that is not there yet."""
        found: dict[str, IndexRuns] = {}
        for index in self._indexes():
            if index.arrangement not in found:
                found[index.arrangement] = self._index(index, start[index.source], end[index.source])
        return found

    def _indexes(self) -> Iterator[physical.Index]:
        for operator in self.job.operators():
            if isinstance(operator, physical.Join):
                yield from (each.index for each in operator.leaves if each.index is not None)

    def _index(self, index: physical.Index, start: Offsets, end: Offsets) -> IndexRuns:
        name, home = index.arrangement, self.home.sibling(index.source)
        if not start["at"]:
            return IndexRuns(home.for_tasks(), name, {}, 1, beginning=True)
        reader = self.readers[index.source]
        assert isinstance(reader, ViewLogReader)
        known = reader.state(end)
        if known is None:
            raise no_index(name)
        try:
            manifest = self._manifest(home, known)
        except LostStateError as error:
            raise no_index(name, error.message) from error
        if (manifest["bucketing"], manifest["hashed"]) != (self.engine.bucketing, home.hash_key.fingerprint):
            raise no_index(name)
        runs = manifest["arrangements"].get(name, {})  # none of a view that never had a row
        if not home.remote:
            home.fetch(
                {file: size for own, each in runs.items() for file, size in files_of(name, int(own), each).items()}
            )
        return IndexRuns(home.for_tasks(), name, runs, int(manifest["buckets"]))

    def _manifest(self, home: StateDirectory, name: str) -> state.Manifest:
        home.fetch({state.file(name): None})
        return state.load(home.folder, name)
