"""Account for all records of a batch before it commits.

read = written + removed + superseded + filtered + dropped + failed. Each task proves that a record became a row, became
none (dropped) or failed (`ReadCounts.settle`). The rows are then followed through the operators. Each stateful
operator, and the write, must take all rows of the operators below, or fewer if a WHERE filters them. If an operator
consolidates rows, as GROUP BY does, fewer are correct too.

The fate of the rows is counted only if each of them is a row of the sink. Behind a GROUP BY, for example, only their
number is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from sinkql import physical
from sinkql.connector_api.source_options import has_dead_letter_table
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.engine import Outcome


@dataclass(frozen=True, slots=True)
class RecordAccount:
    """How many records a batch read, and their fate.

    * `written`: rows added to the table.
    * `removed`: rows only deleted from it.
    * `superseded`: rows whose key a later row has.
    * `stale`: failed records whose key may keep an older row.
    * `dead_letters`: failed records that this commit stored.
    """

    read: int = 0
    written: int = 0
    removed: int = 0
    superseded: int = 0
    filtered: int = 0
    dropped: int = 0
    failed: int = 0
    stale: int = 0
    dead_letters: int = 0

    def counts(self) -> dict[str, int]:
        """Return the counts that the catalog adds up, by name."""
        return {name: count for name, count in asdict(self).items() if name not in ("written", "dead_letters")}


def check_account(job: physical.Job, outcome: Outcome) -> RecordAccount:
    """Return the account of a batch; raises SQ3392 if a row is unaccounted for."""
    source_counts, results = outcome.source_counts, outcome.results
    rows, removed = sum(result.rows for result in results), sum(result.removed for result in results)
    arrived, superseded = _RowFlow(job, outcome).rows_at_sink(), 0
    if all(result.superseded is not None for result in results):
        superseded = sum(result.superseded or 0 for result in results)
        arrived.check(rows + superseded, f'sink "{job.sink}"')
    is_row_by_row = _is_row_by_row(job, outcome)
    if is_row_by_row and job.write.change == "retract":  # the deleted row and the new row of a key count once
        superseded = sum(counts.superseded for counts in outcome.flows.values())
    decoded = sum(source_counts[read.source].decoded for read in _reads(job))
    return RecordAccount(
        read=sum(read_counts.rows for read_counts in source_counts.values()),
        written=rows - removed,
        removed=removed,
        superseded=superseded if is_row_by_row else 0,
        filtered=max(0, decoded - rows - superseded) if is_row_by_row else 0,
        dropped=sum(read_counts.dropped for read_counts in source_counts.values()),
        failed=sum(read_counts.failed for read_counts in source_counts.values()),
        stale=sum(source_counts[read.source].failed for read in job.reads() if read.change == "upsert"),
        dead_letters=sum(source_counts[read.source].failed for read in job.reads() if has_dead_letter_table(read)),
    )


def refresh_account(parts: Iterable[RecordAccount], changed: int) -> RecordAccount:
    """Return the account of a full refresh; `changed` rows differed from the table.

    The rows that the table had already count as superseded. A full refresh stores no dead letters.
    """
    counts = list(parts)
    read, filtered, dropped, failed = (
        sum(getattr(count, name) for count in counts) for name in ("read", "filtered", "dropped", "failed")
    )
    unchanged = read - filtered - dropped - failed - changed
    return RecordAccount(read, changed, 0, max(0, unchanged), filtered, dropped, failed)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The greatest possible number of rows, None if unknown, and whether it is the exact number."""

    most: int | None
    exact: bool

    def check(self, count: int, consumer: str) -> None:
        if self.most is None or count == self.most or (count < self.most and not self.exact):
            return
        raise SinkqlError(
            "SQ3392",
            f"{consumer} was given {self.most} rows, and not all of them can be accounted for",
            detail=f"rows taken: {count}",
        )


@dataclass(frozen=True, slots=True)
class _RowFlow:
    """The rows of a batch at each operator of its job."""

    job: physical.Job
    outcome: Outcome
    _shared: dict[str, _Rows] = field(default_factory=dict)

    def rows_at_sink(self) -> _Rows:
        """Return the rows at the write; raises SQ3392 if an operator took fewer or more than its input has."""
        write = self.job.write
        arrived = self._rows_of(write.input)
        is_consolidated = write.change == "retract" and not isinstance(write.input, physical.Normalize)
        return _Rows(arrived.most, exact=False) if is_consolidated else arrived

    def _rows_of(self, operator: physical.Operator) -> _Rows:
        match operator:
            case physical.Read():
                if self.outcome.deduplicated and operator.key:
                    return _Rows(None, exact=False)
                return _Rows(self.outcome.source_counts[operator.source].decoded, exact=True)
            case physical.Map():
                below = self._rows_of(operator.input)
                return _Rows(below.most, below.exact and operator.where is None)
            case physical.Union():
                return _sum([self._rows_of(source) for source in operator.inputs])
            case physical.Flatten() | physical.Repeat():
                return _Rows(None, exact=False)
            case physical.Use():
                if operator.name not in self._shared:
                    self._shared[operator.name] = self._rows_of(self.job.shared[operator.name])
                return self._shared[operator.name]
            case physical.Stateful():
                return self._stateful(operator)

    def _stateful(self, operator: physical.Stateful) -> _Rows:
        below = _sum([self._rows_of(source) for source in operator.entering])
        counts = self.outcome.flows.get(operator.arrangement)
        if counts is None:
            return _Rows(None, exact=False)
        is_row_by_row = isinstance(operator, physical.Normalize)
        _Rows(below.most, below.exact and is_row_by_row).check(counts.read, f'"{operator.arrangement}"')
        return _Rows(counts.written, exact=True)


def _sum(inputs: Sequence[_Rows]) -> _Rows:
    bounds = [rows.most for rows in inputs if rows.most is not None]
    most = sum(bounds) if len(bounds) == len(inputs) else None
    return _Rows(most, all(rows.exact for rows in inputs))


def _reads(job: physical.Job) -> list[physical.Read]:
    return [operator for operator in job.operators() if isinstance(operator, physical.Read)]


def _is_row_by_row(job: physical.Job, outcome: Outcome) -> bool:
    """Return whether each row that was read becomes at most one row of the sink."""
    stateful = [operator for operator in job.operators() if isinstance(operator, physical.Stateful)]
    if outcome.deduplicated or not all(isinstance(operator, physical.Normalize) for operator in stateful):
        return False
    if job.write.change == "retract":
        return bool(stateful) and len(stateful) == len(_reads(job))
    return all(result.superseded is not None for result in outcome.results)
