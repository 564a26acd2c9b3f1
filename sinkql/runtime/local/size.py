"""A batch → its size, and whether it changes too much state for this process, which serves all sinks."""

from __future__ import annotations

from sinkql import physical
from sinkql.connector_api.stream import Size
from sinkql.runtime.batch.engine import Batch
from sinkql.runtime.state.arrangement import rows_to_merge
from sinkql.runtime.state.operator import stateful

_BATCH_ROWS = 1 << 15
_MERGED_ROWS = 1 << 20
"""With more rows of state to merge or to delete, Spark runs the batch."""


def size_of(batch: Batch) -> Size | None:
    """Return the estimated size of a batch's input; None if a reader does not know it."""
    return Size.total(batch.readers[source].size(parts) for source, parts in batch.splits.items() if parts)


def too_large(job: physical.Job, batch: Batch) -> str | None:
    """Return None if a batch changes little enough state, else the short reason why Spark runs it."""
    if any(_merged_rows(struct, job, batch) > _MERGED_ROWS for struct in job.graph.stateful()):
        return f"it merges or deletes more than {_MERGED_ROWS} rows of state"
    return None


def _merged_rows(struct: physical.Stateful, job: physical.Job, batch: Batch) -> int:
    """Return the most rows of an operator's state in a bucket that the batch merges or deletes."""
    stored = batch.arrangements.manifest["arrangements"]
    most = 0
    for arrangement in stateful(struct).arrangements:
        inputs = _inputs_of(arrangement.name, struct)
        if not any(_has_rows(input_, job, batch) for input_ in inputs):
            continue  # without rows nothing is merged
        cleared = any(batch.below(input_, job.shared).cleared for input_ in inputs)
        for bucket, entries in stored.get(arrangement.name, {}).items():
            rows = rows_to_merge(entries, int(bucket), _BATCH_ROWS, grows=arrangement.grows)
            most = max(most, sum(int(entry["rows"]) for entry in entries) if cleared else rows)
    return most


def _inputs_of(arrangement: str, struct: physical.Stateful) -> tuple[physical.Operator, ...]:
    """Return the inputs whose rows come into an arrangement."""
    sides = struct.leaves if isinstance(struct, physical.Join) else ()
    return tuple(side.input for side in sides if side.arrangement == arrangement) or struct.entering


def _has_rows(operator: physical.Operator, job: physical.Job, batch: Batch) -> bool:
    reads = physical.reads_below(operator, job.shared)
    return any(batch.splits.get(read.source) or read.source in batch.cleared for read in reads)
