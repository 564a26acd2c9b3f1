"""Find the indexes of other jobs that a batch reads, as of the batch's end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sinkql import physical
from sinkql.connector_api.stream import JobOffsets, Offsets, Reader
from sinkql.errors import LostStateError
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import IndexRuns, files_of, no_index
from sinkql.state_store.directory import StateDirectory


@dataclass(frozen=True, slots=True)
class IndexLookup:
    """Finds the indexes that a job looks up. Each is in the state directory of its view's job, beside this job's."""

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    home: StateDirectory

    def indexes_at(self, start: JobOffsets, end: JobOffsets) -> Mapping[str, IndexRuns]:
        """Return the indexes of a batch, by arrangement; raises SQ3453 if one does not exist yet."""
        indexes: dict[str, IndexRuns] = {}
        for index in self._indexes():
            if index.arrangement not in indexes:
                indexes[index.arrangement] = self._find(index, start[index.source], end[index.source])
        return indexes

    def _indexes(self) -> Iterator[physical.Index]:
        for operator in self.job.operators():
            if isinstance(operator, physical.Join):
                yield from (side.index for side in operator.leaves if side.index is not None)

    def _find(self, index: physical.Index, start: Offsets, end: Offsets) -> IndexRuns:
        name, home = index.arrangement, self.home.sibling(index.source)
        if not start["at"]:
            return IndexRuns(home.for_tasks(), name, {}, 1, beginning=True)
        view_log = self.readers[index.source].view_log
        state_name = view_log.state_at(end) if view_log is not None else None
        if state_name is None:
            raise no_index(name)
        try:
            manifest = self._load(home, state_name)
        except LostStateError as error:
            raise no_index(name, error.message) from error
        if (manifest["bucketing"], manifest["hashed"]) != (self.engine.bucketing, home.hash_key.fingerprint):
            raise no_index(name)
        runs = manifest["arrangements"].get(name, {})  # absent if the view never had a row
        if not home.remote:
            home.fetch(
                {
                    file: size
                    for bucket, entries in runs.items()
                    for file, size in files_of(name, int(bucket), entries).items()
                }
            )
        return IndexRuns(home.for_tasks(), name, runs, int(manifest["buckets"]))

    def _load(self, home: StateDirectory, name: str) -> state.Manifest:
        home.fetch({state.file(name): None})
        return state.load(home.folder, name)
