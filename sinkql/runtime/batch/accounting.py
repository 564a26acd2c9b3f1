"""What a batch read and wrote → an account of all records, which has to come out before the batch commits.

read = written + removed + superseded + filtered + dropped + failed. That each record is a row, is none (dropped) or
failed, each task proves (`Tally.settle`). From there on the rows are followed through the operators: each that keeps
state, and the write, takes as many as are given below it, or fewer where a WHERE lets fewer through. Where rows are
added up, as by GROUP BY, fewer may be as good as all.

What becomes of the rows can be told as long as each is one of the sink's: of the others, as behind a GROUP BY, it is
told how many there were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.engine import Outcome


@dataclass(frozen=True, slots=True)
class RecordAccount:
    """How many records a batch read, and what became of them; `stale` keys may keep an older row for one that failed.

    `written` rows came, `removed` ones only went. Of those that are `superseded` a later one has the key.
    """

    read: int = 0
    written: int = 0
    removed: int = 0
    superseded: int = 0
    filtered: int = 0
    dropped: int = 0
    failed: int = 0
    stale: int = 0

    def counts(self) -> dict[str, int]:
        """Return all but the rows written, by name."""
        return {name: count for name, count in asdict(self).items() if name != "written"}


def check_account(job: physical.Job, outcome: Outcome) -> RecordAccount:
    """Return the account of a batch; raises SQ3392 where it does not come out."""
    tallies, results = outcome.tallies, outcome.results
    rows, removed = sum(each.rows for each in results), sum(each.removed for each in results)
    came, superseded = _Following(job, outcome).to_the_sink(), 0
    if all(each.superseded is not None for each in results):
        superseded = sum(each.superseded or 0 for each in results)
        came.check(rows + superseded, f'sink "{job.sink}"')
    told = _told(job, outcome)
    if told and job.write.change == "retract":  # a row that goes and the one that comes are one of these
        superseded = sum(each.superseded for each in outcome.flows.values())
    given = sum(tallies[each.source].given for each in _reads(job))
    return RecordAccount(
        read=sum(tally.rows for tally in tallies.values()),
        written=rows - removed,
        removed=removed,
        superseded=superseded if told else 0,
        filtered=max(0, given - rows - superseded) if told else 0,
        dropped=sum(tally.dropped for tally in tallies.values()),
        failed=sum(tally.failed for tally in tallies.values()),
        stale=sum(tallies[read.source].failed for read in job.reads() if read.change == "upsert"),
    )


def refresh_account(parts: Iterable[RecordAccount], changed: int) -> RecordAccount:
    """Return the account of rows that were read again in parts, of which `changed` ones were others in the table.

    Those that were there already are superseded: by themselves.
    """
    found = list(parts)
    read, filtered, dropped, failed = (
        sum(getattr(each, name) for each in found) for name in ("read", "filtered", "dropped", "failed")
    )
    left = read - filtered - dropped - failed - changed
    return RecordAccount(read, changed, 0, max(0, left), filtered, dropped, failed)


@dataclass(frozen=True, slots=True)
class _Rows:
    """How many rows there are at most, and whether there are no fewer; None where it is not known."""

    most: int | None
    exact: bool

    def check(self, taken: int, who: str) -> None:
        if self.most is None or taken == self.most or (taken < self.most and not self.exact):
            return
        raise SinkqlError(
            "SQ3392",
            f"{who} was given {self.most} rows, and not all of them can be accounted for",
            detail=f"{taken} were taken",
        )


@dataclass(frozen=True, slots=True)
class _Following:
    """Follow the rows of a batch through the operators of its job."""

    job: physical.Job
    outcome: Outcome
    _shared: dict[str, _Rows] = field(default_factory=dict)

    def to_the_sink(self) -> _Rows:
        """Return what comes to the write; raises SQ3392 where an operator took fewer or more than there was."""
        write = self.job.write
        found = self._of(write.input)
        added_up = write.change == "retract" and not isinstance(write.input, physical.Normalize)
        return _Rows(found.most, exact=False) if added_up else found

    def _of(self, operator: physical.Operator) -> _Rows:
        match operator:
            case physical.Read():
                if self.outcome.settled and operator.key:
                    return _Rows(None, exact=False)
                return _Rows(self.outcome.tallies[operator.source].given, exact=True)
            case physical.Map():
                below = self._of(operator.input)
                return _Rows(below.most, below.exact and operator.where is None)
            case physical.Union():
                parts = [self._of(each) for each in operator.inputs]
                known = [each.most for each in parts if each.most is not None]
                most = sum(known) if len(known) == len(parts) else None
                return _Rows(most, all(each.exact for each in parts))
            case physical.Flatten() | physical.Repeat():
                return _Rows(None, exact=False)
            case physical.Use():
                if operator.name not in self._shared:
                    self._shared[operator.name] = self._of(self.job.shared[operator.name])
                return self._shared[operator.name]
            case physical.Stateful():
                return self._stateful(operator)

    def _stateful(self, operator: physical.Stateful) -> _Rows:
        parts = [self._of(each) for each in operator.entering]
        known = [each.most for each in parts if each.most is not None]
        below = _Rows(sum(known) if len(known) == len(parts) else None, all(each.exact for each in parts))
        flow = self.outcome.flows.get(operator.arrangement)
        if flow is None:
            return _Rows(None, exact=False)
        one_by_one = isinstance(operator, physical.Normalize)
        _Rows(below.most, below.exact and one_by_one).check(flow.taken, f'"{operator.arrangement}"')
        return _Rows(flow.given, exact=True)


def _reads(job: physical.Job) -> list[physical.Read]:
    return [each for each in job.operators() if isinstance(each, physical.Read)]


def _told(job: physical.Job, outcome: Outcome) -> bool:
    """Tell whether each row that was read becomes one of the sink's at most."""
    stateful = [each for each in job.operators() if isinstance(each, physical.Stateful)]
    if outcome.settled or not all(isinstance(each, physical.Normalize) for each in stateful):
        return False
    if job.write.change == "retract":
        return bool(stateful) and len(stateful) == len(_reads(job))
    return all(each.superseded is not None for each in outcome.results)
